# SPDX-License-Identifier: BSD-2-Clause
# kill -9 of a worker ends its own streams only; its subscriptions are gone from the counts within
# a second, and everything else goes on (C-10).
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableClient;
use DurableServer;
use Test::More;
use Time::HiRes qw(time);

my $server = DurableServer->start(workers => 3, http => $ChannelCalls::http, server => $ChannelCalls::server);
my ($killed, $other, $third) = $server->worker_pids;
my %stream;
for my $worker ($killed, $other, $third) {
    push @{$stream{$worker}}, subscribe($server, 'a', client => $server->connect_to_worker($worker)) for 1 .. 3;
}
my $publisher = $server->connect_to_worker($other);
is(publish_through($publisher, 'a', 'one'), 9, 'three streams in each worker');

kill 'KILL', $killed;
my $start = time;
my $delivered;
my $messages = 0;
NginxProcess::wait_until(5, sub { ++$messages; ($delivered = publish_through($publisher, 'a', "n$messages")) == 6 });
is($delivered, 6, 'the dead ones are not counted any more');
cmp_ok(time - $start, '<', 1.5, 'within a second');
for my $stream (@{$stream{$killed}}) {
    ok(reads($stream, 'one'), 'a stream of the killed worker has what it had');
    is($stream->wait_end(5), 'cut', 'and is cut off');
}
for my $stream (map { @{$stream{$_}} } $other, $third) {
    ok(reads($stream, 'one'), 'a stream of another worker');
    is_deeply([$stream->next_texts($messages, 5)], [map { "n$_" } 1 .. $messages], 'has missed nothing and got nothing twice');
}
ok($server->wait_workers(3), 'the worker is replaced');
my $again = subscribe($server, 'a');
is(publish($server, 'a', 'again'), 7, 'a reconnected client counts');
ok(reads($again, 'again'), 'and reads on');

# Again and again, in the middle of traffic: those who stay see every message in order.
my $reader = subscribe($server, 'b', client => $server->connect_to_worker($other));
$publisher = $server->connect_to_worker($other);
my $number = 0;
for my $round (1 .. 12) {
    my ($victim) = grep { $_ != $other } $server->worker_pids;
    my @doomed = map { subscribe($server, 'b', client => $server->connect_to_worker($victim)) } 1 .. 5;
    my $doomed_publisher = $server->connect_to_worker($victim);
    # It is killed with publishes under way, in itself and in the other worker.
    $doomed_publisher->write(join '', map { "POST /pub?channel=c HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx" } 1 .. 100);
    publish_through($publisher, 'b', ++$number) for 1 .. 20;
    kill 'KILL', $victim;
    publish_through($publisher, 'b', ++$number) for 1 .. 20;
    ok($server->wait_gone($victim) && $server->wait_workers(3), "round $round: killed and replaced");
    is(scalar(grep { defined $_->wait_end(5) } @doomed), 5, "round $round: its streams are over");
}
is_deeply([$reader->next_texts($number, 10)], [1 .. $number], 'a stream of the worker that lives saw every message once, in order');
ok(NginxProcess::wait_until(5, sub { publish_through($publisher, 'b', '') == 1 }), 'no dead subscription is left');

# All workers at once: whoever comes first finds what they left.
my @all = map { subscribe($server, 'a') } 1 .. 5;
kill 'KILL', $server->worker_pids;
ok(defined $_->wait_end(5), 'all workers killed: a stream is over') for @all;
ok($server->wait_workers(3), 'all are replaced');
my $fresh = subscribe($server, 'a');
is(publish($server, 'a', 'fresh'), 1, 'nothing of the dead is left');
ok(reads($fresh, 'fresh'), 'and it works');

$server->no_alerts('no alert but that of the killed', qr/exited on signal 9/);
ok($server->stop, 'nginx ends at QUIT');
done_testing();
