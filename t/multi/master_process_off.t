# SPDX-License-Identifier: BSD-2-Clause
# master_process off behaves like one worker, apart from resizing or dropping a zone by reload.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableServer;
use Test::More;

my $server = DurableServer->start(
    workers => 1, main => 'master_process off;', http => $ChannelCalls::http, server => $ChannelCalls::server);

my $stream = subscribe($server, 'a');
is(publish($server, 'a', 'one'), 1, 'published');
ok(reads($stream, 'one'), 'and received');
$stream->client->close;
ok(wait_count($server, 'a', 0), 'a client that leaves is noticed');

sub reload_is_refused {
    my ($http, $zone, $name) = @_;
    my $offset = length $server->error_log;
    $server->{args}{http} = $http;
    $server->write_conf;
    kill 'HUP', $server->master_pid;
    ok(NginxProcess::wait_until(5, sub {
        substr($server->error_log, $offset) =~ /"durable_zone" "$zone" cannot be resized or removed by a reload with "master_process off"/
    }), $name);
}

$stream = subscribe($server, 'a');
reload_is_refused('durable_zone main 9m; durable_ping 0;', 'main', 'a reload that resizes a zone is refused');
reload_is_refused('durable_zone more 8m; durable_zone main 4m; durable_ping 0;', 'main', 'also with another one');
is(publish($server, 'a', 'two'), 1, 'the old configuration serves on');
ok(reads($stream, 'two'), 'with its streams');

ok($server->stop('TERM'), 'nginx ends at TERM');
$server->no_alerts('no alert but the refusals', qr/cannot be resized or removed/);
done_testing();
