# SPDX-License-Identifier: BSD-2-Clause
# What outlives what: events, subscriptions and waits across reloads, dying workers, time limits
# and upstream failures (C-10, C-14, C-22, C-23), many waits at once, and their speed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use HostCalls;
use Http2Client;
use NginxProcess;
use Test::More;
use Time::HiRes qw(sleep time);

my $cancelled = [2, '订阅已取消', 'cancelled'];
sub refusal { my ($answer) = @_; return "$answer->{status} $answer->{json}{code}" }
sub until_true { return NginxProcess::wait_until(5, $_[0]) }

# C-10: a reload
{
    my $host = HostCalls->start(workers => 2);
    my ($a, $b) = map { $host->event } 1 .. 2;
    my $handle = $a->subscribe('c');
    my $other = $a->subscribe('c');
    my $wait = $a->begin_wait($handle, 30000);
    ok($wait->is_waiting, 'one waits before a reload');
    ok($host->server->reload, 'C-10: a reload');
    is($host->call(POST => 'channels/c/messages', object => 'o', body => 'x')->{json}{delivered}, 2,
       'C-10: a publish at a new worker reaches the subscriptions of an event of an old one');
    is_deeply($wait->message(5), [0, 'x'], 'C-10: its wait, still at an old worker');
    my @new = $host->workers;
    is_deeply($a->wait_message($other, 1000, worker => $new[0]), [0, 'x'], 'C-10: and a wait at a new one');
    my $late = $a->subscribe('late', worker => $new[1]);
    is($a->publish('late', 'y', worker => $new[0]), 1, 'an old event subscribes and publishes at new workers');
    $wait = $a->begin_wait($late, 30000, worker => $new[0]);
    is_deeply($wait->message(5), [0, 'y'], 'and waits there');
    my $unbound = $host->event(object => 'o');
    is($_->end->{body}, "answer of $_->{name}", 'the old events end as ever') for $a, $b;
    ok(until_true(sub { $unbound->count('c') == 0 }), 'C-14: and their subscriptions with them');
    $unbound->end;
    $host->server->no_alerts;
    ok($host->server->stop, 'it ends');
}

# C-14, C-10: a worker dies
{
    my $host = HostCalls->start(workers => 2);
    my ($one, $two) = $host->workers;
    my ($dies, $lives) = map { $host->event(worker => $_) } $one, $two;
    my $of_dead = $dies->subscribe('c', worker => $two);
    my $of_living = $lives->subscribe('c', worker => $two);
    my $at_living = $dies->begin_wait($of_dead, 30000, worker => $two);
    my $at_dead = $lives->begin_wait($of_living, 30000, worker => $one);
    ok($at_living->is_waiting && $at_dead->is_waiting, 'waits of both events, at each other\'s workers');
    my $never_called = $host->event(worker => $one);
    $host->server->kill_worker($one);
    ok(until_true(sub { $lives->count('c', worker => $two) == 1 }), 'C-14: a dead worker\'s event loses its subscriptions');
    is_deeply($at_living->message(5), $cancelled, 'C-14: its wait at a living worker is told');
    is(refusal($dies->call(GET => 'channels/c', worker => $two)), '401 unknown_event', 'its token is worth nothing');
    is(refusal($never_called->call(GET => 'channels/c', worker => $two)), '401 unknown_event', 'nor is one that had no record yet');
    is($lives->publish('c', 'x', worker => $two), 1, 'C-10: the other event goes on');
    is_deeply($lives->wait_message($of_living, 1000, worker => $two), [0, 'x'],
              'C-10: a wait that died with its worker took nothing');
    $lives->end;
    $host->server->no_alerts('no other alerts', qr/exited on signal 9/);
}

