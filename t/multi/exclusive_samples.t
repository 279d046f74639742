# SPDX-License-Identifier: BSD-2-Clause
# The worked samples of exclusive sections, with one, two and four workers, and each rule about
# what a section is given and may answer (X-1 to X-5, X-10, X-12 to X-14).
use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Encode qw(decode_utf8 encode_utf8);
use Sections qw(steps refusal);
use Test::More;
use Time::HiRes qw(sleep time);

binmode Test::More->builder->$_, ':utf8' for qw(output failure_output);

# Runs one section and gives its answer.
sub section {
    my ($event, $operation, @steps) = @_;
    return $event->call(POST => "exclusive/$operation", body => steps(@steps));
}
sub notes { my ($host) = @_; return map { decode_utf8($_) } $host->sections->notes }
sub failed { my ($reason) = @_; return "持久独占失败：$reason" }

for my $workers (1, 2, 4) {
    my $host = Sections->start(workers => $workers, timeout => '1s');
    my @pids = $host->workers;
    my $at = sub { $pids[$_[0] % @pids] };
    my $of = "$workers workers";

    # Sample 1
    my @events = map { $host->event(worker => $at->($_)) } 0 .. 4;
    my @calls = map { $events[$_]->begin(POST => 'exclusive/counter', body => steps([add => 'n']), worker => $at->($_ + 1)) } 0 .. 4;
    my @results = sort map { $_->answer(10)->{body} } @calls;
    is("@results", '1 2 3 4 5', "sample 1, $of: five sections count to five");
    is($host->number('n'), 5, "sample 1, $of: and the number is five");
    my $last = 0;
    my $overlaps = 0;
    for my $run (sort { $a->[0] <=> $b->[0] } map { /^ran (\S+) (\S+)/ ? [$1, $2] : () } $host->sections->notes) {
        $overlaps++ if $run->[0] < $last;
        $last = $run->[1];
    }
    is($overlaps, 0, "X-6, $of: no two overlap");
    my @plain = map { $host->server->connect_to_worker($at->($_)) } 0 .. 4;
    $_->send_request('POST', '/as_section', body => steps([add => 'plain'])) for @plain;
    is(join(' ', map { $_->read_response(10)->{body} } @plain), '1 1 1 1 1', "sample 1, $of: without a section each gets one");

    # Sample 2
    my $running = $events[0]->begin(POST => 'exclusive/hold', body => steps([note => 'holds'], [wait => 'go'], [answer => 200, '"done"']));
    $host->sections->wait_note(qr/^holds/, 5) or die 'the section did not start';
    my $client = $host->server->connect_to_worker($at->(1));
    $client->send_request('GET', '/app/during?object=o');
    my $elsewhere = $host->event(object => 'other', worker => $at->(1));
    is(section($elsewhere, 'own', [answer => 200, '2'])->{body}, '2', "X-7, $of: another object is not held up");
    $elsewhere->end;
    ok(!$host->app->wait_note(qr/^during /, 0.05), "X-7, $of: an event that arrives during a section is held");
    $host->sections->allow('go');
    is($running->answer(5)->{body}, '"done"', "X-1, $of: the section's result");
    ok($host->app->wait_note(qr/^during /, 5), "sample 2, $of: it is served after the section");
    $host->app->allow('during');
    is($client->read_response(5)->{status}, 200, "sample 2, $of: and answered");

    # Sample 3
    my $failure = section($events[1], 'fail', [answer => 500, '{}']);
    is(refusal($failure), '500 exclusive_failed', "sample 3, $of");
    like($failure->{json}{message}, qr/^持久独占失败：/, "sample 3, $of: its message");
    is(section($events[1], 'again', [answer => 200, '[]'])->{body}, '[]', "X-10, $of: the object serves as before");

    # Sample 4
    my $unnamed = $events[2]->call(POST => 'exclusive/', body => '{}');
    is("$unnamed->{json}{code} $unnamed->{json}{message}", 'invalid_operation ' . failed('独占区操作名须为 1 至 128 字节'), "sample 4, $of: no name");
    my $no_json = $events[2]->call(POST => 'exclusive/x', body => encode_utf8('不是JSON'));
    is("$no_json->{json}{code} $no_json->{json}{message}", 'invalid_params ' . failed('独占区参数不是有效 JSON'), "sample 4, $of: no JSON");

    # Sample 5
    section($events[3], 'nest', [call => 'POST', 'exclusive/inner', '{}'], [answer => 200, '1']);
    like((grep { /nested/ } notes($host))[-1], qr/^409 .*独占区内不可再启动独占区/, "sample 5, $of");
    $_->end for @events;
    $host->server->no_alerts("$of: no alerts");
}

