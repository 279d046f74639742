# SPDX-License-Identifier: BSD-2-Clause
# durable_ping: comments on an idle stream, none on one that has just been written to, and none
# that keeps a worker alive which is to quit.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableServer;
use Http2Client;
use Test::More;
use Time::HiRes qw(time sleep);

my $locations = $ChannelCalls::server . join '', map {
    my ($path, $more) = @$_;
    "location = /$path { $more; durable_object main o; durable_subscribe \$arg_channel; }"
} ['pinged', 'durable_ping 200ms'], ['limited', 'durable_ping 200ms; limit_rate 100k'], ['long', 'durable_ping 1h'];
my $server = DurableServer->start(
    workers => 1, server => $locations,
    http => $ChannelCalls::http . 'server { listen 127.0.0.1:{{port_tls}} ssl http2; listen 127.0.0.1:{{port_h2}} http2;'
        . "ssl_certificate {{cert}}; ssl_certificate_key {{key}}; $locations }",
);

# Comments come each 200 ms; the first one belongs to the start.
for my $case (['HTTP/1.1'], ['HTTP/1.0', version => '1.0'], ['TLS', port => $server->port('tls'), tls => 1],
              ['limit_rate', path => '/limited?channel=a']) {
    my ($name, %how) = @$case;
    my $start = time;
    my $stream = subscribe($server, 'a', path => '/pinged?channel=a', %how);
    ok($stream->wait_comments(4, 5), "$name: an idle stream is pinged");
    my $took = time - $start;
    cmp_ok($took, '>=', 0.59, "$name: not more often than it should");
    cmp_ok($took, '<', 2, "$name: nor less");
    is($stream->next_event(0), undef, "$name: a ping is no event");
}
for my $how ({port => $server->port('h2')}, {port => $server->port('tls'), tls => 1}) {
    my $h2 = Http2Client->connect(%$how);
    my $id = $h2->request(path => '/pinged?channel=a');
    my $start = time;
    ok($h2->wait_data($id, 4 * 4, 5), 'HTTP/2: an idle stream is pinged');
    cmp_ok(time - $start, '>=', 0.55, 'HTTP/2: not more often than it should');
    is($h2->data($id), ": \n\n" x 4, 'HTTP/2: by comments');
}

# A stream that is written to all the time needs none.
my $busy = subscribe($server, 'busy', path => '/pinged?channel=busy');
ok($busy->wait_comments(1, 5), 'the first comment');
for (1 .. 20) {
    publish($server, 'busy', 'x');
    sleep 0.05;
}
is(scalar(() = $busy->next_texts(20, 5)), 20, 'a busy stream gets its messages');
is(scalar(() = $busy->comments), 1, 'and no ping between them');
ok($busy->wait_comments(2, 5), 'but one when it becomes idle');

# Without pings
my $silent = subscribe($server, 'silent');
ok($silent->wait_comments(1, 5), 'ping 0: the first comment');
is($silent->next_event(0.6), undef, 'ping 0: nothing');
is(scalar(() = $silent->comments), 1, 'ping 0: no other one');

# The timer of a ping does not hold a worker that is to quit.
my $stays = subscribe($server, 'long', path => '/long?channel=long');
my ($old) = $server->worker_pids;
ok($server->reload, 'a reload with open streams');
is($_->wait_end(5), 'end', 'ends them') for $stays, $silent, $busy;
ok($server->wait_gone($old, 5), 'and the old worker leaves');

$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');
done_testing();
