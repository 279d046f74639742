# SPDX-License-Identifier: BSD-2-Clause
# The store's file when it cannot be used, and the events API without one (E-1, E-3): a clear 503 and a
# line in the log, never a crash, and all is well again once the cause is gone.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use EventsApi;
use File::Path qw(make_path);
use Test::More;

my $json = EventsApi::json();
sub refusal { my ($answer) = @_; return "$answer->{status} " . ($answer->{json}{code} // '') }
sub wait_ok { my ($who, $seconds) = @_; return NginxProcess::wait_until($seconds // 5, sub { $who->call(GET => 'fetch?subject=topic:a')->{status} == 200 }) }

# ---- E-3

{
    my $server = DurableServer->start(http => 'durable_zone main 1m;', server => <<'END');
        location /events/ { durable_events; durable_identity $http_account; }
        location /durable/ { durable_api; }
END
    for my $call (['POST', '/events/subscribe'], ['POST', '/events/unsubscribe'], ['GET', '/events/subscriptions'], ['GET', '/events/fetch'],
                  ['GET', '/events/stream'], ['POST', '/events/ack'], ['POST', '/durable/events'], ['POST', '/durable/events/suspend'], ['POST', '/durable/events/resume']) {
        my $answer = EventsApi::answer(http_request($server->port, @$call, headers => ['Account', 'a'], $call->[0] eq 'POST' ? (body => '{}') : ()));
        is(refusal($answer), '503 events_disabled', "E-3: $call->[1]");
        is($answer->{headers}{'content-type'}, 'application/json', 'E-5: as JSON');
    }
    $server->stop;
    my $bare = DurableServer->start(server => 'location /events/ { durable_events; }');
    is(refusal(EventsApi::answer(http_request($bare->port, 'GET', '/events/fetch'))), '503 events_disabled', 'E-3: without a zone');
    $bare->stop;
}

# ---- files that are no store

for my $workers (1, 2) {
    my $api = EventsApi->start(workers => $workers);
    my $who = $api->caller('a');
    ok($who->subscribe(subject => 'topic:a'), 'a row');

    my %bad = (
        'no database' => sub { my ($path) = @_; open my $out, '>', $path; print $out 'nonsense' x 1000; close $out },
        'one of another program' => sub { my ($path) = @_; system 'sqlite3', $path, 'CREATE TABLE other(x)' },
        'one of a newer version' => sub { my ($path) = @_; system "cp '@{[$api->path]}' '$path' && sqlite3 '$path' 'PRAGMA user_version = 99'" },
        'a folder' => sub { my ($path) = @_; mkdir $path },
    );
    for my $what (sort keys %bad) {
        my $name = $what =~ s/\W/_/gr;
        $bad{$what}->($api->server->prefix . "/$name");
        my $offset = length $api->server->error_log;
        ok($api->reload(path => "{{prefix}}/$name"), "E-1: $what: nginx takes it");
        my $answer = $who->call(GET => 'fetch?subject=topic:a');
        is(refusal($answer), '503 store_failed', "E-1: $what");
        is(refusal($who->call(POST => 'subscribe', {subject => 'topic:a'})), '503 store_failed', "E-1: $what: writing");
        is(refusal($who->call(GET => 'stream?subject=topic:a')), '503 store_failed', "E-1: $what: a stream");
        is(refusal($api->operator('events', {subject => 'topic:a'})), '503 store_failed', "E-1: $what: publishing");
        like(substr($api->server->error_log, $offset), qr/\[error\].*durable: store ".*$name" cannot be used: \S/, "E-1: $what: the log says why");
    }
    like($api->server->error_log, qr/is of version 99, newer than this module's 1/, 'E-1: a newer version is named');

    ok($api->reload(path => '{{prefix}}/store.db'), 'the right one again');
    is(scalar($who->rows), 1, 'E-1: its rows are there');

    SKIP: {
        skip 'root may write any file', 1 if $> == 0;
        chmod 0444, $api->path;
        is(refusal($who->call(POST => 'subscribe', {subject => 'topic:a'})), '503 store_failed', 'E-1: read-only');
        chmod 0600, $api->path;
    }

    # A folder that goes away, and comes back with the store in it.
    make_path($api->server->prefix . '/data');
    ok($api->reload(path => '{{prefix}}/data/store.db'), 'a store in a folder');
    ok($who->call(POST => 'subscribe', {subject => 'topic:b'})->{status} == 200, 'a row there');
    my ($data, $away) = map { $api->server->prefix . "/$_" } qw(data away);
    rename $data, $away or die $!;
    $api->server->kill_worker($_) for $api->server->worker_pids;
    is(refusal($who->call(GET => 'subscriptions')), '503 store_failed', 'E-1: without its folder');
    rename $away, $data or die $!;
    ok(wait_ok($who), 'E-1: with it again');
    # Each worker opens it again by itself, within a second.
    my $is_whole = NginxProcess::wait_until(5, sub {
        my $answer = $who->call(GET => 'subscriptions');
        return $answer->{status} == 200 && @{$answer->{json}{items}} == 1;
    });
    ok($is_whole, 'E-1: nothing is lost');
    $api->server->no_alerts(undef, qr/exited on signal 9/);
    ok($api->server->stop, 'nginx ends in time');
}

# ---- a full disk

SKIP: {
    skip 'needs root, for a small file system', 8 if $> != 0;
    my $folder = File::Temp::tempdir('durable-disk-XXXXXX', TMPDIR => 1, CLEANUP => 1);
    skip 'no file system can be mounted here', 8 if system("mount -t tmpfs -o size=2m none '$folder' 2>/dev/null") != 0;
    my $done = eval {
        my $api = EventsApi->start(workers => 2, path => "$folder/store.db");
        my $who = $api->caller('a');
        my $topic = 'topic:full';
        my $made = 0;
        my ($answer, @acknowledged);
        for (1 .. 200) {
            $answer = $api->operator('events', {subject => $topic, data => 'x' x 30000});
            last if $answer->{status} != 200;
            push @acknowledged, $answer->{json}{id};
        }
        is(refusal($answer), '503 store_failed', 'E-1: a full disk');
        ok(@acknowledged > 5, 'E-1: after some events');
        is(refusal($who->call(POST => 'subscribe', {subject => $topic, context => 'y' x 4000})), '503 store_failed', 'E-1: rows too') for 1;
        is($who->call(GET => 'subscriptions')->{status}, 200, 'E-1: reading goes on');
        my @items;
        for (my $after = ''; ; ) {
            my $page = $who->call(GET => "fetch?subject=$topic&limit=200" . ($after && "&after=$after"))->{json};
            push @items, @{$page->{items}};
            $after = $page->{cursor} or last;
        }
        my %there = map { $_->{id} => 1 } @items;
        is(scalar(grep { !$there{$_} } @acknowledged), 0, 'E-1: what was acknowledged is there');
        system "mount -o remount,size=16m '$folder'";
        ok(NginxProcess::wait_until(5, sub { $who->call(POST => 'subscribe', {subject => $topic})->{status} == 200 }), 'E-1: with room again all is well');
        $api->server->no_alerts;
        ok($api->server->stop, 'nginx ends in time');
        1;
    };
    diag($@) if !$done;
    ok($done, 'to the end');
    system "umount '$folder'";
}

done_testing;
