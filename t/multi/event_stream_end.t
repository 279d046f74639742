# SPDX-License-Identifier: BSD-2-Clause
# The end of an event stream, and the life of its handle: clauses S-18 to S-23.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use Http2Client;
use SseClient;
use StreamApp;
use Test::More;


my $app = StreamApp->start(
    # Ends or aborts, and goes on until the test lets it.
    over => sub {
        my ($calls, $connection, $request) = @_;
        my ($how, $run) = $request->{path} =~ /\?(\w+)-(\w+)/;
        $calls->start;
        $calls->write("data: 1\n\n");
        my $over = $how eq 'end' ? $calls->end : $calls->abort('because');
        $calls->note(join ' ', $over, $calls->end, $calls->abort('x'), $calls->write('x'), $calls->write(''));
        $connection->wait_for($run, 10);
        $connection->note("over-done: $run");
    },
    big => sub {
        my ($calls, $connection, $request) = @_;
        my ($how) = $request->{path} =~ /\?(\w+)/;
        $calls->start;
        my $answers = join ' ', map { $calls->write($_ x 9999 . "\n") } 'a' .. 'f';
        $how eq 'end' ? $calls->end : $how eq 'abort' ? $calls->abort : undef;
        $calls->note($answers);
    },
    reason => sub {
        my ($calls) = @_;
        $calls->start;
        $calls->note(join ' ', $calls->abort('x' x 1025), $calls->abort("\xFF"), $calls->write('ok'),
                     $calls->abort("secret\n[forged] \"line\""));
    },
    longest => sub {
        my ($calls) = @_;
        $calls->start;
        $calls->note($calls->abort('y' x 1024));
    },
    handles => sub {
        my ($calls) = @_;
        my @forged = ('0' x 16, 'f' x 16, 'x', '1', 'F' x 16, '%01', 'a' x 17, 'a' x 200);
        $calls->note(join ' ', map { $calls->write('x', handle => $_) } @forged);
        $calls->start;
        my $own = $calls->handle;
        push @forged, substr($own, 1) . substr($own, 0, 1), uc($own) eq $own ? 'x' : uc $own, "$own%20";
        $calls->note(join ' ', map { ($calls->write('x', handle => $_), $calls->disconnected(handle => $_),
            $calls->end(handle => $_), $calls->abort('', handle => $_)) } @forged);
        $calls->note(join ' ', $calls->write('own'), $calls->end);
    },
    tell => sub {
        my ($calls) = @_;
        $calls->start;
        $calls->end;
        $calls->note(join ' ', $calls->token, $calls->handle);
    },
    use_told => sub {
        my ($calls, $connection, $request) = @_;
        my ($token, $handle) = split /-/, $request->{headers}{'x-told'};
        $calls->start;
        $calls->note(join ' ', $calls->write('x', handle => $handle), $calls->write('x', handle => $handle, token => $token),
            $calls->start(), $calls->write('x', token => undef), $calls->write('x', token => 'f' x 52), $calls->end);
    },
    unfinished => sub {
        my ($calls, $connection, $request) = @_;
        $calls->start;
        $calls->write("data: 1\n\n");
        $connection->die_now if $request->{path} =~ /dies/;
        $connection->respond(500) if $request->{path} =~ /fails/;
        if ($request->{path} =~ /half/) {
            $connection->write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
            $connection->die_now;
        }
        $connection->write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") if $request->{path} =~ /answers/;
        return 'answered';
    },
    limit => sub {
        my ($calls, $connection, $request) = @_;
        $calls->start;
        $calls->write("data: 1\n\n");
        $calls->end if $request->{path} =~ /ended/;
        $calls->note('closed') if $connection->wait_closed(5);
        $calls->note(join ' ', $calls->write('x'), $calls->disconnected, $calls->end, $calls->start);
        return 'answered';
    },
);


