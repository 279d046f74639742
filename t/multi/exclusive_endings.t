# SPDX-License-Identifier: BSD-2-Clause
# How sections and waits in a line end: limits, clients that leave, dying workers and applications,
# reloads (X-11, X-15 to X-17).
use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../lib";
use NginxProcess;
use Sections qw(steps refusal hold release request);
use Test::More;
use Time::HiRes qw(sleep time);

binmode Test::More->builder->$_, ':utf8' for qw(output failure_output);

sub until_true { return NginxProcess::wait_until(5, $_[0]) }
sub section { my ($event, @steps) = @_; return $event->call(POST => 'exclusive/op', body => steps(@steps)) }
my $whole = 'location /whole/ { durable_exclusive main $arg_object queue=2 wait=300ms; proxy_set_header X-Port {{port}}; proxy_pass http://{{sections}}; proxy_read_timeout 400ms; }';

# X-11
{
    my $host = Sections->start(workers => 2, timeout => '300ms', location => 'durable_event_timeout 500ms;');
    my ($one, $two) = $host->workers;
    my $event = $host->event(worker => $one);
    my $late = $event->begin(POST => 'exclusive/late', worker => $two, body => steps([note => 'late in'], [sleep => 0.45], [call => 'GET', 'channels/c'], [give => '1']));
    my $next = $event->begin(POST => 'exclusive/next', worker => $one, body => steps([note => 'next in'], [answer => 200, '2']));
    my $answer = $late->answer(5);
    like($answer->{json}{message}, qr/^持久独占失败：豫言执行超过时限$/, 'X-11: a section past its limit');
    is($next->answer(5)->{body}, '2', 'X-11: the next one runs');
    ok($host->sections->wait_note(qr/^401/, 5, 2), 'X-11: the late one is told');
    is(scalar(grep { /^401 .*unknown_event/ } $host->sections->notes), 2, 'X-11: its late calls are refused');
    $event->end;

    # The limit and the caller's clock do not run in the queue.
    $host = Sections->start(workers => 2, timeout => '1500ms', location => 'durable_event_timeout 2s;');
    ($one, $two) = $host->workers;
    my @events = map { $host->event(worker => $one) } 1 .. 4;
    $_->count('c') for @events;    # their records are made, and their clocks run
    my @calls = map { $events[$_]->begin(POST => 'exclusive/op', worker => $two, body => steps([sleep => 0.8], [answer => 200, $_])) } 0 .. 3;
    is($calls[$_]->answer(5)->{body}, $_, "X-11: section $_ runs, whatever it has waited") for 0 .. 3;
    is(refusal($events[3]->call(GET => 'channels/c')), '200 ', 'X-11: and its caller\'s clock has not run meanwhile');
    ok(until_true(sub { refusal($events[3]->call(GET => 'channels/c')) eq '401 unknown_event' }), 'but runs on then');
    $_->end for @events;
    $host->server->no_alerts;
}

