# SPDX-License-Identifier: BSD-2-Clause
# Writing to an event stream and the client's leaving: clauses S-10 to S-17.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use Http2Client;
use SseClient;
use StreamApp;
use Test::More;
use Time::HiRes qw(time);

my $buffer = 32768;    # durable_stream_buffer
my $kernel = 8192;     # sndbuf of the listening socket; the kernel doubles it

# The bytes on their way to the client of a connection to `port`: not acknowledged, not yet read, or
# read by it and not looked at.
sub kernel_holds {
    my ($client, $port) = @_;
    my ($near, $far) = map { sprintf ':%04X', $_ } $client->socket->sockport, $port;
    open my $table, '<', '/proc/net/tcp' or die "/proc/net/tcp: $!";
    my $bytes = length $client->buffer;
    while (<$table>) {
        my (undef, $local, $remote, undef, $queues) = split;
        $bytes += hex((split /:/, $queues)[0]) if $local =~ /$far$/ && $remote =~ /$near$/;
        $bytes += hex((split /:/, $queues)[1]) if $local =~ /$near$/ && $remote =~ /$far$/;
    }
    return $bytes;
}

my $app = StreamApp->start(
    text => sub {
        my ($calls) = @_;
        $calls->start;
        my @answers = map { $calls->write($_) } "\xFF", "\xE2\x82", "\xE2\x82\xAC", "\xED\xA0\x80", "a\0b", "x\r\ny\r\n",
            'x' x 65536, 'x' x 65537, ("\xFF" x 65537);
        push @answers, $calls->write('x' x 65537, handle => 'f' x 16), $calls->write('x', handle => 'f' x 16);
        $calls->end;
        push @answers, $calls->write('x' x 65537), $calls->write('x');
        $calls->note(join ' ', @answers);
    },
    empty => sub {
        my ($calls, $connection) = @_;
        $calls->start;
        $calls->note($calls->write(''));
        $connection->wait_for('empty', 10);
        $calls->note($calls->wait_disconnected(10) ? $calls->write('') : 'not seen');
        $calls->end;
        $calls->note($calls->write(''));
        unlink "$connection->{folder}/allow-empty";
    },
    fill => sub {
        my ($calls, $connection, $request) = @_;
        $calls->start;
        my ($size) = $request->{path} =~ /size=(\d+)/;
        for my $number (1 .. 1000) {
            my $text = sprintf('%-' . ($size - 1) . "d\n", $number);
            my $answer = $calls->write($text, timeout => 30);
            next if $answer eq '0';
            $calls->note("$answer $number");
            last;
        }
        $calls->note('after ' . join ' ', map { $calls->write('y' x 65536) } 1 .. 3);
        $calls->note('alive ' . $calls->disconnected);
    },
    room => sub {
        my ($calls, $connection, $request) = @_;
        $calls->start;
        my $sent = 0;
        for (1 .. 60) {
            my $text = chr(65 + $_ % 26) x 9999 . "\n";
            last if $calls->write($text, timeout => 30) ne '0';
            $sent += length $text;
            $connection->note("room: $sent");
        }
        $calls->note('end ' . $calls->end);
    },
    tick => sub {
        my ($calls, $connection) = @_;
        $calls->start;
        my $slowest = 0;
        for (1 .. 20) {
            my $before = time;
            $calls->write("data: $_\n\n");
            my $took = time - $before;
            $slowest = $took if $took > $slowest;
        }
        $calls->note($slowest < 1 ? 'quick' : "slow $slowest");
        $calls->end;
    },
    leaving => sub {
        my ($calls, $connection, $request) = @_;
        $calls->start;
        $calls->note('seen ' . ($calls->wait_disconnected(5) ? 'yes' : 'no'));
        $calls->note(join ' ', $calls->write('x'), $calls->abort('gone'), $calls->write('x'), $calls->disconnected);
    },
    stays => sub {
        my ($calls, $connection, $request) = @_;
        $calls->start;
        $calls->note($request->{path} =~ /abort/ ? $calls->abort : $calls->end);
        $connection->wait_for('stays', 10);
        unlink "$connection->{folder}/allow-stays";
        $calls->note($calls->wait_disconnected(0.3) ? 'true' : 'false');
    },
);