# C-14: the time limit
{
    my $host = HostCalls->start(workers => 2, location => 'durable_event_timeout 700ms;');
    my $started = time;
    my ($a, $late) = map { $host->event } 1 .. 2;
    my $both_run = time;
    my $handle = $a->subscribe('c');
    my $wait = $a->begin_wait($handle, 30000);
    is_deeply($wait->message(5), $cancelled, 'C-14: at its time limit an event ends, and its wait is told');
    ok(time - $started >= 0.69, 'not before');
    is($host->call(GET => 'channels/c', object => 'o')->{json}{subscriptions}, 0, 'its subscriptions are over');
    is(refusal($a->call(POST => 'channels/c/subscriptions')), '401 unknown_event', 'its token too');
    sleep 0.01 while time < $both_run + 0.75;
    is(refusal($late->call(POST => 'channels/c/subscriptions')), '401 unknown_event', 'also of one that made no call before');
    is($_->end->{status}, 200, 'the request itself goes on') for $a, $late;
    $host->server->no_alerts;
}

# C-14: nginx ends the request itself
{
    my $host = HostCalls->start(workers => 1, location => 'proxy_read_timeout 300ms;');
    my ($a, $other) = map { $host->event(object => 'o') } 1 .. 2;
    $a->subscribe('c');
    is($a->client->read_response(5)->{status}, 504, 'an application that is too slow for proxy_read_timeout');
    is($host->call(GET => 'channels/c', object => 'o')->{json}{subscriptions}, 0, 'C-14: its subscriptions are over');
    is(refusal($a->call(GET => 'channels/c')), '401 unknown_event', 'its token too');
}

# An application that has made a host call is not asked a second time elsewhere.
{
    my $backup = DurableApp->start(sub { $_[1]->note('asked'); $_[1]->respond(200, [], 'backup') });
    my $host = HostCalls->start(
        workers => 2, http => 'upstream both { server 127.0.0.1:{{port_first}} max_fails=0; server 127.0.0.1:{{port_second}} backup; keepalive 4; }',
        server => 'location /both/ { rewrite ^/both(/.*)$ $1 break; durable_object main o; proxy_set_header Connection "";'
            . ' proxy_pass http://both; }');
    # The ports are free until now: two more servers of the same kind.
    my $first = DurableApp->start(\&HostCalls::hand_over, port => $host->server->port('first'));
    my $second = DurableApp->start(sub { $_[1]->note('asked'); $_[1]->respond(200, [], 'second') }, port => $host->server->port('second'));
    $host->{app} = $first;
    my $silent = $host->event(path => '/both/app/NAME/dies');
    is($silent->end->{body}, 'second', 'without a host call the next server is asked');
    my $count = () = $second->notes;
    for my $try (1 .. 2) {
        my $calls = $host->event(path => '/both/app/NAME/dies');
        $calls->subscribe('c');
        is($calls->end->{status}, 502, "with one it is not, $try");
    }
    is(scalar(() = $second->notes), $count, 'the second server heard nothing');
}

# A call made on a connection that was kept alive may not be repeated either.
{
    my $host = HostCalls->start(
        workers => 1, http => 'upstream kept { server 127.0.0.1:{{port_app}}; keepalive 4; }',
        server => 'location /kept/ { rewrite ^/kept(/.*)$ $1 break; durable_object main o; proxy_set_header Connection "";'
            . ' proxy_pass http://kept; }');
    my $app = DurableApp->start(\&HostCalls::hand_over, port => $host->server->port('app'));
    $host->{app} = $app;
    my $first = $host->event(path => '/kept/app/NAME');
    is($first->end->{status}, 200, 'a first request leaves its connection open');
    my $calls = $host->event(path => '/kept/app/NAME/dies');
    $calls->subscribe('c');
    is($calls->end->{status}, 502, 'the application dies on it after a host call');
    is(scalar(grep { /^$calls->{name} / } $app->notes), 1, 'and is not asked again');
}

