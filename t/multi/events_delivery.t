# SPDX-License-Identifier: BSD-2-Clause
# Publishing, fetching, live streams, deliveries and suspension (E-26 to E-39), with one worker and with
# two, streams and publishers at any of them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use EventsApi;
use Test::More;
use Time::HiRes qw(sleep time);

my $api;
my $count = 0;
my $json = EventsApi::json();

sub refusal { my ($answer) = @_; return "$answer->{status} " . ($answer->{json}{code} // '') }
sub someone { my ($app) = @_; return $api->caller('account' . ++$count, $app) }
sub topic { return 'topic:t' . ++$count }
# The events' data that a stream gets, until nothing comes for so long.
sub data_of { my ($who, $stream, $n, $seconds) = @_; return map { my $d = $who->delivery($stream, $seconds // 10); $d ? $d->{event}{data} : undef } 1 .. $n }
sub quiet { my ($stream, $seconds) = @_; return !defined $stream->next_event($seconds // 0.3) }
sub ack { my ($who, $delivery) = @_; return $who->call(POST => 'ack', {subId => $delivery->{subId}, id => $delivery->{ackId}}) }
sub suspension { my ($who, $row) = @_; my $now = $who->row($row) or return 'gone'; return $now->{suspendedReason} // '' }

my @clauses = (
    'E-26, E-28 publishing' => sub {
        my ($who, $other) = (someone(), someone());
        my $topic = topic();
        $_->subscribe(subject => $topic) for $who, $who, $other;
        my $first = $api->publish(subject => $topic, data => {x => [1, undef, 'é']});
        like($first->{id}, qr/^[0-9a-f-]{36}$/, 'E-26: id');
        is($first->{matched}, 3, 'E-26: everyone');
        my $second = $api->publish(subject => $topic, data => 2, account => $who->{account});
        is($second->{matched}, 2, "E-26: an account's rows only");
        ok($second->{seq} > $first->{seq}, 'E-26: positions grow');
        is(refusal($api->operator('events', $_->[0])), $_->[1], "E-26: " . substr $json->encode($_->[0]), 0, 50)
            for [{}, '400 invalid_subject'], [{subject => 'topic:'}, '400 invalid_subject'], [{subject => 'fs:/a'}, '400 invalid_subject_op'],
                [{subject => 'fs:a:write'}, '400 invalid_subject'], [{subject => $topic, account => 1}, '400 bad_request'],
                [{subject => $topic, data => 'x' x 65536}, '413 text_too_large'];
        is($api->operator('events', $json->encode({subject => $topic, data => ''}) . ' ' x (65536 - length $json->encode({subject => $topic, data => ''})))->{status}, 200, 'E-26: 65536 bytes');
        is(http_request($api->port, 'GET', '/durable/events')->{status}, 405, 'E-26: POST only');
        my $items = $who->call(GET => "fetch?subject=$topic")->{json}{items};
        is_deeply($items->[0], {id => $first->{id}, subject => $topic, op => undef, topic => substr($topic, 6), data => {x => [1, undef, "\x{e9}" eq 'x' ? '' : $items->[0]{data}{x}[2]]},
                                self => JSON::PP::false, ts => $items->[0]{ts}, seq => $first->{seq}}, 'E-28: an event');
        ok(abs($items->[0]{ts} / 1000 - time) < 20, 'E-28: ts is milliseconds');
    },

    'E-29 fetch' => sub {
        my ($who, $other) = (someone(), someone());
        my $topic = topic();
        my @ids = map { $api->publish(subject => $topic, data => $_)->{id} } 1 .. 5;
        $api->publish(subject => $topic, data => 'hers', account => $other->{account});
        my $page = $who->call(GET => "fetch?subject=$topic&limit=2")->{json};
        is_deeply([map { $_->{data} } @{$page->{items}}], [1, 2], 'E-29: oldest first');
        my $rest = $who->call(GET => "fetch?subject=$topic&after=$page->{cursor}")->{json};
        is_deeply([map { $_->{id} } @{$rest->{items}}], [@ids[2 .. 4]], 'E-29: the rest, visible ones only');
        is($rest->{cursor}, undef, 'E-29: no more');
        is($other->call(GET => "fetch?subject=$topic:&limit=200")->{json}{items}[0], undef, 'E-29: that name only');
        is(scalar @{$other->call(GET => "fetch?subject=$topic")->{json}{items}}, 6, "E-29: one's own too");
        is(scalar @{$who->call(GET => 'fetch?subject=' . substr($topic, 0, -1) . '*&limit=200')->{json}{items}} >= 5, 1, 'E-29: a prefix');
        is(refusal($who->call(GET => "fetch?$_->[0]")), $_->[1], "E-29: $_->[0]")
            for ['', '400 invalid_subject'], ['subject=notif:x', '400 invalid_subject'], ["subject=$topic&limit=0", '400 bad_request'], ["subject=$topic&after=*", '400 bad_request'];
    },

    'E-30 session streams' => sub {
        my $who = someone();
        my $topic = topic();
        $api->publish(subject => $topic, data => 'before');
        my $stream = $who->stream($topic);
        is($stream->status, 200, 'E-30: status');
        is($stream->header('content-type'), 'text/event-stream; charset=utf-8', 'E-30: type');
        is($stream->header('cache-control'), 'no-store', 'E-30: not cached');
        ok($stream->wait_comments(1, 5), 'E-30: something at once');
        my @seq = map { $api->publish(subject => $topic, data => $_)->{seq} } 1 .. 3;
        my @got = map { $who->delivery($stream) } 1 .. 3;
        is_deeply([map { $_->{event}{data} } @got], [1, 2, 3], 'E-30: live, in order');
        is_deeply([map { $_->{id} } @got], \@seq, 'E-30: ids are log positions');
        is_deeply([sort keys %{$got[0]}], [sort qw(type id subId event)], 'E-30: members');
        is($got[0]{type}, 'delivery', 'E-30: type');
        is(scalar($who->rows), 0, 'E-30: listed nowhere');
        my $resumed = $who->stream($topic, last_id => $seq[0]);
        $api->publish(subject => $topic, data => 4);
        is_deeply([data_of($who, $resumed, 3)], [2, 3, 4], 'E-30: resumed: missed first, then live');
        ok(quiet($resumed), 'E-30: each once');
        for my $id ('x', '99999999', '-1', '1.5', '1x') {
            my $gap = $who->stream($topic, last_id => $id);
            my $event = $gap->next_event(5);
            is($event->{event}, 'gap', "E-30: Last-Event-ID $id is a gap first");
        }
        is(refusal($who->call(GET => 'stream?subject=wrong')), '400 invalid_subject', 'E-30: a refusal is no stream');
        is(refusal($who->call(GET => 'stream?subject=')), '400 invalid_subject', 'E-30: an empty subject');
        my $head = $who->call(HEAD => "stream?subject=$topic");
        is("$head->{status} $head->{headers}{'content-type'}", '200 text/event-stream; charset=utf-8', 'E-30: HEAD');
        my ($mine, $hers) = ($who->stream($topic), (my $her = someone())->stream($topic));
        $api->publish(subject => $topic, data => 'mine', account => $who->{account});
        $api->publish(subject => $topic, data => 'all');
        is_deeply([data_of($who, $mine, 2)], ['mine', 'all'], 'E-30: the account and everyone');
        is_deeply([data_of($her, $hers, 1)], ['all'], 'E-30: not what is others\'');
        my $pings = SseClient->open(port => $api->port, path => "/ping/stream?subject=$topic", headers => $who->headers);
        ok($pings->wait_comments(4, 5), 'E-30: pings');
        is($pings->retry, 1500, 'durable_retry');
    },

    'E-30 a slow client' => sub {
        my $who = someone();
        my $topic = topic();
        my $slow = SseClient->open(port => $api->port, path => "/events/stream?subject=$topic", headers => $who->headers, rcvbuf => 4096);
        my $quick = $who->stream($topic);
        my $text = 'x' x 60000;
        $api->publish(subject => $topic, data => "$_$text") for 1 .. 60;
        is_deeply([map { substr $_, 0, 2 } data_of($who, $quick, 60)], [map { substr "$_$text", 0, 2 } 1 .. 60], 'a quick one has all');
        is_deeply([map { substr $_, 0, 2 } data_of($who, $slow, 60)], [map { substr "$_$text", 0, 2 } 1 .. 60], 'a slow one has all, later');
    },

    'E-30 to E-32 persistent streams' => sub {
        my ($all, $one, $two) = ($api->caller('a' . ++$count), $api->caller("a$count", 'one'), $api->caller("a$count", 'two'));
        my $topic = topic();
        my @rows = map { $_->subscribe(subject => $topic) } $all, $one, $two;
        $all->subscribe(subject => $topic, targets => ['push']);
        my @streams = map { $_->stream } $all, $one, $two;
        $api->publish(subject => $topic, data => 1);
        my %ids = map { $_->{subId} => 1 } map { $all->delivery($streams[0]) } 1 .. 3;
        is_deeply([sort keys %ids], [sort map { $_->{subId} } @rows], "E-30: an account's stream carries its apps' deliveries");
        is($one->delivery($streams[1])->{subId}, $rows[1]{subId}, "E-30: an app's its own");
        is($two->delivery($streams[2])->{subId}, $rows[2]{subId}, "E-30: and another's");
        ok(quiet($_), 'E-32: once') for @streams;
        my $second = $one->stream;
        $api->publish(subject => $topic, data => 2);
        is($one->delivery($_)->{event}{data}, 2, 'E-32: every live stream in scope') for $streams[1], $second;
        $_->client->close for @streams, $second;
    },

    'E-31, E-33 single deliveries to streams' => sub {
        my $who = someone();
        my $topic = topic();
        my $row = $who->subscribe(subject => $topic, delivery => 'single', handlerName => 'h1', targets => ['socket', 'worker']);
        my @streams = map { $who->stream } 1, 2;
        sleep 0.3;
        my @ids = map { $api->publish(subject => $topic, data => $_)->{id} } 1 .. 3;
        my ($first) = grep { $_ } map { $who->delivery($_, 3) } @streams;
        is($first->{event}{data}, 1, 'E-33: first in, first out');
        is("$first->{ackRequired} $first->{ackId}", "1 $ids[0]", 'E-30: an ack is asked for');
        ok(quiet($streams[0], 0.5) && quiet($streams[1], 0.2), 'E-33: one consumer, one in flight');
        is(refusal(ack(someone(), $first)), '404 subscription_does_not_exist', "E-31: not another's");
        is(ack($who, $first)->{body}, '{}', 'E-31: ack');
        is(ack($who, $first)->{status}, 200, 'E-31: a repeated one is no error');
        my @next;
        NginxProcess::wait_until(5, sub { @next = (@next, grep { $_ } map { $who->delivery($_, 0.1) } @streams) });
        is($next[0]{event}{data}, 2, 'E-33: then the next');
        # The stream that has it leaves: the other one gets it.
        my @order = map { $_->{last_id} eq $next[0]{id} ? 1 : 0 } @streams;
        my ($holder, $other) = $order[0] ? @streams : reverse @streams;
        $holder->client->close;
        my $again = $who->delivery($other, 10);
        is($again->{event}{data}, 2, 'E-33: at least once: the other stream has it when the first leaves');
        ack($who, $again);
        ack($who, $who->delivery($other, 10));
        $other->client->close;
        is(scalar(grep { $_->{json}{event}{topic} eq substr $topic, 6 } $api->hooks('h1')), 0, 'E-33: a stream first, the handler not');
        $api->publish(subject => $topic, data => 4);
        ok(NginxProcess::wait_until(12, sub { grep { $_->{json}{event}{data} eq '4' } $api->hooks('h1') }), 'E-33: then the handler');
    },

    'E-34 webhooks' => sub {
        my $who = someone();
        my $topic = topic();
        $api->hook_status(h2 => '503 Retry-After=1');
        $who->subscribe(subject => $topic, delivery => 'single', handlerName => 'h2', targets => ['worker'], context => {token => 'the-secret'});
        my $before = $api->hooks('h2');
        $api->publish(subject => $topic, data => {n => 1});
        $api->publish(subject => $topic, data => {n => 2});
        ok($api->wait_hooks('h2', $before + 1) > $before, 'E-34: it is called');
        $api->hook_status(h2 => '200');
        my @calls = ($api->wait_hooks('h2', $before + 3))[$before .. $before + 2];
        is_deeply([map { $_->{json}{event}{data}{n} } @calls], [1, 1, 2], 'E-34: tried again, then the next');
        is($calls[0]{headers}{'webhook-id'}, $calls[1]{headers}{'webhook-id'}, 'E-34: the id is the same in a retry');
        isnt($calls[1]{headers}{'webhook-id'}, $calls[2]{headers}{'webhook-id'}, 'E-34: and another for another delivery');
        ok($calls[1]{at} - $calls[0]{at} > 0.9, 'E-34: Retry-After is respected');
        is($calls[0]{method}, 'POST', 'E-34: POST');
        is_deeply([sort keys %{$calls[0]{json}}], [qw(context event handler)], 'E-34: members');
        is_deeply($calls[0]{json}{context}, {token => 'the-secret'}, 'E-34: the context travels here');
        like($calls[0]{headers}{'content-type'}, qr{^application/json}, 'E-34: type');
        require Digest::SHA;
        require MIME::Base64;
        my $key = MIME::Base64::decode_base64(substr $EventsApi::secret, 6);
        for my $call (@calls) {
            my ($id, $at, $signature) = map { $call->{headers}{"webhook-$_"} } qw(id timestamp signature);
            my $digest = MIME::Base64::encode_base64(Digest::SHA::hmac_sha256("$id.$at.$call->{text}", $key), '');
            is($signature, "v1,$digest", 'E-34: signed');
        }
    },

    'E-32 broadcasts to handlers' => sub {
        my $who = someone();
        my $topic = topic();
        $who->subscribe(subject => $topic, handlerName => 'h0');
        my $stream = $who->stream;
        sleep 0.2;
        my $before = $api->hooks('h0');
        $api->publish(subject => $topic, data => 'both');
        is($who->delivery($stream)->{event}{data}, 'both', 'E-32: a live stream');
        my @calls = $api->wait_hooks('h0', $before + 1);
        is($calls[-1]{json}{event}{data}, 'both', 'E-32: and the handler');
        $api->hook_status(h0 => 500);
        $api->publish(subject => $topic, data => 'lost');
        $api->wait_hooks('h0', $before + 2);
        $api->hook_status(h0 => 200);
        sleep 3;
        is(scalar($api->hooks('h0')), $before + 2, 'E-32: at most once');
        $stream->client->close;
    },

    'E-34, E-35 failures' => sub {
        my $who = someone();
        my $topic = topic();
        my $row = $who->subscribe(subject => $topic, delivery => 'single', handlerName => 'h3', targets => ['worker']);
        $api->hook_status(h3 => 404);
        my $before = $api->hooks('h3');
        # Each rejection leaves a gap behind what was already owed.
        $api->publish(subject => $topic, data => $_) for 1 .. 6;
        ok($who->wait_suspension($row, 'failures', 20), 'E-35: five in a row suspend');
        my @calls = $api->hooks('h3');
        my @events = map { $_->{json}{event} } @calls[$before .. $#calls];
        is_deeply([map { $_->{data} } grep { ($_->{op} // '') ne 'gap' } @events], [1 .. 5], 'E-34: what is rejected is not tried again');
        ok($who->row($row)->{suspendedAt} >= time - 30, 'E-38: listed with when and why');
        my $matched = $api->publish(subject => $topic, data => 7)->{matched};
        is($matched, 0, 'E-38: not delivered to');
        $api->hook_status(h3 => 200);
        my $count = $api->hooks('h3');
        is($api->operator('events/resume', {account => $who->{account}, reason => 'no_credit'})->{json}{changed}, 0, 'E-37: another reason changes none');
        is($api->operator('events/resume', {account => $who->{account}, reason => 'failures'})->{json}{changed}, 1, 'E-37: resumed');
        ok(NginxProcess::wait_until(10, sub { my @now = $api->hooks('h3'); grep { ($_->{json}{event}{data} // '') eq '7' } @now[$count .. $#now] }), 'E-37: what was owed is delivered');
        is(suspension($who, $row), '', 'E-37: not suspended any more');
        ok(NginxProcess::wait_until(10, sub { @calls = $api->hooks('h3'); 5 == grep { ($_->{json}{event}{op} // '') eq 'gap' } @calls[$before .. $#calls] }), 'E-34: each left a gap');
        my ($gap) = grep { ($_->{op} // '') eq 'gap' } map { $_->{json}{event} } @calls[$before .. $#calls];
        is("$gap->{reason} $gap->{subject}", "handler_rejected $topic", 'E-34: which says why');
    },

    'E-36 targets side by side' => sub {
        my $who = someone();
        my ($dead, $live) = (topic(), topic());
        $api->hook_status(h1 => 'hang');
        $who->subscribe(subject => $dead, delivery => 'single', handlerName => 'h1', targets => ['worker']) for 1 .. 3;
        $who->subscribe(subject => $live, delivery => 'single', handlerName => 'h0', targets => ['worker']);
        $api->publish(subject => $dead, data => 1);
        my $before = $api->hooks('h0');
        my $since = time;
        $api->publish(subject => $live, data => $_) for 1 .. 5;
        is(scalar($api->wait_hooks('h0', $before + 5)), $before + 5, 'one that hangs holds up no other');
        ok(time - $since < 3, 'not even for a moment');
        $api->hook_status(h1 => 200);
        $api->operator('events/suspend', {account => $who->{account}, reason => 'permission_revoked'});
    },

    'E-37 to E-39 operator calls' => sub {
        my ($who, $app) = ($api->caller('op' . ++$count), $api->caller("op$count", 'one'));
        my @rows = ((map { $who->subscribe(subject => $_) } 'topic:x:1', 'topic:x:2', 'topic:y'), $app->subscribe(subject => 'topic:x:3'));
        my $call = sub { my ($what, %with) = @_; return $api->operator("events/$what", {account => $who->{account}, %with}) };
        is(refusal($call->('suspend')), '400 bad_request', 'E-37: a reason is needed');
        is(refusal($call->('suspend', reason => 'whim')), '400 bad_request', 'E-37: one of the four');
        is(refusal($api->operator('events/suspend', {reason => 'no_credit'})), '400 bad_request', 'E-37: an account too');
        is($call->('suspend', reason => 'no_credit', subjectPrefix => 'topic:x')->{body}, '{"changed":3}', 'E-37: by prefix');
        is(join(',', map { suspension($who, $_) } @rows), 'no_credit,no_credit,,no_credit', 'E-38: listed so');
        my $at = $who->row($rows[0])->{suspendedAt};
        is($call->('suspend', reason => 'failures')->{json}{changed}, 1, 'E-39: those suspended already are not again');
        is(suspension($who, $rows[0]), 'no_credit', 'E-39: the first reason stays');
        is($call->('suspend', reason => 'permission_revoked', app => 'one')->{json}{changed}, 1, 'E-39: but for permission_revoked');
        is(suspension($who, $rows[3]), 'permission_revoked', 'E-39: it replaces the reason');
        is($call->('resume', app => 'one')->{json}{changed}, 0, 'E-37: which is never resumed');
        is($call->('resume')->{json}{changed}, 3, 'E-37: the others are');
        is($who->call(POST => 'unsubscribe', {subId => $rows[3]{subId}})->{status}, 200, 'E-38: removable');
        is(refusal($api->operator('events/resume', {account => 'nobody'})), '200 ', 'E-37: nobody is no error');
        is($api->operator('events/resume', {account => 'nobody'})->{json}{changed}, 0, 'E-37: none');
        my $tokened = EventsApi::answer(http_request($api->port, 'POST', '/durable/events/resume', body => '{"account":"x"}', headers => ['Durable-Event', 'wrong']));
        is($tokened->{status}, 200, 'E-37: no event token is needed');
    },

    'E-29, E-30 retention' => sub {
        my $who = someone();
        my $few = EventsApi->start(workers => 2, store => 'events=20');
        my $reader = $few->caller('r');
        my @seq = map { $few->publish(subject => 'topic:kept', data => $_)->{seq} } 1 .. 50;
        my $fetch = sub { return map { $_->{data} } @{$reader->call(GET => 'fetch?subject=topic:kept&limit=200')->{json}{items}} };
        ok(NginxProcess::wait_until(10, sub { my @kept = $fetch->(); @kept == 20 }), 'E-29: as many as the configuration says');
        is_deeply([$fetch->()], [31 .. 50], 'E-29: the newest');
        my $gap = $reader->stream('topic:kept', last_id => $seq[9]);
        my $event = $gap->next_event(5);
        is("$event->{event} $event->{id}", "gap $seq[49]", 'E-30: a gap where the log no longer reaches back');
        $few->publish(subject => 'topic:kept', data => 'live');
        is($reader->delivery($gap)->{event}{data}, 'live', 'E-30: then live');
        my $whole = $reader->stream('topic:kept', last_id => $seq[44]);
        is_deeply([map { $reader->delivery($whole)->{event}{data} } 1 .. 6], [46 .. 50, 'live'], 'E-30: and no gap where it does');
        $few->server->no_alerts;
        $few->server->stop;
    },

    'E-15 fs events' => sub {
        my $who = someone();
        my ($tree, $globs) = ($who->stream('fs:/docs'), $who->stream('fs:/docs/**/*.txt:write'));
        $api->publish(subject => $_->[0], from => $_->[1]) for ['fs:/docs/a/b.txt:write'], ['fs:/docs:meta'], ['fs:/else/x:move', '/docs/old'], ['fs:/docsx:write'];
        is_deeply([map { $who->delivery($tree)->{event}{path} } 1 .. 3], ['/docs/a/b.txt', '/docs', '/else/x'], 'E-15: a tree; a move at both places');
        is($who->delivery($globs)->{event}{path}, '/docs/a/b.txt', 'E-16: a glob');
        ok(quiet($_), 'E-15: no more') for $tree, $globs;
    },
);

my $server = <<'END';
    location /ping/ { durable_events; durable_identity $http_account; durable_ping 200ms; durable_retry 1500ms; }
END
for my $workers (1, 2) {
    $api = EventsApi->start(workers => $workers, server => $server);
    my @todo = @clauses;
    while (my ($name, $clause) = splice @todo, 0, 2) {
        next if $ENV{ONLY} && $name !~ /$ENV{ONLY}/;
        subtest("$name, $workers workers", sub { $clause->(); done_testing });
    }
    $api->server->no_alerts;
    unlike($api->server->error_log, qr/the-secret/, 'E-19: no context is in the log');
    ok($api->server->stop, 'nginx ends in time');
}

done_testing;