my $host = Sections->start(workers => 2, timeout => '500ms');
my $event = $host->event(object => 'o');

# X-1, X-2: what the handler sees
{
    my $operation = 'save%20%E5%90%8D';
    my $body = ' [["seen","durable-event-kind","durable-object","durable-operation","content-type","content-length","accept-encoding"], ["answer", 200, "{\"a\" : 1.50}"]] ';
    my $answer = $event->call(POST => "exclusive/$operation", body => $body, headers => ['Accept-Encoding', 'gzip', 'Content-Type', 'text/x']);
    is($answer->{status}, 200, 'X-1: a section runs');
    is($answer->{json}{a}, 1.5, 'X-2: its result is equal as JSON');
    is((notes($host))[-1], 'seen POST durable-event-kind=durable-block durable-object=o durable-operation=save%20%E5%90%8D content-type=application/json content-length=' . length($body) . " accept-encoding=- $body",
       'X-1, X-2: a POST with the operation and the params, byte for byte');
    is($event->call(POST => 'exclusive/' . 'x' x 128, body => '1')->{body}, '1', 'X-2: a name of 128 bytes');
    is(refusal($event->call(POST => 'exclusive/' . 'x' x 129, body => '1')), '400 invalid_operation', 'X-12: of 129');
    is(refusal($event->call(POST => 'exclusive/%FF', body => '1')), '400 invalid_operation', 'X-12: bytes that are no text');
    for my $valid ('1e999', '-0.0E-10', '"\\ud83d\\ude00"', '[' x 1024 . ']' x 1024, ' true ') {
        is($event->call(POST => 'exclusive/echo', body => $valid)->{body}, $valid, 'X-2: valid: ' . substr $valid, 0, 20);
    }
    for my $bad ('', ' ', '01', '[1,]', "\"\xFF\"", '{"a":1}x', '[' x 1025 . ']' x 1025, 'nul', "\"\t\"") {
        is(refusal($event->call(POST => 'exclusive/echo', body => $bad)), '400 invalid_params', 'X-12: not valid: ' . substr $bad, 0, 9);
    }
    my $large = $event->call(POST => 'exclusive/x', body => '1' x (8388608 + 1));
    is(refusal($large), '413 params_too_large', 'X-12: params of more than 8 MiB');
    is($large->{json}{message}, failed('独占区参数超过 8 MiB'), 'its message');
    is(refusal($event->call(POST => 'exclusive/x', body => '1' x 10000000)), '413 params_too_large', 'and past what nginx itself takes');
    is($host->call(POST => 'exclusive/x', body => '{}')->{json}{code}, 'unknown_event', 'X-14: without an event');
    is(refusal($event->call(GET => 'section')), '409 not_in_section', 'X-13: reading outside a section');
    is(refusal($event->call(POST => 'section/result', body => '1')), '409 not_in_section', 'X-13: completing outside');
}

