# SPDX-License-Identifier: BSD-2-Clause
# Many at once: a counter that loses nothing in sections and does without, callers that give up in
# the queue, reloads and dying workers under traffic, ten thousand in one line.
# DURABLE_COUNTER_RUNS=100 is the long run.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient;
use NginxProcess;
use Sections qw(steps refusal hold release request);
use Test::More;
use Time::HiRes qw(sleep time);

my $runs = $ENV{DURABLE_COUNTER_RUNS} // 3;
my $callers = 20;
my $whole = 'location /whole/ { durable_exclusive main $arg_object queue=20000 wait=60s; proxy_pass http://{{sections}}; }';

# The numbers 1 to n, each once.
sub is_a_count { my ($n, @results) = @_; return join(' ', sort { $a <=> $b } @results) eq join ' ', 1 .. $n }

for my $workers (1, 2, 4) {
    my $host = Sections->start(workers => $workers, timeout => '10s', server => $whole, level => 'warn', location => 'proxy_read_timeout 600s;');
    my @pids = $host->workers;
    my @clients = map { $host->server->connect_to_worker($pids[$_ % @pids]) } 1 .. $callers;
    my @events = map { $host->event(worker => $pids[$_ % @pids]) } 1 .. 4;
    my ($lost, $wrong, $wrong_whole) = (0, 0, 0);
    for my $run (1 .. $runs) {
        my @calls = map { $events[$_ % 4]->begin(POST => 'exclusive/add', body => steps([add => "n$run", 0.004]), worker => $pids[$_ % @pids]) } 1 .. $callers;
        $wrong++ if !is_a_count($callers, map { $_->answer(20)->{body} } @calls);
        $_->send_request('POST', "/whole/?object=w", body => steps([add => "w$run", 0.004])) for @clients;
        $wrong_whole++ if !is_a_count($callers, map { $_->read_response(20)->{body} } @clients);
        $_->send_request('POST', '/as_section', body => steps([add => "p$run", 0.004])) for @clients;
        $lost++ if !is_a_count($callers, map { $_->read_response(20)->{body} } @clients);
    }
    is($wrong, 0, "X-6, $workers workers: $runs runs of $callers sections each count right");
    is($wrong_whole, 0, "X-17, $workers workers: and of $callers whole requests");
    is($lost, $runs, "the same without loses updates each time");
    $_->end for @events;
    $host->server->no_alerts;
}

# Three hundred in the queue, of which one in three gives up.
{
    my $host = Sections->start(workers => 2, timeout => '20s', server => $whole, level => 'warn');
    my @pids = $host->workers;
    my $first = request($host, $pids[0], '/whole/?object=o', method => 'POST', body => steps([note => 'first in'], [wait => 'first']));
    $host->sections->wait_note(qr/^first in/, 5);
    my @clients = map { DurableClient->connect(port => $host->server->port) } 1 .. 300;
    $clients[$_]->send_request('POST', '/whole/?object=o', body => steps([note => "ran $_"])) for 0 .. 299;
    sleep 0.3;
    $clients[$_]->reset for grep { $_ % 3 == 0 } 0 .. 299;
    sleep 0.2;
    $host->sections->allow('first');
    is($first->read_response(5)->{status}, 200, 'the first one ends');
    is(scalar(grep { $clients[$_]->read_response(30)->{status} == 200 } grep { $_ % 3 } 0 .. 299), 200, 'X-17: those that stay are served');
    my @ran = map { /^ran (\d+)/ ? $1 : () } $host->sections->notes;
    is(scalar(grep { $_ % 3 == 0 } @ran), 0, 'X-17: those that left never run');
    is(scalar(@ran), 200, 'each of the others once');
    $host->server->no_alerts;
}

# Reloads, and a worker that dies, in the middle of it.
{
    my $host = Sections->start(workers => 2, timeout => '10s', server => $whole, level => 'notice', http => 'keepalive_timeout 5s;');
    my $port = $host->server->port;
    my (@clients, @results);
    my $sent = 0;
    my $until = time + 2.5;
    my $reload = time + 0.2;
    my $reloads = 0;
    my $failed = 0;
    while (time < $until) {
        if (time > $reload) { kill 'HUP', $host->server->master_pid; $reload += 0.2; $reloads++ }
        while (@clients < 8) {
            my $client = DurableClient->connect(port => $port);
            $client->send_request('POST', '/whole/?object=o', headers => ['Connection', 'close'], body => steps([add => 'r', 0.005]));
            push @clients, $client;
            $sent++;
        }
        my $client = shift @clients;
        my $answer = eval { $client->read_response(20) };
        if ($answer && $answer->{status} == 200) { push @results, $answer->{body} } else { $failed++ }
    }
    for (@clients) { my $answer = eval { $_->read_response(20) }; $answer && $answer->{status} == 200 ? push @results, $answer->{body} : $failed++ }
    is($failed, 0, "X-16a: none of $sent requests fails during $reloads reloads");
    ok(is_a_count(scalar @results, @results), 'X-16a: and none overlaps another');
    $host->server->no_alerts;
}

# Ten thousand in one line, gone at once; twice, in a zone with no room for as many leftovers.
{
    my $total = 10000;
    my $limit = `bash -c 'ulimit -n'` + 0;
    $total = $limit - 500 if $limit < $total + 500;
    my $host = Sections->start(workers => 2, timeout => '30s', zone => '5m', level => 'warn', connections => 12000, http => 'access_log off;', server => $whole);
    my $port = $host->server->port;
    for my $round (1, 2, 3) {
        my $first = request($host, ($host->workers)[0], '/whole/?object=o', method => 'POST', body => steps([note => "in $round"], [wait => "go$round"]));
        $host->sections->wait_note(qr/^in $round/, 5);
        my @clients;
        for (1 .. $total) {
            my $client = DurableClient->connect(port => $port);
            $client->write("POST /whole/?object=o HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]");
            push @clients, $client;
        }
        my $last = request($host, ($host->workers)[1], '/whole/?object=o', method => 'POST', body => '["echo"]');
        ok($last->is_quiet(0.05), "$total wait, round $round");
        is(scalar(grep { $_->fill(0) } @clients[map { $_ * 100 } 0 .. $total / 100 - 1]), 0, 'none is refused');
        $_->close for @clients;
        @clients = ();
        my $start = time;
        $host->sections->allow("go$round");
        is($first->read_response(10)->{status}, 200, 'the first one ends');
        is($last->read_response(20)->{status}, 200, 'and the last, when all others have left');
        cmp_ok(time - $start, '<', 5, 'soon');
    }
    $host->server->no_alerts;
}
done_testing();
