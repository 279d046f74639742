# SPDX-License-Identifier: BSD-2-Clause
# E-2: a worker's event loop never waits for SQLite. While another process holds the store's lock,
# calls that need it wait, and all else of the same worker goes on.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient;
use EventsApi;
use Test::More;

my $api = EventsApi->start(workers => 1);
my $who = $api->caller('a');
ok($who->subscribe(subject => 'topic:a'), 'a store');
my $stream = $who->stream('topic:a');
my $idle = DurableClient->connect(port => $api->port);

# sqlite3 keeps its transaction open for as long as it is told nothing.
open my $holder, '|-', 'sqlite3', $api->path or die "sqlite3: $!";
my $held = $api->server->prefix . '/held';
syswrite $holder, "BEGIN EXCLUSIVE;\n.shell touch $held\n";
ok(NginxProcess::wait_until(5, sub { -e $held }), 'another process holds its lock');

my @calls = map {
    my $client = DurableClient->connect(port => $api->port);
    $client->send_request('POST', $_->[0], headers => ['Account', 'a'], body => $_->[1]);
    $client;
} (['/events/subscribe', '{"subject":"topic:b"}'], ['/durable/events', '{"subject":"topic:a"}']);
for my $round (1 .. 50) {
    is($idle->request('GET', '/_worker')->{status}, 200, "E-2: the loop goes on, round $round") or last;
}
ok($_->is_quiet(0.05), 'E-2: a call that writes waits') for @calls;

syswrite $holder, "COMMIT;\n";
close $holder;
is($_->read_response(10)->{status}, 200, 'E-2: and is answered once the lock is free') for @calls;
ok($stream->next_event(10), 'E-2: what was published arrives');
$api->server->no_alerts;

# Nor is SQLite called, or its header read, by what runs there.
my $module = "$FindBin::Bin/../../ngx_module";
my @calling = grep { NginxProcess::slurp($_) =~ /sqlite3/ } glob "$module/*.cpp $module/*.h";
is("@calling", '', 'E-2: ngx_module knows no SQLite');
done_testing;