# X-3, X-4, X-5, X-13: host calls of a section
{
    my $calls = sub {
        my @steps = @_;
        my $before = () = notes($host);
        my $answer = section($event, 'op', @steps);
        my @new = notes($host);
        return ($answer, @new[$before .. $#new]);
    };
    my ($answer, @told) = $calls->([call => 'GET', 'section'], [give => '{"r":1}'], [give => '2'], [answer => 200, 'ignored']);
    is($told[0], '200 {"operation":"op","params":' . steps([call => 'GET', 'section'], [give => '{"r":1}'], [give => '2'], [answer => 200, 'ignored']) . '}',
       'X-1: a section reads its operation and its params');
    is($told[1], '204 ', 'X-4: it completes');
    like($told[2], qr/^409 .*already_completed.*独占区结果只能设置一次/, 'X-4: once') or diag @told;
    is($answer->{body}, '{"r":1}', 'X-4: with that result');
    ($answer, @told) = $calls->([give => '{nope'], [give_large => 8388607], [give => '3'], [answer => 204, '']);
    like($told[0], qr/^400 .*invalid_result.*持久独占结果无效：独占区结果不是有效 JSON/, 'X-4: a result that is no JSON');
    like($told[1], qr/^413 .*result_too_large.*持久独占结果无效：独占区结果超过 8 MiB/, 'X-4: one that is too large');
    is($told[2], '204 ', 'X-4: and then another');
    is($answer->{body}, '3', 'X-4: is the result');
    ($answer, @told) = $calls->([give => '3'], [answer => 500, '']);
    is(refusal($answer), '500 exclusive_failed', 'a handler that fails after it gave a result has failed');
    ($answer, @told) = $calls->([call => 'POST', 'stream', ''], [call => 'POST', 'channels/c/subscriptions', ''],
        [call => 'POST', 'channels/c/messages', 'hello'], [call => 'GET', 'channels/c'], [call => 'POST', 'exclusive/x', '1']);
    like($told[0], qr/^409 .*wrong_event_kind/, 'X-3: a section starts no stream');
    like($told[1], qr/^201 /, 'X-5: it subscribes');
    is($told[2], '200 {"delivered":1}', 'X-5: it publishes');
    is($told[3], '200 {"subscriptions":1}', 'X-5: it counts');
    like($told[4], qr/^409 .*nested_exclusive.*独占区内不可再启动独占区/, 'X-5: it starts no other section');
    is($event->count('c'), 0, 'its subscriptions end with it');
}

# X-10: how a section fails
{
    my $reason = sub { my $answer = section($event, 'op', @_); return "$answer->{status} " . ($answer->{json}{message} // '') };
    is($reason->([answer => 404, '1']), '500 ' . failed('the handler answered 404'), 'X-10: another status');
    is($reason->([answer => 302, '1', ['Location', '/x']]), '500 ' . failed('the handler answered 302'), 'X-10: a redirect');
    is($reason->([answer => 200, '']), '500 ' . failed('豫言独占区未供结果'), 'X-10: no result');
    is($reason->([answer => 204, '']), '500 ' . failed('豫言独占区未供结果'), 'X-10: no content');
    is($reason->([answer => 200, '{nope']), '500 ' . failed('独占区结果不是有效 JSON'), 'X-10: an answer that is no JSON');
    is($reason->([answer_large => 8388607]), '500 ' . failed('独占区结果超过 8 MiB'), 'X-10: one that is too large');
    is($reason->(['close']), '500 ' . failed('the handler answered 502'), 'X-10: a handler that dies');
    is($reason->([raw => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n[1]"], ['close']), '500 ' . failed("the handler's answer was cut off"), 'X-10: that dies in its answer');
    is($reason->([raw => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1]\r\n"], ['close']), '500 ' . failed("the handler's answer was cut off"), 'X-10: in a chunked one');
    is($reason->(['silence']), '500 ' . failed('豫言执行超过时限'), 'X-11: past its limit');
    ok($host->sections->wait_note(qr/^closed/, 2), 'the connection to its handler is closed then');
    is(section($event, 'op', [raw => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n1\r\n]\r\n0\r\n\r\n"], ['wait', 'ever'])->{body}, '[1]', 'a chunked answer');
    is($event->count('c'), 0, 'X-10: the object goes on serving');
}
$event->end;
$host->server->no_alerts;
done_testing();
