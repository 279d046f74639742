# SPDX-License-Identifier: BSD-2-Clause
# The calls of the events API, clause by clause (E-3 to E-25), with one worker and with two.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use Digest::SHA qw(sha256_hex);
use EventsApi;
use MIME::Base64 qw(encode_base64);
use Test::More;

my $api;
my $account = 0;
my $json = EventsApi::json();

sub someone { my ($app) = @_; return $api->caller('account' . ++$account, $app) }
sub refusal { my ($answer) = @_; return "$answer->{status} " . ($answer->{json}{code} // '') }
# The answer's status and code where `$member` of a subscribe call is `$value`.
sub refused { my ($who, %wanted) = @_; return refusal($who->call(POST => 'subscribe', {subject => 'topic:a', %wanted})) }

my @clauses = (
    'E-4 who is asking' => sub {
        for my $call (['POST', 'subscribe', '{"subject":"topic:a"}'], ['POST', 'unsubscribe', '{}'], ['GET', 'subscriptions'],
                      ['GET', 'fetch?subject=topic:a'], ['GET', 'stream?subject=topic:a'], ['POST', 'ack', '{}']) {
            my $answer = EventsApi::answer(http_request($api->port, $call->[0], "/events/$call->[1]", body => $call->[2]));
            is(refusal($answer), '401 token_missing', "E-4: $call->[1] without an account");
        }
        my ($all, $one, $two) = ($api->caller('e4'), $api->caller('e4', 'one'), $api->caller('e4', 'two'));
        my ($a, $b, $c) = map { $_->subscribe(subject => 'topic:a') } $all, $one, $two;
        is_deeply([map { $_->{subId} } $all->rows], [map { $_->{subId} } $a, $b, $c], 'E-4: an account sees what each app made');
        is_deeply([map { $_->{subId} } $one->rows], [$b->{subId}], 'E-4: an app sees its own');
        is(refusal($one->call(POST => 'unsubscribe', {subId => $c->{subId}})), '404 subscription_does_not_exist', 'E-4: and removes no other');
        is(refusal($one->call(POST => 'unsubscribe', {subId => $a->{subId}})), '404 subscription_does_not_exist', "E-4: nor the account's");
        is($all->call(POST => 'unsubscribe', {subId => $c->{subId}})->{body}, '{}', 'E-4: the account does');
    },

    'E-5 wire rules' => sub {
        my $who = someone();
        my %cases = ('' => '400 bad_request', '  ' => '400 bad_request', '[]' => '400 bad_request', '1' => '400 bad_request',
                     '"x"' => '400 bad_request', 'null' => '400 bad_request', '{' => '400 client_bad_json', '{"a":1,}' => '400 client_bad_json',
                     "{\"subject\":\"topic:\xff\"}" => '400 client_bad_json', '{} x' => '400 client_bad_json');
        for my $call (qw(subscribe unsubscribe ack)) {
            is(refusal($who->call(POST => $call, $_)), $cases{$_}, "E-5: $call with the body '$_'") for sort keys %cases;
        }
        for my $call (qw(events events/suspend events/resume)) {
            is(refusal($api->operator($call, $_)), $cases{$_}, "E-5: $call with the body '$_'") for sort keys %cases;
        }
        my $answer = $who->call(POST => 'subscribe', {subject => 'topic:a', unknown => {x => 1}, also => undef});
        is("$answer->{status} $answer->{headers}{'content-type'}", '200 application/json', 'E-5: unknown members are ignored');
        for my $case (['GET', 'nothing', '404 not_found'], ['GET', '', '404 not_found'], ['GET', 'subscribe/x', '404 not_found'], ['GET', 'subscribe', '405 method_not_allowed'],
                      ['POST', 'fetch', '405 method_not_allowed'], ['DELETE', 'ack', '405 method_not_allowed'], ['OPTIONS', 'fetch', '405 method_not_allowed']) {
            my $refused = $who->call(@$case[0, 1]);
            is(refusal($refused), $case->[2], "E-5: $case->[0] $case->[1]");
            is($refused->{headers}{'content-type'}, 'application/json', 'E-5: as JSON');
        }
        is($who->call(GET => 'subscribe')->{headers}{allow}, 'POST', 'E-5: what is allowed is said');
        my $large = $who->call(POST => 'subscribe', '{"subject":"topic:a","x":"' . 'y' x 300000 . '"}');
        is(refusal($large), '413 request_too_large', 'E-5: a body that is too large');
        is($large->{headers}{'content-type'}, 'application/json', 'E-5: as JSON too');
        my $huge = $who->call(POST => 'subscribe', undef, headers => ['Content-Length', 5 << 20, 'Expect', '100-continue']);
        is(refusal($huge), '413 request_too_large', "E-5: and one that nginx refuses itself");
        my $denied = EventsApi::answer(http_request($api->port, 'GET', '/denied/events/subscriptions'));
        is(refusal($denied), '403 forbidden', "E-5: what access control refuses");
        is($denied->{headers}{'content-type'}, 'application/json', 'E-5: is JSON, even with an error_page');
        my $head = $who->call(HEAD => 'subscriptions');
        is("$head->{status} $head->{headers}{'content-type'}", '200 application/json', 'E-5: HEAD');
        my $chunked = $who->call(POST => 'subscribe', "16\r\n{\"subject\":\"topic:ch\"}\r\n0\r\n\r\n", headers => ['Transfer-Encoding', 'chunked']);
        is($chunked->{status}, 200, 'E-5: a chunked body');
    },

    'E-6 other origins' => sub {
        my $call = sub {
            my ($method, $path, $origin, %with) = @_;
            return EventsApi::answer(http_request($api->port, $method, $path, headers => [$origin ? ('Origin', $origin) : (), 'Account', 'e6'], %with));
        };
        my $ok = $call->(GET => '/cors/subscriptions', 'https://app.example');
        is($ok->{headers}{'access-control-allow-origin'}, 'https://app.example', 'E-6: an allowed origin is reflected');
        is($ok->{headers}{'access-control-allow-credentials'}, 'true', 'E-6: with credentials');
        like($ok->{headers}{vary}, qr/Origin/, 'E-6: caches are told');
        is($call->(GET => '/cors/subscriptions', 'http://localhost:3000')->{headers}{'access-control-allow-origin'}, 'http://localhost:3000', 'E-6: several');
        for my $origin ('https://app.example.evil', 'null', 'https://APP.example', undef) {
            is($call->(GET => '/cors/subscriptions', $origin)->{headers}{'access-control-allow-origin'}, undef, 'E-6: not ' . ($origin // 'none'));
        }
        my $preflight = $call->(OPTIONS => '/cors/subscribe', 'https://app.example', headers => ['Origin', 'https://app.example', 'Access-Control-Request-Method', 'POST']);
        is("$preflight->{status} $preflight->{headers}{'content-type'} $preflight->{body}", '200 application/json {}', 'E-6: OPTIONS is answered, without an account');
        is($preflight->{headers}{'access-control-allow-headers'}, 'Content-Type, Authorization, Last-Event-ID', 'E-6: the headers');
        like($preflight->{headers}{'access-control-allow-methods'}, qr/POST/, 'E-6: the methods');
        my $closed = $call->(OPTIONS => '/denied/events/subscribe', 'https://app.example');
        is("$closed->{status} $closed->{headers}{'access-control-allow-origin'}", '200 https://app.example', 'E-6: OPTIONS comes before access control, as browsers need it');
        my $refused = $call->(POST => '/cors/subscribe', 'https://app.example', body => '{');
        is($refused->{headers}{'access-control-allow-origin'}, 'https://app.example', 'E-6: refusals too');
        is($call->(GET => '/cors/nothing', 'https://app.example')->{headers}{'access-control-allow-origin'}, 'https://app.example', 'E-6: 404 too');
        is($call->(GET => '/denied/events/subscriptions', 'https://app.example')->{headers}{'access-control-allow-origin'}, 'https://app.example', "E-6: nginx's own errors too");
        is($call->(GET => '/events/subscriptions', 'https://app.example')->{headers}{'access-control-allow-origin'}, undef, 'E-6: off by default');
        my $stream = SseClient->open(port => $api->port, path => '/cors/stream?subject=topic:x', headers => ['Account', 'e6', 'Origin', 'https://app.example']);
        is($stream->header('access-control-allow-origin'), 'https://app.example', 'E-6: streams too');
    },

    'E-7 delivery' => sub {
        my $who = someone();
        is($who->subscribe(subject => 'topic:a')->{delivery}, 'broadcast', 'E-7: default');
        is($who->subscribe(subject => 'topic:a', delivery => 'broadcast')->{delivery}, 'broadcast', 'E-7: broadcast');
        is($who->subscribe(subject => 'topic:a', delivery => 'single', handlerName => 'h0')->{delivery}, 'single', 'E-7: single');
        is(refused($who, delivery => $_), '400 bad_request', 'E-7: ' . $json->encode($_)) for 'both', 1, '', [];
        is(refused($who, delivery => 'single'), '400 events_handler_required', 'E-7: single without a handler');
    },

    'E-8 targets' => sub {
        my $who = someone();
        is_deeply($who->subscribe(subject => 'topic:a')->{targets}, ['socket'], 'E-8: default');
        is_deeply($who->subscribe(subject => 'topic:a', handlerName => 'h0')->{targets}, ['socket', 'worker'], 'E-8: default with a handler');
        is_deeply($who->subscribe(subject => 'topic:a', handlerName => 'h0', targets => [qw(worker push worker socket push)])->{targets},
                  [qw(worker push socket)], 'E-8: each once, in order');
        is_deeply($who->subscribe(subject => 'topic:a', targets => ['push'])->{targets}, ['push'], 'E-8: push is accepted');
        is(refused($who, targets => $_), '400 invalid_targets', 'E-8: ' . $json->encode($_)) for [], ['worker'], ['mail'], 'socket', ['socket', 1], {};
        is(refused($who, targets => ['push'], delivery => 'single', handlerName => 'h0'), '400 invalid_targets', 'E-8: single with push');
    },

    'E-9 handlers' => sub {
        my $who = someone();
        is($who->subscribe(subject => 'topic:a', handlerName => 'h0')->{handlerName}, 'h0', 'E-9: a configured handler');
        is(refused($who, handlerName => 'h9'), '404 events_handler_not_found', 'E-9: another');
        is(refused($who, handlerName => 'h0', handlerHash => 'a' x 64), '409 events_handler_hash_mismatch', 'E-9: hash');
        is(refused($who, handlerName => 'h0', handlerHash => uc sha256_hex($api->hook_url('h0'))), '409 events_handler_hash_mismatch', 'E-9: lower-case');
        ok($who->subscribe(subject => 'topic:a', handlerName => 'h0', handlerHash => sha256_hex($api->hook_url('h0'))), 'E-9: the hash of its URL');
    },

    'E-10, E-19 context' => sub {
        my $who = someone();
        my $row = $who->call(POST => 'subscribe', '{"subject":"topic:a","context":{"b":1,"a":"é"}}')->{json};
        is_deeply($row->{contextKeys}, ['a', 'b'], 'E-19: keys');
        is($row->{contextHash}, '763b30b943411fdf63233e3efb0d4068c1e60276f92f43a57909712f567befba', 'E-19: hash');
        my %same = ('{ "b" : 1.0, "a":"\u00e9" }' => $row->{contextHash}, '{"b":1,"a":"é"}' => $row->{contextHash});
        is($who->call(POST => 'subscribe', qq({"subject":"topic:a","context":$_}))->{json}{contextHash}, $same{$_}, "E-10: as stringified: $_") for sort keys %same;
        for my $case (['null', undef], ['[1,2]', []], ['"x"', []], ['1', []], ['{}', []]) {
            is_deeply($who->call(POST => 'subscribe', qq({"subject":"topic:a","context":$case->[0]}))->{json}{contextKeys}, $case->[1], "E-19: keys of $case->[0]");
        }
        my $fits = '"' . 'x' x 4094 . '"';
        is($who->call(POST => 'subscribe', qq({"subject":"topic:a","context": $fits }))->{status}, 200, 'E-10: 4096 bytes');
        my $refused = $who->call(POST => 'subscribe', qq({"subject":"topic:a","context":"secret@{['x' x 4089]}"}));
        is(refusal($refused), '413 events_context_too_large', 'E-10: 4097 bytes');
        unlike($refused->{body}, qr/secret/, 'E-19: the refusal does not repeat it');
    },

    'E-11 expiry' => sub {
        my $who = someone();
        my $later = time + 3600;
        is($who->subscribe(subject => 'topic:a', expiresAt => $later + 0.9)->{expiresAt}, $later, 'E-11: seconds, the fraction dropped');
        is($who->subscribe(subject => 'topic:a', expiresAt => '2100-01-02')->{expiresAt}, 4102531200, 'E-11: a bare date');
        is($who->subscribe(subject => 'topic:a', expiresAt => '2100-01-02T03:04:05.678+01:00')->{expiresAt}, 4102538645, 'E-11: ISO 8601');
        is(refused($who, expiresAt => $_), '400 invalid_expires_at', 'E-11: ' . $json->encode($_)) for 1, time - 1, '', 'soon', '2001-01-01', [], {}, JSON::PP::true;
    },

    'E-12 rows' => sub {
        my ($plain, $app) = (someone(), someone('notes'));
        my @ids = map { $plain->subscribe(subject => 'topic:a')->{subId} } 1 .. 3;
        my %ids = map { $_ => 1 } @ids;
        is(keys %ids, 3, 'E-12: each call makes a new row');
        my $uuid = qr/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/;
        like($_, qr/^user#$uuid$/, 'E-12: its name') for @ids;
        my $row = $app->subscribe(subject => 'topic:a');
        like($row->{subId}, qr/^notes#$uuid$/, "E-12: an app's");
        is($row->{appUid}, 'notes', 'E-12: appUid');
        is_deeply([sort keys %$row], [sort qw(subId subject anchor match op targets delivery handlerName appUid contextKeys
            contextHash createdAt expiresAt suspendedAt suspendedReason)], 'E-19: all members are there');
    },

    'E-14 to E-17 subjects' => sub {
        my $who = someone();
        for my $case (['topic:a:b'], ['topic:a:*'], ['topic:*'], ['topic:é'],
                      ['fs:/', '/', undef, undef], ['fs:/a/b', '/a/b', undef, undef], ['fs:/a/b:write', '/a/b', undef, 'write'],
                      ['fs:/a/*/c:add', '/a', '*/c', 'add'], ['fs:/a/**', '/a', '**', undef], ['fs:/*.txt', '/', '*.txt', undef]) {
            my ($subject, $path, $match, $op) = @$case;
            my $row = $json->decode($who->call(POST => 'subscribe', qq({"subject":"$subject"}))->{body});
            is_deeply([@$row{qw(anchor match op)}], [defined $path ? {uid => $path, path => $path} : undef, $match, $op], "E-14, E-15: $subject");
        }
        my %wrong = (
            invalid_subject_pattern => ['topic:a*b', 'topic:a?', 'topic:a*:b', 'fs:/a/**/**', 'fs:/a**', 'fs:/*a*', 'fs:/' . 'x' x 10 . '/*' . 'y' x 260, 'fs:/*' . '/a' x 16],
            invalid_subject_op => ['fs:/a:copy', 'fs:/a:WRITE'],
            invalid_subject => ['', 'topic:', 'fs:', 'fs:a', 'fs://a', 'fs:/a/../b', 'fs:/a/./b', 'fs:/a//b', 'notif:x', 'topic', 'topic:' . 'x' x 4091, "topic:a\\u0001", "topic:a\\u007f"],
        );
        for my $code (sort keys %wrong) {
            is(refusal($who->call(POST => 'subscribe', qq({"subject":"$_"}))), "400 $code", 'E-14 to E-17: ' . substr $_, 0, 40) for @{$wrong{$code}};
        }
        is(refusal($who->call(POST => 'subscribe', $_)), '400 invalid_subject', "E-17: $_") for '{}', '{"subject":null}', '{"subject":1}';
    },

    'E-20 to E-22 pages' => sub {
        my $who = someone();
        my @ids = map { $who->subscribe(subject => "topic:$_")->{subId} } 1 .. 7;
        is_deeply($who->list, {items => [$who->rows]}, 'E-20: no cursor and no total where there is no need');
        my $first = $who->list('limit=3&includeTotal=true');
        is_deeply([map { $_->{subId} } @{$first->{items}}], [@ids[0 .. 2]], 'E-20: in order of creation');
        is($first->{total}, 7, 'E-20: the whole scope is counted');
        is($who->list("includeTotal=$_")->{total}, undef, "E-20: includeTotal=$_") for 'false', '1', 'TRUE', '';
        my $second = $who->list("limit=3&cursor=$first->{cursor}");
        $who->call(POST => 'unsubscribe', {subId => $ids[$_]}) for 0, 5;
        my $new = $who->subscribe(subject => 'topic:8')->{subId};
        my $third = $who->list("limit=3&cursor=$second->{cursor}");
        is_deeply([map { $_->{subId} } @{$second->{items}}, @{$third->{items}}], [@ids[3 .. 5], $ids[6], $new],
                  'E-22: rows that come and go make no other appear twice or be skipped');
        is($third->{cursor}, undef, 'E-20: the last page');
        is(refusal($who->call(GET => "subscriptions?limit=$_")), '400 bad_request', "E-21: limit=$_") for 0, -1, '', 'x', '1.5', '1e1';
        is($who->call(GET => 'subscriptions?limit=100000000000000000000')->{status}, 200, 'E-21: more is capped');
        is(refusal($who->call(GET => "subscriptions?cursor=$_")), '400 bad_request', "E-22: cursor=$_") for '*', 'YWJj', '%00';
        is(scalar @{$who->list('cursor=' . encode_base64($_, ''))->{items}}, 6, "E-22: $_ starts at the first page")
            for '{}', '{"id":-1}', '{"id":"x"}', '{"id":1.5}', '[]', '{"id":null}';
        is($who->call(GET => 'subscriptions?limit=2&cursor=' . ($first->{cursor} =~ s/\+/%2B/gr))->{status}, 200, 'E-22: percent-encoded');
    },


    'E-23 expired ones' => sub {
        my $who = someone();
        my $row = $who->subscribe(subject => 'topic:a', expiresAt => time + 2);
        is(scalar($who->rows), 1, 'E-23: before it expires');
        sleep 1 while time <= $row->{expiresAt};
        is(scalar($who->rows), 0, 'E-23: never listed after it');
        my $stream = $who->stream('topic:session');
        is(scalar($who->rows), 0, 'E-23: session subscriptions are not listed');
    },

    'E-25 unsubscribe' => sub {
        my ($who, $other) = (someone(), someone());
        my $row = $who->subscribe(subject => 'topic:a');
        my $gone = '404 subscription_does_not_exist';
        is(refusal($other->call(POST => 'unsubscribe', {subId => $row->{subId}})), $gone, "E-25: another account's");
        is(refusal($who->call(POST => 'unsubscribe', $_)), $gone, 'E-25: ' . $_) for '{}', '{"subId":null}', '{"subId":7}', '{"subId":"user#x"}', '{"subId":""}';
        my $answer = $who->call(POST => 'unsubscribe', {subId => $row->{subId}});
        is("$answer->{status} $answer->{body}", '200 {}', 'E-25: removed');
        is(refusal($who->call(POST => 'unsubscribe', {subId => $row->{subId}})), $gone, 'E-25: once');
        is(scalar($who->rows), 0, 'E-25: it is gone');
    },
);

my $server = <<'END';
    error_page 403 404 413 /error.html;
    location = /error.html { internal; return 200 "<html>"; }
    location /denied/events/ { durable_events cors=https://app.example; durable_identity $http_account; deny all; }
    location /cors/ { durable_events cors=https://app.example cors=http://localhost:3000; durable_identity $http_account; }
    location /few/ { durable_events account_rows=5 app_rows=3; durable_identity $http_account $http_app; }
END

for my $workers (1, 2) {
    $api = EventsApi->start(workers => $workers, server => $server);
    my @todo = @clauses;
    while (my ($name, $clause) = splice @todo, 0, 2) {
        next if $ENV{ONLY} && $name !~ /$ENV{ONLY}/;
        subtest("$name, $workers workers", sub { $clause->(); done_testing });
    }
    $api->server->no_alerts;
    unlike($api->server->error_log, qr/secret/, 'E-19: no context is in the log');
    ok($api->server->stop, 'nginx ends in time');
}

done_testing;
