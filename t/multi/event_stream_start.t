# SPDX-License-Identifier: BSD-2-Clause
# Starting an event stream: clauses S-1 to S-9.
use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use Http2Client;
use SseClient;
use StreamApp;
use Test::More;

# [what, the head, the answer]; those that are refused leave the event as it was.
my @refused = (
    (map { ["status $_", {status => $_}, 'invalid_status'] } 0, 100, 199, 204, 205, 300, 404, -1, 200.5, 1e9),
    ['33 headers', {headers => [map { ["X-$_", 'a'] } 1 .. 33]}, 'invalid_header'],
    ['an empty name', {headers => [['', 'a']]}, 'invalid_header'],
    ['a name of 65 bytes', {headers => [['x' x 65, 'a']]}, 'invalid_header'],
    ['a name with a space', {headers => [['X A', 'a']]}, 'invalid_header'],
    ['a name with a colon', {headers => [['X:', 'a']]}, 'invalid_header'],
    ['a value of 8193 bytes', {headers => [['X-A', 'a' x 8193]]}, 'invalid_header'],
    ['a value with CR LF', {headers => [['X-A', "a\r\nX-B: b"]]}, 'invalid_header'],
    ['a value with DEL', {headers => [['X-A', "a\x7f"]]}, 'invalid_header'],
    ['a value with 0x80', {headers => [['X-A', "\x{e9}"]]}, 'invalid_header'],
    ['a name twice', {headers => [['X-A', 'a'], ['x-a', 'b']]}, 'invalid_header'],
    (map { [$_, {headers => [[$_, 'a']]}, 'forbidden_header'] }
        qw(Content-Length Transfer-Encoding Connection Keep-Alive Upgrade TE Trailer Content-Type Content-Encoding
           Set-Cookie Set-Cookie2 content-LENGTH set-cookie)),
    ['no JSON', {body => '{'}, 'invalid_request'],
    ['an array', {body => '[]'}, 'invalid_request'],
    ['a status that is a string', {body => '{"status":"200"}'}, 'invalid_request'],
    ['headers that are no pairs', {body => '{"headers":[["a"]]}'}, 'invalid_request'],
);

my $app = StreamApp->start(
    at_once => sub {
        my ($calls, $connection, $request) = @_;
        $calls->start;
        $connection->wait_for("at_once-$request->{headers}{'x-run'}", 10);
        $calls->note($calls->end);
    },
    head => sub {
        my ($calls) = @_;
        $calls->note(join ' ', $calls->start(status => 202, headers => [['X-A', 'b']]), $calls->write("data: 1\n\n"),
                     $calls->write('x' x 65536), $calls->write('x' x 65536), $calls->end, $calls->write('x'));
    },
    refused => sub {
        my ($calls, $connection, $request) = @_;
        my ($index) = $request->{path} =~ /n=(\d+)/;
        my @answers = map { $calls->start(%{$_->[1]}) } defined $index ? $refused[$index] : @refused;
        $calls->note(join ' ', @answers);
        if ($request->{path} =~ /then=start/) {
            $calls->note(join ' ', $calls->start, $calls->write("data: 1\n\n"), $calls->end);
        } else {
            $connection->respond(200, undef, 'its own');
        }
        return $request->{path} =~ /then=start/ ? '' : 'answered';
    },
    legal => sub {
        my ($calls, $connection, $request) = @_;
        my @headers = (['x' x 64, 'a'], ['X-Long', 'b' x 8192], ['X-Empty', ''], ['X-Tab', "a\tb ~"], ['Server', 'own'],
                       ['Date', 'today'], ["!#\$%&'*+-.^_`|~", 'marks'], map { ["X-$_", "$_"] } 1 .. 25);
        $calls->note($calls->start(status => 299, headers => \@headers));
        $calls->end;
    },
    cache => sub {
        my ($calls) = @_;
        $calls->note($calls->start(status => 201, headers => [['cache-control', 'private']]));
        $calls->end;
    },
    twice => sub {
        my ($calls) = @_;
        my $first = $calls->start;
        my $second = $calls->start;
        my $is_fixed = $calls->message eq '本次事件已经开始过事件流回应';
        $calls->note(join ' ', $first, $second, $is_fixed ? 'message' : '', $calls->end, $calls->start);
    },
    committed => sub {
        my ($calls, $connection) = @_;
        $connection->write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
        $connection->wait_for('committed', 10);
        $calls->note($calls->start);
        $connection->write('cd');
        return 'answered';
    },
    answers => sub {
        my ($calls, $connection, $request) = @_;
        my ($how) = $request->{path} =~ /how=(\w+)/;
        $calls->start;
        $calls->write("data: 1\n\n");
        $calls->note($calls->end);
        return '' if $how eq 'empty';
        $connection->respond(200, ['X-Secret', 'yes'], 'secret') if $how eq 'body';
        $connection->respond(500) if $how eq 'failed';
        $connection->die_now if $how eq 'dies';
        return 'answered';
    },
    section => sub {
        my ($calls, $connection, $request) = @_;
        if ($request->{headers}{'durable-event-kind'} eq 'fetch') {
            my ($status, $data) = $calls->call('POST', 'exclusive/x', body => 'null');
            $calls->note("section $status $data->{code}");
            $calls->note('own ' . $calls->start . ' ' . $calls->end);
            return '';
        }
        my $code = $calls->start;
        $connection->respond(200, undef, qq({"code":"$code"}));
        return 'answered';
    },
);