for my $workers (1, 2, 4) {
    my $server = $app->server(
        workers => $workers,
        location => 'proxy_set_header X-Told $http_x_told; durable_stream_buffer 128k;',
        server => 'listen 127.0.0.1:{{port_slow}} sndbuf=8k; listen 127.0.0.1:{{port_h2}} http2;'
            . ' listen 127.0.0.1:{{port_tls}} ssl; listen 127.0.0.1:{{port_tls2}} ssl http2;'
            . ' ssl_certificate {{cert}}; ssl_certificate_key {{key}};'
            . " location /raw/ { durable_object main x; $StreamApp::TO_APP chunked_transfer_encoding off; proxy_pass http://127.0.0.1:" . $app->port . "/app/; }\n"
            . " location /short/ { durable_object main x; durable_event_timeout 500ms; $StreamApp::TO_APP proxy_pass http://127.0.0.1:" . $app->port . '/app/; }',
    );
    my $port = $server->port;
    for my $where (qw(same other)) {
        my $what = "($workers workers, calls at the $where)";
        my $run = "$workers$where";

        # While the application runs on.
        for my $how (qw(end abort)) {
            my $answers = '204 204 204 2 2';
            my $ending = $how eq 'end' ? 'end' : 'cut';
            my $stream = SseClient->open(port => $port, path => "/app/over/$where?$how-$how$run");
            is($app->results('over', 1), $answers, "S-18, S-19, S-20: $how $what");
            is(join(' ', $stream->next_texts(1, 5)), 1, 'S-19a: what was accepted arrives');
            is($stream->wait_end(5), $ending, "S-18, S-19: the client sees the $how at once");
            ok($app->is_quiet('over-done', qr/$how$run/, 0), 'while the application runs on');
            my $tls = SseClient->open(port => $server->port('tls'), tls => 1, path => "/app/over/$where?$how-$how$run");
            is($app->results('over', 1), $answers, "TLS: $how");
            is($tls->wait_end(5), $ending, "TLS: the client sees the $how at once");
            for my $name (qw(h2 tls2)) {
                my $h2 = Http2Client->connect(port => $server->port($name), tls => $name eq 'tls2');
                my $id = $h2->request(path => "/app/over/$where?$how-$how$run");
                is($app->results('over', 1), $answers, "HTTP/2: $how");
                ok($h2->wait_end($id, 5), "HTTP/2: the client sees the $how at once");
                is($h2->data($id), "data: 1\n\n", 'S-19a: what was accepted arrives');
                is($h2->is_ended($id), $how eq 'end' ? 1 : 0, 'S-18: END_STREAM');
                is($h2->reset_code($id), $how eq 'end' ? undef : 2, 'S-19: RST_STREAM');
                my $next = $h2->request(path => '/_worker');
                ok($h2->wait_end($next, 5) && $h2->is_ended($next), 'HTTP/2: the connection goes on');
            }
            for my $old (['HTTP/1.0', '/app', version => '1.0'], ['no chunks', '/raw']) {
                my ($name, $prefix, @version) = @$old;
                my $client = DurableClient->connect(port => $port);
                $client->send_request('GET', "$prefix/over/$where?$how-$how$run", @version);
                is($app->results('over', 1), $answers, "$name: $how");
                my $head = $client->read_head(5);
                is($head->{headers}{connection}, 'close', "$name: the connection will be closed");
                is($head->{headers}{'transfer-encoding'}, undef, "$name: without chunks");
                if ($how eq 'end') {
                    is($client->read_until(qr/\n\n/, 5), "data: 1\n\n", "$name: what was accepted arrives");
                } else {
                    is($client->read_to_eof(5), "data: 1\n\n", "$name: what was accepted arrives");
                    like($client->{error}, qr/reset/, "S-19: $name: an abort is a TCP reset, at once");
                }
                next if $how eq 'abort';
                $app->allow("$how$run");
                is($client->read_to_eof(5), '', "$name: the close is the end");
                $app->forget('over-done');
                unlink "$app->{folder}/allow-$how$run";
            }
            $app->allow("$how$run");
        }

        # A reader that is slow.
        for my $case (['/app', 'end'], ['/app', 'abort'], ['/app', 'answer'], ['/raw', 'end'], ['/raw', 'abort'], ['/raw', 'answer']) {
            my ($prefix, $how) = @$case;
            my $client = DurableClient->connect(port => $server->port('slow'), rcvbuf => 4096);
            $client->send_request('GET', "$prefix/big/$where?$how");
            is($app->results('big', 1), '0 0 0 0 0 0', "S-19a: $prefix $how $what");
            my $head = $client->read_head(5);
            my $body = eval { $prefix eq '/app' && $how eq 'end' ? $client->read_chunks(10) : $client->read_to_eof(10) };
            $body =~ s/\r\n[0-9a-f]+\r\n|\A[0-9a-f]+\r\n|\r\n\z//g if $prefix eq '/app';
            ok(($body // '') eq join('', map { $_ x 9999 . "\n" } 'a' .. 'f'), 'S-19a: what a write accepted arrives first');
            like($client->{error} // '', $how eq 'end' ? qr/^$/ : qr/reset/, 'S-19: then the reset') if $prefix eq '/raw';
        }

        my $offset = length $server->error_log;
        my $response = eval { http_request($port, 'GET', "/app/reason/$where") };
        is($app->results('reason', 1), 'reason_too_large invalid_text 0 204', "S-19: the reason $what");
        is($response, undef, 'S-19: the body is cut off');
        ok($server->wait_log(qr/aborted its event stream: "secret\\n\[forged\] \\"line\\""/), 'S-19: it is in the log, as one line');
        eval { http_request($port, 'GET', "/app/longest/$where") };
        is($app->results('longest', 1), '204', 'S-19: a reason of 1024 bytes');
        ok($server->wait_log(qr/"y{1024}"/), 'S-19: is in the log');

        $response = http_request($port, 'GET', "/app/handles/$where");
        is($app->results('handles', 1), join(' ', ('unknown_stream') x 8), "S-21: handles before a start $what");
        is($app->results('handles', 1), join(' ', ('unknown_stream') x 44), 'S-21: forged handles');
        is($app->results('handles', 1), '0 204', 'S-21: the own stream is not touched');
        is($response->{body}, 'own', 'S-21: nor its bytes');

        http_request($port, 'GET', "/app/tell/$where");
        my $told = $app->results('tell', 1) =~ s/ /-/r;
        http_request($port, 'GET', "/app/use_told/$where", headers => ['X-Told', $told]);
        is($app->results('use_told', 1), 'unknown_stream unknown_event stream_already_started unknown_event unknown_event 204',
           "S-21: the handle of an event that is over $what");

        for my $how (qw(answers dies fails half)) {
            $offset = length $server->error_log;
            my $stream = SseClient->open(port => $port, path => "/app/unfinished/$where?$how");
            is(join(' ', $stream->next_texts(1, 5)), 1, "S-22: $how $what");
            is($stream->wait_end(5), 'cut', 'S-22: neither ended nor aborted is aborted');
            NginxProcess::wait_until(5, sub { $server->access_log =~ m{unfinished/$where\?$how} });
            my $log = substr $server->error_log, $offset;
            like($log, qr/\[error\].*an event stream was aborted/, 'S-22: and logged');
            my @warnings = $log =~ /own answer.*dropped/g;
            is(scalar @warnings, $how eq 'answers' ? 0 : 1, 'S-9: a failed answer too, once');
            like($server->access_log, qr{unfinished/$where\?$how HTTP/1.1" 200 }, 'the access log has the status of the stream');
        }

        for my $how (qw(open ended)) {
            my $stream = SseClient->open(port => $port, path => "/short/limit/$where?$how");
            is(join(' ', $stream->next_texts(1, 5)), 1, "S-22: the time limit of one that is $how $what");
            is($stream->wait_end(5), $how eq 'open' ? 'cut' : 'end', 'S-22: its stream');
            is($app->results('limit', 2), 'closed, unknown_event unknown_event unknown_event unknown_event',
               'S-22: later calls answer unknown_event');
            next if $how eq 'open';
            is($stream->client->request('GET', '/_worker')->{status}, 200, 'its connection goes on');
        }
        ok($server->wait_log(qr/aborted: its event has reached durable_event_timeout/), 'S-22: the limit is logged');
        unlink glob "$app->{folder}/allow-*";
    }
    $server->no_alerts;
    ok($server->stop, 'nginx ends');
}

done_testing();