# One event, whatever nginx does with the request inside.
{
    my $host = HostCalls->start(workers => 2, server => <<'END');
        location /fails/ { durable_object main o; error_page 502 = @again; proxy_pass http://127.0.0.1:1; }
        location @again { rewrite ^/fails(/.*)$ $1 break; proxy_pass http://127.0.0.1:{{port_again}}; }
        location /gone/ { durable_object main o; error_page 404 = /app/other; return 404; }
END
    my $app = DurableApp->start(\&HostCalls::hand_over, port => $host->server->port('again'));
    $host->{app} = $app;
    my $event = $host->event(path => '/fails/app/NAME');
    is($event->count('c'), 0, 'an event outlives an internal redirect');
    $event->subscribe('c');
    is($event->end->{status}, 200, 'and ends with its answer');
    is($host->call(GET => 'channels/c', object => 'o')->{json}{subscriptions}, 0, 'C-14');
}

# C-23: what lay in the sockets when the worker came to look.
{
    my $host = HostCalls->start(workers => 1);
    my ($worker) = $host->workers;
    my ($event, $other) = map { $host->event } 1 .. 2;
    my $handle = $event->subscribe('c');
    my $stopped = sub {
        my ($while) = @_;
        kill 'STOP', $worker;
        NginxProcess::wait_until(5, sub { NginxProcess::slurp("/proc/$worker/stat") =~ /\) T / });
        $while->();
        sleep 0.02;    # for the bytes to arrive
        kill 'CONT', $worker;
    };
    for my $order ('publish first', 'leaving first') {
        my $wait = $event->begin_wait($handle, 30000);
        ok($wait->is_waiting, "C-23: one waits, $order");
        my $publish;
        my $publisher = sub { $publish = $other->begin(POST => 'channels/c/messages', body => $order) };
        $host->take_client($worker);    # a connection is made while the worker still runs
        $other->count('c');
        $stopped->(sub {
            $publisher->() if $order eq 'publish first';
            $wait->drop;
            $publisher->() if $order ne 'publish first';
        });
        is($publish->answer(5)->{json}{delivered}, 1, 'C-23: a publish counts the subscription');
        my $answer;
        until_true(sub { ($answer = $event->call(GET => "subscriptions/$handle/message?timeout=1000"))->{status} != 409 });
        is($answer->{json}{text}, $order, 'C-23: the message stays');
    }
    is($other->publish('c', 'queued'), 1, 'C-23: with a message in the queue');
    my $client = DurableClient->connect(port => $host->server->port);
    $stopped->(sub {
        $client->send_request('GET', "/durable/subscriptions/$handle/message?timeout=1000", headers => ['Durable-Event', $event->token]);
        $client->close;
    });
    sleep 0.05;
    is_deeply($event->wait_message($handle), [0, 'queued'], 'C-23: a call that was over before it began takes nothing');
    $_->end for $event, $other;
    $host->server->no_alerts;
}

# C-23 over HTTP/2: one stream of a connection leaves.
{
    my $host = HostCalls->start(workers => 2, http => 'server { listen 127.0.0.1:{{port_h2}} http2; location /durable/ { durable_api; } }');
    my $a = $host->event;
    my $handle = $a->subscribe('c');
    for my $try (1 .. 20) {
        my $h2 = Http2Client->connect(port => $host->server->port('h2'));
        my @with = (headers => ['Durable-Event', $a->token]);
        my $wait = $h2->request(path => "/durable/subscriptions/$handle/message?timeout=30000", @with);
        ok(until_true(sub { refusal2($a->call(GET => "subscriptions/$handle/message?timeout=0")) eq '409' }), 'HTTP/2: waits') if $try == 1;
        sleep 0.01;
        $h2->rst($wait);
        $a->publish('c', "m$try");
        my $answer;
        until_true(sub { ($answer = $a->call(GET => "subscriptions/$handle/message?timeout=2000"))->{status} != 409 });
        is($answer->{json}{text}, "m$try", 'C-23: a stream that was reset takes nothing');
    }
    my $h2 = Http2Client->connect(port => $host->server->port('h2'));
    my $wait = $h2->request(path => "/durable/subscriptions/$handle/message?timeout=30000", headers => ['Durable-Event', $a->token]);
    sleep 0.02;
    $a->publish('c', 'x');
    ok($h2->wait_end($wait, 5), 'HTTP/2: a wait is answered');
    is($h2->data($wait), '{"status":0,"text":"x"}', 'HTTP/2: with its message');
    $a->end;
    $host->server->no_alerts;
}
sub refusal2 { return $_[0]{status} }

# Waits hold workers that are to quit, as any request does, and end in order.
{
    my $host = HostCalls->start(workers => 1);
    my $a = $host->event;
    my $wait = $a->begin_wait($a->subscribe('c'), 500);
    ok($wait->is_waiting, 'a wait stands in a worker');
    $a->end;
    is_deeply($wait->message(5), $cancelled, 'its event ends');
    my $b = $host->event;
    my $short = $b->begin_wait($b->subscribe('c'), 400);
    ok($short->is_waiting, 'another one');
    my ($old) = $host->workers;
    ok($host->server->reload, 'a reload');
    is_deeply($short->message(5), [1, ''], 'a wait at an old worker ends at its time');
    $b->end;
    ok($host->server->wait_gone($old, 5), 'and then that worker ends');
    $host->server->no_alerts;
}

# Ten thousand waits at once.
{
    my $total = 10000;
    my $limit = `bash -c 'ulimit -n'` + 0;
    $total = $limit - 500 if $limit < $total + 500;    # the test holds an end of each
    my $host = HostCalls->start(
        workers => 2, level => 'warn', zone => "64m subscriptions=$total",
        connections => 12000, http => 'access_log off;', api => 'keepalive_timeout 300s; keepalive_requests 100000;');
    my ($owner, $publisher) = map { $host->event } 1 .. 2;
    my $subscriber = DurableClient->connect(port => $host->server->port);
    my @handles;
    for my $part (1 .. $total / 100) {
        $subscriber->send_request('POST', '/durable/channels/c/subscriptions', headers => ['Durable-Event', $owner->token]) for 1 .. 100;
        push @handles, map { $subscriber->read_response(20)->{body} =~ /"([0-9a-f]{16})"/ } 1 .. 100;
    }
    $total = @handles;
    my @waits;
    for my $handle (@handles) {
        my $client = DurableClient->connect(port => $host->server->port);
        $client->send_request('GET', "/durable/subscriptions/$handle/message?timeout=600000",
                              headers => ['Durable-Event', $owner->token, 'Connection', 'close']);
        push @waits, $client;
    }
    ok(NginxProcess::wait_until(30, sub {
        $owner->call(GET => "subscriptions/$handles[-1]/message?timeout=0")->{status} == 409 }), "$total waits stand");
    my $start = time;
    is($publisher->publish('c', 'now'), $total, 'a publish reaches them all');
    ok(time - $start < 2, 'and does not wait for them');
    my $good = grep { ($_->read_response(60)->{body} // '') eq '{"status":0,"text":"now"}' } @waits;
    my $took = time - $start;
    is($good, $total, 'each has its message');
    diag(sprintf '%d waits answered in %.2f s', $total, $took);
    $_->end for $owner, $publisher;
    $host->server->no_alerts;
}

# How fast a wait hears of a publish, roughly; `make bench` measures it.
for my $at ('same', 'other') {
    my $host = HostCalls->start(workers => 2, level => 'warn', at => $at);
    my $event = $host->event;
    my $handle = $event->subscribe('c');
    my $home = $event->worker;
    my ($other) = grep { $_ != $home } $host->workers;
    my $publisher = $at eq 'same' ? $home : $other;
    my @took;
    for (1 .. 200) {
        my $wait = $event->begin_wait($handle, 10000, worker => $home);
        sleep 0.003;
        my $start = time;
        my $publish = $event->begin(POST => 'channels/c/messages', body => 'x', worker => $publisher);
        $wait->message(5);
        push @took, time - $start;
        $publish->answer(5);
    }
    my $median = (sort { $a <=> $b } @took)[100];
    diag(sprintf 'a wait answers %.2f ms after the publish at %s worker is sent (median)', $median * 1000, $at eq 'same' ? 'its' : 'another');
    cmp_ok($median, '<', 0.1, 'a wait answers soon');
    $event->end;
}

done_testing();