for my $workers (1, 2, 4) {
    my $server = $app->server(
        workers => $workers,
        location => "durable_stream_buffer $buffer; send_timeout 20s;",
        server => "listen 127.0.0.1:{{port_slow}} sndbuf=$kernel; listen 127.0.0.1:{{port_h2}} http2;"
            . ' listen 127.0.0.1:{{port_tls}} ssl; listen 127.0.0.1:{{port_tls2}} ssl http2;'
            . ' ssl_certificate {{cert}}; ssl_certificate_key {{key}};'
            . ' location /app/small/ { durable_object main x; durable_stream_buffer 1k; }'
            . " location /ignore/ { durable_object main x; $StreamApp::TO_APP proxy_ignore_client_abort on;"
            . ' proxy_pass http://127.0.0.1:' . $app->port . '/app/; }',
    );
    my $port = $server->port;
    for my $where (qw(same other)) {
        my $what = "($workers workers, calls at the $where)";

        my $response = http_request($port, 'GET', "/app/text/$where");
        is($app->results('text', 1),
           'invalid_text invalid_text 0 invalid_text 0 0 0 text_too_large text_too_large text_too_large unknown_stream text_too_large 2',
           "S-10: what a write takes, S-11, S-20: and what it answers, open and ended $what");
        ok($response->{body} eq "\xE2\x82\xACa\0bx\r\ny\r\n" . 'x' x 65536, 'S-10: nothing is changed');

        my $stream = SseClient->open(port => $port, path => "/app/empty/$where");
        is($app->results('empty', 1), '0', "S-12: an empty text answers the status $what");
        ok($stream->client->is_quiet(0.02), 'S-12: and writes nothing');
        $stream->client->close;
        $app->allow('empty');
        is($app->results('empty', 2), '1, 2', 'S-12: after the leaving, after the end');

        # A client that reads nothing.
        for my $size (100, 10000, 65536) {
            $app->forget('fill');
            my $client = DurableClient->connect(port => $server->port('slow'), rcvbuf => 4096);
            $client->send_request('GET', "/app/fill/$where?size=$size");
            ok($client->read_head(5), "S-13: writes of $size $what");
            ok($app->is_quiet('fill', qr/^[12]/, 0.3), 'S-13: a write waits');
            my $taken = kernel_holds($client, $server->port('slow'));
            my $tick = SseClient->open(port => $port, path => "/app/tick/$where");
            is(join(' ', $tick->next_texts(20, 5)), join(' ', 1 .. 20), 'S-15: another stream goes on');
            is($app->results('tick', 1), 'quick', 'S-15: without a delay');
            $client->reset;
            my ($answer, $number) = split / /, $app->results('fill', 1);
            is($answer, 1, 'S-11, S-13: until the client is gone');
            my $accepted = ($number // 0) * $size - $size;
            # A text larger than the buffer is let through alone, and its write waits then.
            cmp_ok($accepted, '<=', $buffer + $taken, "S-14a: it has run ahead by the buffer and the $taken bytes on their way");
            cmp_ok($taken, '<', 65536, 'S-14a: which is not much');
            is($app->results('fill', 2), 'after 1 1 1, alive true', 'S-14: later writes answer 1, the event goes on');
        }

        # A client that reads late.
        $app->forget('room');
        my $client = DurableClient->connect(port => $server->port('slow'), rcvbuf => 4096);
        $client->send_request('GET', "/app/room/$where");
        ok($client->read_head(5), "S-13: room comes back $what");
        ok($app->is_quiet('room', qr/^end/, 0.2), 'S-13: the buffer is full');
        my $body = $client->read_chunks(20);
        is($body, join('', map { chr(65 + $_ % 26) x 9999 . "\n" } 1 .. 60), 'S-10, S-13: all arrives, in order');
        like($app->results('room', 61), qr/600000, end 204$/, 'S-13: and every write is answered');

        my $h2 = Http2Client->connect(port => $server->port('h2'), window => 1000, grows => 0);
        my $id = $h2->request(path => "/app/room/$where");
        ok($h2->wait_data($id, 1000, 5), "HTTP/2: a small window $what");
        ok($app->is_quiet('room', qr/^end/, 0.2), 'S-13: the buffer is full');
        $h2->rst($id);
        my $ahead = $app->results('room', 4);
        like($ahead, qr/^10000, 20000, 30000, end 204$/, 'S-14, S-14a: it has run ahead by the buffer, until the client resets it');

        # Leaving while the application is silent.
        my %leave = (
            close => sub { SseClient->open(port => $port, path => "/app/leaving/$where")->client->close },
            reset => sub { SseClient->open(port => $port, path => "/app/leaving/$where")->client->reset },
            'half-close' => sub {
                my $stream = SseClient->open(port => $port, path => "/app/leaving/$where");
                $stream->client->shutdown_write;
                return $stream;
            },
            'ignored abort' => sub { SseClient->open(port => $port, path => "/ignore/leaving/$where")->client->close },
            TLS => sub {
                SseClient->open(port => $server->port('tls'), tls => 1, path => "/app/leaving/$where")->client->close;
            },
            pipelined => sub {
                my $stream = SseClient->open(port => $port, path => "/app/leaving/$where");
                $stream->client->write("GET /_worker HTTP/1.1\r\nHost: x\r\n\r\n" x 3);
                $stream->client->close;
            },
            'HTTP/2 reset' => sub {
                my $h2 = Http2Client->connect(port => $server->port('h2'));
                my $id = $h2->request(path => "/app/leaving/$where");
                $h2->take_frame(time + 5) until defined $h2->status($id);
                $h2->rst($id);
                return $h2;
            },
            'HTTP/2 close' => sub {
                my $h2 = Http2Client->connect(port => $server->port('tls2'), tls => 1);
                my $id = $h2->request(path => "/app/leaving/$where");
                $h2->take_frame(time + 5) until defined $h2->status($id);
                $h2->client->shutdown_write;    # closing would first wait for the other side's goodbye
                return $h2;
            },
        );
        for my $how (sort keys %leave) {
            my $kept = $leave{$how}->();
            is($app->results('leaving', 2), 'seen yes, 1 204 2 true', "S-16, S-17: $how $what");
        }

        for my $how (qw(end abort)) {
            $stream = SseClient->open(port => $port, path => "/app/stays/$where?$how");
            is($app->results('stays', 1), '204', "S-16: $how $what");
            $stream->client->close;
            $app->allow('stays');
            is($app->results('stays', 1), 'false', "S-16: a leaving after the $how is not seen");
        }
    }
    $server->no_alerts;
    ok($server->stop, 'nginx ends');
}

done_testing();