# X-15
for my $workers (1, 2) {
    my $host = Sections->start(workers => $workers, timeout => '5s');
    my @pids = $host->workers;
    my $event = $host->event(worker => $pids[0]);
    my ($leaves, $stays) = map { $host->event(worker => $pids[-1]) } 1 .. 2;
    my $running = hold($host, $event, 'runs');
    my @queued = map { $_->begin(POST => 'exclusive/queued', worker => $pids[0], body => steps([note => "queued $_->{name}"])) } $leaves, $stays;
    ok($queued[0]->is_waiting, "X-15, $workers workers: a section waits");
    $leaves->leave;
    is(refusal($queued[0]->answer(5) // {status => 'none'}), '401 unknown_event', "X-15, $workers workers: its event's client leaves: it leaves the line");
    my $gone = $stays->begin(POST => 'exclusive/dropped', body => steps([note => 'dropped ran']));
    ok($gone->is_waiting, 'another call');
    $gone->drop;
    is(release($host, $running, 'runs'), '"runs"', 'the first one ends');
    is($queued[1]->answer(5)->{body}, 'null', "X-15, $workers workers: who stayed is served");
    is(section($event, [answer => 200, '3'])->{body}, '3', 'and who comes then');
    ok(!(grep { /^queued $leaves->{name}|^dropped/ } $host->sections->notes), "X-15, $workers workers: what left never ran");
    my $outer = $host->event(worker => $pids[0], object => 'p');
    my $other = $host->event(worker => $pids[-1], object => 'p');
    my $goes_on = hold($host, $outer, 'goes_on', [note => 'went on']);
    $outer->leave;
    my $after = $other->begin(POST => 'exclusive/after', body => steps([note => 'after ran']));
    ok($after->is_waiting(0.1), "X-15, $workers workers: a running one runs on without its event");
    $host->sections->allow('goes_on');
    is($after->answer(5)->{body}, 'null', 'then comes the next');
    is(join(', ', grep { /^went on|^after ran/ } $host->sections->notes), 'went on, after ran', "X-15, $workers workers: it ran to its end");
    my $cut = $host->event(worker => $pids[0], object => 'r');
    my $call = hold($host, $cut, 'cut', [note => 'cut went on']);
    $call->drop;
    $host->sections->allow('cut');
    ok($host->sections->wait_note(qr/^cut went on/, 5), "X-15, $workers workers: nor does it need its caller");
    is(section($cut, [answer => 200, '4'])->{body}, '4', 'and the line moves on');
    $_->end for $event, $stays, $other, $cut;
    $host->server->no_alerts;
}

# X-16, X-16a
{
    my $host = Sections->start(workers => 2, timeout => '10s');
    my ($one, $two) = $host->workers;
    my $event = $host->event(worker => $two);
    my $caller = $host->event(worker => $two);
    my $driven = $event->begin(POST => 'exclusive/never', worker => $one, body => steps([note => 'never in'], [wait => 'never']));
    $host->sections->wait_note(qr/^never in/, 5);
    my ($killed_at, $alive) = ($one, $two);
    my $next = $caller->begin(POST => 'exclusive/next', worker => $alive, body => steps([answer => 200, '1']));
    ok($next->is_waiting, 'one waits for a section');
    my $start = time;
    kill 'KILL', $killed_at;
    is(($next->answer(5) // {body => 'none'})->{body}, '1', 'X-16: its worker dies, the next one runs');
    cmp_ok(time - $start, '<', 1.3, 'X-16: within a second');
    diag(sprintf 'released %.2f s after the kill', time - $start);
    $host->server->wait_workers(2);
    ($one, $two) = $host->workers;
    my $home = $alive;
    my ($dies) = grep { $_ != $home } $host->workers;
    my $dying = $host->event(object => 'd');
    my $running = $caller->begin(POST => 'exclusive/r', worker => $home, body => steps([note => 'r in'], [wait => 'r'], [answer => 200, '5']));
    $host->sections->wait_note(qr/^r in/, 5);
    my $queued = request($host, $dies, '/app/lost?object=o');
    my $last = $caller->begin(POST => 'exclusive/last', worker => $home, body => steps([answer => 200, '6']));
    ok($last->is_waiting, 'another waits behind one of a worker that dies');
    $host->server->kill_worker($dies);
    $host->sections->allow('r');
    is($running->answer(5)->{body}, '5', 'X-16: the running one is not disturbed');
    is($last->answer(5)->{body}, '6', 'X-16: the queue moves on');

    # A reload in between: old and new workers share the line.
    my $old = hold($host, $caller, 'old');
    $host->server->reload;
    my $new = $host->event(object => 'q');
    my $held = request($host, ($host->workers)[0], '/app/later?object=o');
    ok(!$host->app->wait_note(qr/^later /, 0.1), 'X-16a: a new worker holds what arrives during an old one\'s section');
    is(release($host, $old, 'old'), '"old"', 'X-16a: which ends as ever');
    ok($host->app->wait_note(qr/^later /, 5), 'X-16a: then it is served');
    $host->app->allow('later');
    is($held->read_response(5)->{status}, 200, 'and answered');

    # The application dies.
    is(section($dying, ['close'])->{status}, 500, 'X-10: a handler that dies');
    is(section($dying, [answer => 200, '1'])->{body}, '1', 'and the next one runs');
    $_->end for $new, $dying;
    $host->server->no_alerts('no alerts but for the killed workers', qr/exited on signal 9/);
}

# X-16b, X-17: bounds
{
    my $host = Sections->start(workers => 2, timeout => '5s', server => $whole);
    my @pids = $host->workers;
    my $whole_request = sub { my ($worker, @steps) = @_; return request($host, $worker, '/whole/?object=w', method => 'POST', body => steps(@steps)) };
    my $first = $whole_request->($pids[0], [note => 'w in'], [wait => 'w'], [answer => 200, 'w']);
    $host->sections->wait_note(qr/^w in/, 5);
    my $second = $whole_request->($pids[1], [answer => 200, 'second']);
    my $third = $whole_request->($pids[0], [answer => 200, 'third']);
    sleep 0.05;
    my $start = time;
    my $refused = $whole_request->($pids[1])->read_response(5);
    is($refused->{status}, 503, 'X-17: a queue longer than its length');
    like($refused->{body}, qr/"exclusive_queue_full"/, 'X-16b: its code');
    like($refused->{headers}{'retry-after'}, qr/^\d+$/, 'X-16b: Retry-After');
    cmp_ok(time - $start, '<', 0.3, 'X-17: at once');
    $third->reset;
    sleep 0.05;
    my $fourth = $whole_request->($pids[1], [answer => 200, 'fourth']);
    ok($fourth->is_quiet(0.02), 'X-17: a client that leaves gives up its place');
    my $timed_out = $second->read_response(5);
    is($timed_out->{status}, 503, 'X-17: a wait longer than its time');
    like($timed_out->{body}, qr/"exclusive_wait_timeout"/, 'its code');
    is($first->read_response(5)->{status}, 504, 'X-17: an application that is too slow for nginx');
    is($fourth->read_response(5)->{body}, 'fourth', 'X-17: lets the next go');

    # Every way that a whole request can end lets the next one go at once.
    my %ways = (
        'an answer' => sub { [answer => 200, 'x'] },
        'a HEAD' => sub { [answer => 200, 'x'] },
        'no content' => sub { [answer => 204, ''] },
        'an error' => sub { [answer => 500, 'x'] },
        'a dead application' => sub { ['close'] },
        'one that dies in its answer' => sub { [raw => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"], ['close'] },
        'one that dies in a chunked answer' => sub { [raw => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"], ['close'] },
    );
    for my $way (sort keys %ways) {
        my $name = $way =~ s/\W/_/gr;
        # lingering_close: bytes of a next request that nginx will not read.
        my $client = request($host, $pids[0], '/whole/?object=w', method => $way eq 'a HEAD' ? 'HEAD' : 'POST',
                             headers => ['Connection', 'close'],
                             body => steps([note => "$name in"], [sleep => 0.05], $ways{$way}->()));
        $client->write("GET / HTTP/1.1\r\nHost: x\r\n");
        $host->sections->wait_note(qr/^$name in/, 5) or diag "$way did not start";
        my $start = time;
        my $next = $whole_request->($pids[1], [answer => 200, 'next']);
        is($next->read_response(5)->{body}, 'next', "X-17: after $way the next one goes");
        cmp_ok(time - $start, '<', 0.29, "X-17: at once after $way, though the client keeps its end open");
        $client->close;
    }
    my $leaver = $whole_request->($pids[0], [note => 'leaver in'], [wait => 'leaver']);
    $host->sections->wait_note(qr/^leaver in/, 5);
    $leaver->reset;
    is($whole_request->($pids[1], [answer => 200, 'x'])->read_response(5)->{body}, 'x', 'X-17: after a client that left');
    $host->server->no_alerts;
}
done_testing();
