# SPDX-License-Identifier: BSD-2-Clause
# A reload that resizes a zone gives the new workers a new, empty one; the old ones keep theirs
# until they leave. A reload that fails changes nothing.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableServer;
use SseClient;
use Test::More;

my $http = 'durable_ping 0; server { listen 127.0.0.1:{{port_slow}} sndbuf=8k;' . " $ChannelCalls::server }";
my $server = DurableServer->start(workers => 2, http => "durable_zone main 2m; $http", server => $ChannelCalls::server);

for my $size ('4m', '1m', '3m') {
    my @old = $server->worker_pids;
    my $stream = subscribe($server, 'a');
    # It holds its old worker and its old zone for a while.
    my $slow = SseClient->open(port => $server->port('slow'), path => '/sub?channel=a', rcvbuf => 4096);
    ok($slow->wait_comments(1, 5), "$size: a slow client");
    my @texts = map { "$_ " . 'x' x 1000 } 1 .. 300;
    publish($server, 'a', $_) for @texts;
    is_deeply([$stream->next_texts(300, 10)], \@texts, "$size: a fast one has got all");
    ok($server->reload(http => "durable_zone main $size; $http"), "reload to $size");
    is($stream->wait_end(5), 'end', "$size: the old stream ends");
    is(publish($server, 'a', 'x'), 0, "$size: the new zone is empty");
    my $new = subscribe($server, 'a');
    is(publish($server, 'a', 'new'), 1, "$size: and works");
    ok(reads($new, 'new'), "$size: to the reader");
    my @got = map { $_->{data} } grep { defined } map { $slow->next_event(5) } 1 .. 300;
    is_deeply(\@got, [@texts[0 .. $#got]], "$size: the slow one gets whole messages from the old zone: " . @got);
    is($slow->wait_end(5), 'end', "$size: and ends whole");
    ok($server->wait_gone($_, 10), "$size: an old worker leaves") for @old;
}

# Refused reloads: a zone's size below the least, an error after the zones, and both.
my $stream = subscribe($server, 'a');
ok(!$server->reload(http => "durable_zone main 1k; $http"), 'too small a zone is refused');
ok(!$server->reload(http => "durable_zone main 5m; durable_zone other 1m; nonsense; $http"), 'an error behind a resize');
is(publish($server, 'a', 'still'), 1, 'the old configuration serves on');
ok(reads($stream, 'still'), 'with its streams');

# A zone that comes and goes
ok($server->reload(http => "durable_zone main 3m; durable_zone other 1m; $http"), 'one more zone');
ok($server->reload(http => "durable_zone main 3m; $http"), 'and gone again');
ok($server->reload(http => "durable_zone main 3m channels=100 subscriptions=300 backlog=2m; $http"), 'other limits');
$stream = subscribe($server, 'a');
is(publish($server, 'a', 'x'), 1, 'works');

my $descriptors = sub { scalar(() = glob '/proc/' . $server->master_pid . '/fd/*') };
my $before = $descriptors->();
for (1 .. 5) { $server->reload(http => "durable_zone main $_" . "m; $http") }
ok(NginxProcess::wait_until(10, sub { $descriptors->() <= $before }), 'once the old workers have left the master has no more open files than before');

$server->no_alerts('no alert but the refusals', qr/it must be a size of at least 1m|unknown directive "nonsense"/);
ok($server->stop, 'nginx ends at QUIT');
done_testing();
