# SPDX-License-Identifier: BSD-2-Clause
# The worked samples of the specification's event streams, with the host calls at the client's own
# worker and at another one, with one, two and four workers.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient;
use SseClient;
use StreamApp;
use Test::More;

my $app = StreamApp->start(
    sample_1 => sub {
        my ($calls) = @_;
        $calls->note('start ' . $calls->start(status => 200, headers => []));
        $calls->note('write ' . $calls->write("data: 1\n\n"));
        $calls->note('end ' . $calls->end);
        $calls->note('write ' . $calls->write('x'));
        $calls->note('disconnected ' . $calls->disconnected);
    },
    sample_2 => sub {
        my ($calls) = @_;
        $calls->start;
        $calls->note('started');
        $calls->wait_disconnected(10);
        $calls->note('write ' . $calls->write("data: 1\n\n"));
        $calls->note('bookkeeping');
        $calls->note('disconnected ' . $calls->disconnected);
        $calls->note('end ' . $calls->end);
        $calls->note('write ' . $calls->write('x'));
        $calls->note('disconnected ' . $calls->disconnected);
    },
    sample_3 => sub {
        my ($calls, $connection) = @_;
        for my $header (['Content-Type', 'text/plain'], ['Set-Cookie', 'a=b'], ['X-A', "a\r\nb"]) {
            $calls->note($calls->start(status => 200, headers => [$header]));
        }
        $connection->respond(418, ['X-Own', 'yes'], 'its own answer');
        return 'answered';
    },
    sample_4 => sub {
        my ($calls) = @_;
        $calls->start;
        $calls->write("data: 1\n\n");
        $calls->write("data: 2\n\n");
        $calls->note('abort ' . $calls->abort('because'));
        $calls->note('write ' . $calls->write('x'));
        $calls->note('abort ' . $calls->abort('again'));
        $calls->note('end ' . $calls->end);
    },
    sample_5 => sub {
        my ($calls) = @_;
        $calls->start;
        $calls->note('whole ' . $calls->write('x' x 65536));
        $calls->note('too large ' . $calls->write('x' x 65537));
        $calls->note('bytes ' . $calls->write("\xE2\x82\xAC" x 21846));
        $calls->note('bytes ' . $calls->write("\xE2\x82\xAC" x 21845));
        $calls->end;
    },
    sample_6 => sub {
        my ($calls, $connection, $request) = @_;
        $calls->start;
        if ($request->{path} =~ /first=1/) {
            $calls->note('handle ' . $calls->handle);
            $connection->wait_for('sample_6' . $request->{headers}{'x-run'}, 10);
            $calls->note('first write ' . $calls->write("data: unharmed\n\n"));
            $calls->note('first end ' . $calls->end);
        } else {
            my $foreign = $request->{headers}{'x-foreign'};
            $calls->note("write " . $calls->write("data: stolen\n\n", handle => $foreign));
            $calls->note("end " . $calls->end(handle => $foreign));
            $calls->note("abort " . $calls->abort('', handle => $foreign));
            $calls->note("disconnected " . $calls->disconnected(handle => $foreign));
            $calls->note('own ' . $calls->write("data: own\n\n"));
            $calls->end;
        }
    },
);

for my $workers (1, 2, 4) {
    my $server = $app->server(
        workers => $workers,
        location => 'proxy_set_header X-Run $http_x_run; proxy_set_header X-Foreign $http_x_foreign;',
    );
    my $port = $server->port;
    for my $where (qw(same other)) {
        my $what = "$workers workers, calls at the $where";

        my $stream = SseClient->open(port => $port, path => "/app/sample_1/$where");
        is($stream->status, 200, "S-1: the status ($what)");
        is($stream->header('Content-Type'), 'text/event-stream; charset=utf-8', 'S-3: the fixed type');
        is($stream->header('Cache-Control'), 'no-store', 'S-3: no-store');
        is($stream->next_event(5)->{data}, '1', 'sample 1: one frame');
        is($stream->wait_end(5), 'end', 'sample 1: a normal end');
        is($app->results('sample_1', 5), 'start 201, write 0, end 204, write 2, disconnected false', 'sample 1: the answers');

        $stream = SseClient->open(port => $port, path => "/app/sample_2/$where");
        $stream->client->close;
        is($app->results('sample_2', 7), 'started, write 1, bookkeeping, disconnected true, end 204, write 2, disconnected true',
           "sample 2: the client leaves ($what)");

        my $response = DurableClient::http_request($port, 'GET', "/app/sample_3/$where");
        is("$response->{status} $response->{body}", '418 its own answer', "sample 3: nothing was committed ($what)");
        is($response->{headers}{'x-own'}, 'yes', 'sample 3: with its own headers');
        isnt($response->{headers}{'content-type'}, 'text/event-stream; charset=utf-8', 'sample 3: and its own type');
        is($app->results('sample_3', 3), 'forbidden_header, forbidden_header, invalid_header', 'sample 3: the refusals');

        $stream = SseClient->open(port => $port, path => "/app/sample_4/$where");
        is(join(' ', $stream->next_texts(2, 5)), '1 2', "sample 4: two frames ($what)");
        is($stream->wait_end(5), 'cut', 'sample 4: and no normal end');
        is($app->results('sample_4', 4), 'abort 204, write 2, abort 204, end 204', 'sample 4: the answers');

        my $client = DurableClient->connect(port => $port);
        $response = $client->request('GET', "/app/sample_5/$where");
        is(length $response->{body}, 65536 + 65535, "sample 5: what was accepted arrives ($what)");
        ok($response->{body} eq ('x' x 65536) . ("\xE2\x82\xAC" x 21845), 'sample 5: unchanged');
        is($app->results('sample_5', 4), 'whole 0, too large text_too_large, bytes text_too_large, bytes 0', 'sample 5: the answers');

        my $first = SseClient->open(port => $port, path => "/app/sample_6/$where?first=1", headers => ['X-Run', "$workers$where"]);
        my ($handle) = $app->results('sample_6', 1) =~ /^handle (\S+)$/;
        my $second = SseClient->open(port => $port, path => "/app/sample_6/$where", headers => ['X-Foreign', $handle]);
        is($second->next_event(5)->{data}, 'own', "sample 6: the other's own stream works ($what)");
        is($second->wait_end(5), 'end', 'sample 6: to its end');
        is($app->results('sample_6', 5), join(', ', (map { "$_ unknown_stream" } qw(write end abort disconnected)), 'own 0'),
           'sample 6: the refusals');
        $app->allow("sample_6$workers$where");
        is($first->next_event(5)->{data}, 'unharmed', 'sample 6: the first one is unharmed');
        is($first->wait_end(5), 'end', 'sample 6: to its end');
        is($app->results('sample_6', 2), 'first write 0, first end 204', 'sample 6: and its calls work');
    }
    $server->no_alerts;
}

done_testing();
