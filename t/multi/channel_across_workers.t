# SPDX-License-Identifier: BSD-2-Clause
# Publishing in one worker reaches the streams of all (C-15), in one order for all (C-16).
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableServer;
use Test::More;

my $server = DurableServer->start(workers => 3, http => $ChannelCalls::http, server => $ChannelCalls::server);
my @workers = $server->worker_pids;
my %publisher = map { $_ => $server->connect_to_worker($_) } @workers;

# One stream in each worker, published to through each.
my %stream = map { $_ => subscribe($server, 'a', client => $server->connect_to_worker($_)) } @workers;
for my $from (@workers) {
    is(publish_through($publisher{$from}, 'a', "from $from"), 3, 'a publish counts the streams of all workers');
    is(scalar(grep { reads($stream{$_}, "from $from") } @workers), 3, 'and reaches all');
}

# Many messages by all publishers at once, not waiting for answers.
my $each = 200;
for my $i (1 .. $each) {
    for my $from (@workers) {
        my $text = "$from $i";
        $publisher{$from}->send_request('POST', '/pub?channel=a', body => $text);
    }
}
my %got;
for my $worker (@workers) { $got{$worker} = [$stream{$worker}->next_texts($each * @workers, 20)] }
for my $worker (@workers) {
    is(scalar @{$got{$worker}}, $each * @workers, 'a stream got as many as were published');
    is_deeply($got{$worker}, $got{$workers[0]}, 'C-16 all streams see the same order');
    for my $from (@workers) {
        is_deeply([grep { /^$from / } @{$got{$worker}}], [map { "$from $_" } 1 .. $each], 'C-16 and one publisher keeps its own');
    }
}
for my $from (@workers) {
    my @delivered = map { $publisher{$from}->read_response(5)->{body} } 1 .. $each;
    is_deeply(\@delivered, [('{"delivered":3}') x $each], 'each answer counts all three');
}

# C-9, C-8
is(publish($server, 'b', 'x'), 0, 'C-8 no channel, nobody');
my $late = subscribe($server, 'a');
is(publish($server, 'a', 'now'), 4, 'one more stream');
ok(reads($late, 'now'), 'C-11 which gets nothing from before it came');
is(scalar(grep { reads($stream{$_}, 'now') } @workers), 3, 'the others go on');

$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');
is($_->wait_end(5), 'end', 'and so do the streams, whole') for values %stream, $late;
done_testing();
