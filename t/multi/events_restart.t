# SPDX-License-Identifier: BSD-2-Clause
# The events API across reloads and deaths (E-1, E-33, E-35 to E-37): handlers that leave the configuration and
# come back, the deliverer's death, kill -9 of workers in the middle of everything.
# DURABLE_KILLS=100 kills so many workers instead of 25.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient;
use EventsApi;
use Test::More;
use Time::HiRes qw(sleep time);

my $killed = qr/exited on signal 9/;
sub suspension { my ($who, $row) = @_; my $now = $who->row($row) or return 'gone'; return $now->{suspendedReason} // '' }
sub data { my (@calls) = @_; return map { $_->{json}{event}{data} } grep { ($_->{json}{event}{op} // '') ne 'gap' } @calls }

for my $workers (1, 2) {
    my $api = EventsApi->start(workers => $workers);
    my $who = $api->caller('a');

    # ---- a handler that is gone, and back
    my $row = $who->subscribe(subject => 'topic:gone', delivery => 'single', handlerName => 'h1', targets => ['worker']);
    my $kept = $who->subscribe(subject => 'topic:kept', delivery => 'single', handlerName => 'h0', targets => ['worker']);
    my $url = $api->hook_url('h0');
    ok($api->reload(handlers => "durable_handler h0 $url;"), 'a reload without h1');
    ok($who->wait_suspension($row, 'handler_not_found'), 'handler_not_found: its rows are suspended');
    is(suspension($who, $kept), '', 'the others not');
    is($api->operator('events/resume', {account => 'a'})->{json}{changed}, 0, 'and cannot be resumed by an operator');
    is($api->publish(subject => 'topic:gone', data => $_)->{matched}, 0, 'not delivered to') for 1 .. 103;
    is($who->call(POST => 'subscribe', {subject => 'topic:x', handlerName => 'h1'})->{json}{code}, 'events_handler_not_found', 'E-9: as configured now');
    ok($api->reload(handlers => undef), 'a reload with it');
    ok($who->wait_suspension($row, ''), 'it comes back');
    is_deeply([data($api->wait_hooks('h1', 100, 20))], [4 .. 103], 'with the newest 100 of its backlog, in order');

    # ---- failures, and a definition that changes
    my $failing = $who->subscribe(subject => 'topic:failing', delivery => 'single', handlerName => 'h2', targets => ['worker']);
    $api->hook_status(h2 => 404);
    $api->publish(subject => 'topic:failing', data => $_) for 1 .. 6;
    ok($who->wait_suspension($failing, 'failures'), 'suspended for failures');
    ok($api->reload, 'a reload that changes nothing');
    sleep 1;
    is(suspension($who, $failing), 'failures', 'nor does it there');
    $api->hook_status(h2 => 200);
    my $handlers = join ' ', map { "durable_handler h$_ " . $api->hook_url("h$_") . " secret=other;" } 0 .. 3;
    ok($api->reload(handlers => $handlers), 'a reload with other definitions');
    ok($who->wait_suspension($failing, ''), 'failures: another definition resumes');
    ok(NginxProcess::wait_until(10, sub { grep { $_ eq '6' } grep { defined } data($api->hooks('h2')) }), 'with what was owed');

    # ---- the deliverer's death in the middle of a call (E-36)
    $api->hook_status(h3 => 'hang');
    $who->subscribe(subject => 'topic:death', delivery => 'single', handlerName => 'h3', targets => ['worker']);
    $api->publish(subject => 'topic:death', data => $_) for 1 .. 3;
    is(scalar($api->wait_hooks('h3', 1)), 1, 'a call is under way');
    $api->hook_status(h3 => 200);
    my $since = time;
    kill 'KILL', $api->server->worker_pids;
    ok(NginxProcess::wait_until(8, sub { $api->hooks('h3') >= 4 }), 'E-36: another process takes over');
    ok(time - $since < 5.5, 'E-36: within 5 s');
    is_deeply([data($api->hooks('h3'))], [1, 1, 2, 3], 'E-33: at least once, in order');
    $api->server->wait_workers($workers);
    $api->server->no_alerts(undef, $killed);

    # ---- live streams when workers leave
    my $stream = $who->stream('topic:live');
    $api->publish(subject => 'topic:live', data => 1);
    my $got = $who->delivery($stream);
    ok($api->reload, 'a reload');
    is($stream->wait_end(5), 'end', 'streams end with their worker, whole');
    $api->publish(subject => 'topic:live', data => 2);
    my $again = $who->stream('topic:live', last_id => $got->{id});
    is($who->delivery($again)->{event}{data}, 2, 'E-30: and go on where they were');
    ok($api->server->stop, 'nginx ends in time');
}

# ---- kill -9 at random

{
    my $api = EventsApi->start(workers => 2, handlers => undef);
    my @who = map { $api->caller("k$_") } 0 .. 3;
    my @rows = map { $who[$_]->subscribe(subject => "topic:k$_", delivery => 'single', handlerName => "h$_", targets => ['worker']) } 0 .. 3;
    my $kills = $ENV{DURABLE_KILLS} // 25;
    my (@acknowledged, %rows, $sent);
    for my $kill (1 .. $kills) {
        my $n = $kill % 4;
        my $until = time + rand 0.15;
        do {
            my $answer = eval { $api->operator('events', {subject => "topic:k$n", data => ++$sent}, timeout => 5) };
            push @acknowledged, $sent if $answer && $answer->{status} == 200;
            if ($sent % 10 == 0) {
                my $row = eval { $api->caller("r$kill")->call(POST => 'subscribe', {subject => 'topic:row'}, timeout => 5) };
                $rows{$row->{json}{subId}} = "r$kill" if $row && $row->{status} == 200;
            }
        } while time < $until;
        my @pids = $api->server->worker_pids;
        my @victims = $kill % 5 == 0 ? @pids : $pids[rand @pids] // next;
        # A publish may be under way in one of them.
        my $client = eval { DurableClient->connect(port => $api->port) };
        $client->send_request('POST', '/durable/events', body => EventsApi::json()->encode({subject => "topic:k$n", data => ++$sent})) if $client;
        kill 'KILL', grep { defined } @victims;
        $api->server->wait_workers(2) or last;
    }
    ok(@acknowledged >= $kills, scalar(@acknowledged) . ' acknowledged publishes');
    my %there;
    my $complete = NginxProcess::wait_until(60, sub {
        %there = map { $_ => 1 } data($api->hooks);
        !grep { !$there{$_} } @acknowledged;
    });
    is(scalar(grep { !$there{$_} } @acknowledged), 0, 'E-33: each one has arrived at its handler');
    my $disorder = 0;
    for my $n (0 .. 3) {
        my ($last, %seen) = (0);
        for my $data (data($api->hooks("h$n"))) {
            # A call that was under way is made again; what comes for the first time comes in order.
            ++$disorder if !$seen{$data}++ && $data < $last;
            $last = $data if $data > $last;
        }
    }
    is($disorder, 0, 'E-33: in order');
    my $missing = grep { my $id = $_; !grep { $_->{subId} eq $id } $api->caller($rows{$id})->rows } keys %rows;
    is($missing, 0, 'E-1: each acknowledged row is there');
    is(`sqlite3 '@{[$api->path]}' 'PRAGMA integrity_check'`, "ok\n", 'the file is whole');
    $api->server->no_alerts(undef, $killed);
    ok($api->server->stop, 'nginx ends in time');
}

done_testing;