for my $workers (1, 2, 4) {
    my $server = $app->server(
        workers => $workers,
        location => 'proxy_set_header X-Run $http_x_run; proxy_buffering off; durable_exclusive_handler /app/section;',
        http => 'add_header X-Added yes always;',
        server => 'listen 127.0.0.1:{{port_h2}} http2; listen 127.0.0.1:{{port_tls}} ssl http2;'
            . ' ssl_certificate {{cert}}; ssl_certificate_key {{key}};',
    );
    my $port = $server->port;
    for my $where (qw(same other)) {
        my $what = "($workers workers, calls at the $where)";

        my $stream = SseClient->open(port => $port, path => "/app/at_once/$where", headers => ['X-Run', "$workers$where"]);
        is($stream->status, 200, "S-1: the head comes while the application runs on $what");
        is($stream->header('X-Added'), 'yes', 'add_header applies');
        is($stream->wait_end(0.05), undef, 'S-1: and the stream is open');
        $app->allow("at_once-$workers$where");
        is($stream->wait_end(5), 'end', 'S-1: until it is ended');
        is($app->results('at_once', 1), '204', 'S-1: by its handle');

        for my $how (['h2'], ['tls', tls => 1]) {
            my ($name, %tls) = @$how;
            my $h2 = Http2Client->connect(port => $server->port($name), %tls);
            my $id = $h2->request(path => "/app/at_once/$where", headers => ['X-Run', "$name$workers$where"]);
            ok($h2->wait_head($id, 5), "S-1: the head at once, HTTP/2 $what");
            is($h2->status($id), 200, 'S-1: its status');
            ok(!$h2->wait_end($id, 0.05), 'S-1: the stream is open');
            $app->allow("at_once-$name$workers$where");
            ok($h2->wait_end($id, 5) && $h2->is_ended($id), 'S-1: until it is ended');
            is($app->results('at_once', 1), '204', 'S-1');
        }

        my $client = DurableClient->connect(port => $port);
        my $response = $client->request('HEAD', "/app/head/$where");
        is("$response->{status} $response->{headers}{'x-a'}", '202 b', "S-1a: the head for HEAD $what");
        is($app->results('head', 1), '201 0 0 0 204 2', 'S-1a: later writes answer 0');
        is($client->request('GET', '/_worker')->{status}, 200, 'S-1a: and send nothing');
        my $h2 = Http2Client->connect(port => $server->port('h2'));
        my $id = $h2->request(path => "/app/head/$where", method => 'HEAD');
        ok($h2->wait_end($id, 5) && $h2->is_ended($id), 'S-1a: HTTP/2');
        is($h2->status($id) . $h2->data($id), 202, 'S-1a: the head alone');
        is($app->results('head', 1), '201 0 0 0 204 2', 'S-1a: later writes answer 0');

        is(http_request($port, 'GET', "/app/refused/$where")->{body}, 'its own', "S-6: nothing is committed $what");
        my @answers = split / /, $app->results('refused', 1);
        is($answers[$_], $refused[$_][2], "S-2, S-4, S-5: $refused[$_][0]") for 0 .. $#refused;
        $response = http_request($port, 'GET', "/app/refused/$where?n=0&then=start");
        is("$response->{status} $response->{body}", "200 data: 1\n\n", 'S-6: nor is a later start hindered');
        is($app->results('refused', 2), 'invalid_status, 201 0 204', 'S-6');

        $response = http_request($port, 'GET', "/app/legal/$where");
        is($app->results('legal', 1), '201', "S-2, S-4: what is legal $what");
        is($response->{status}, 299, 'S-2: its status');
        is($response->{headers}{'x' x 64}, 'a', 'S-4: a name of 64 bytes');
        ok(($response->{headers}{'x-long'} // '') eq 'b' x 8192, 'S-4: a value of 8192 bytes');
        is($response->{headers}{'x-tab'}, "a\tb ~", 'S-4: a tab');
        is($response->{headers}{"!#\$%&'*+-.^_`|~"}, 'marks', 'S-4: all of a token');
        is("$response->{headers}{server} $response->{headers}{date}", 'own today', 'Server and Date of its own, once');

        $response = http_request($port, 'GET', "/app/cache/$where");
        is($response->{headers}{'cache-control'}, 'private', "S-3: a Cache-Control of its own $what");
        is($app->results('cache', 1), '201', 'S-3');

        is(http_request($port, 'GET', "/app/twice/$where")->{body}, '', "S-7: at most one stream $what");
        is($app->results('twice', 1), '201 stream_already_started message 204 stream_already_started', 'S-7');

        $client = DurableClient->connect(port => $port);
        $client->send_request('GET', "/app/committed/$where");
        is($client->read_head(5)->{status}, 200, "S-8: the application's own head $what");
        $app->allow('committed');
        is($app->results('committed', 1), 'response_committed', 'S-8: then no stream can start');
        is($client->read_bytes(4, 5), 'abcd', 'S-8: and its own answer goes on');

        is(http_request($port, 'GET', "/app/section/$where")->{status}, 200, "S-8: a section $what");
        is($app->results('section', 2), 'section 200 wrong_event_kind, own 201 204', 'S-8: its event cannot start one');

        for my $case (['empty', 0], ['body', 1], ['failed', 1], ['dies', 1]) {
            my ($how, $is_logged) = @$case;
            my $offset = length $server->error_log;
            $stream = SseClient->open(port => $port, path => "/app/answers/$where?how=$how");
            is(join(' ', $stream->next_texts(1, 5)), '1', "S-9: $how $what");
            is($stream->wait_end(5), 'end', 'S-9: the client gets the stream alone');
            is($app->results('answers', 1), '204', 'S-9');
            is($stream->header('X-Secret'), undef, 'S-9: and none of the headers');
            NginxProcess::wait_until(5, sub { $server->access_log =~ m{GET /app/answers/$where\?how=$how} });
            my @warnings = substr($server->error_log, $offset) =~ /\[warn\].*own answer.*dropped/g;
            is(scalar @warnings, $is_logged, 'S-9: a warning for what is lost, once');
        }
        unlink "$app->{folder}/allow-committed";
    }
    is(() = $server->access_log =~ m{"GET /app/answers/\w+\?how=\w+ HTTP/1.1" 200 }g, 8, 'the access log has the status of the streams');
    $server->no_alerts;
    ok($server->stop, 'nginx ends');
}

done_testing();
