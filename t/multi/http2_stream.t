# SPDX-License-Identifier: BSD-2-Clause
# Streams over HTTP/2 and over TLS: head, several on one connection, their ends, and what is left
# of the connection afterwards.
use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableClient qw(curl);
use DurableServer;
use Http2Client;
use SseClient;
use Test::More;

my $locations = "$ChannelCalls::server location /api/ { durable_object main o; durable_api; }";
my $server = DurableServer->start(
    workers => 1, server => $locations,
    http => $ChannelCalls::http . 'gzip on; gzip_types *; gzip_min_length 0; ssl_certificate {{cert}}; ssl_certificate_key {{key}};'
        . "server { listen 127.0.0.1:{{port_h2}} http2; listen 127.0.0.1:{{port_tls}} ssl http2; $locations }",
);

sub close_channel {
    my ($channel, $reason) = @_;
    return DurableClient::http_request($server->port, 'POST', "/api/channels/$channel/close", body => $reason)->{body};
}

my %how = ('HTTP/2' => {port => $server->port('h2')}, 'HTTP/2 over TLS' => {port => $server->port('tls'), tls => 1});
for my $name (sort keys %how) {
    my $h2 = Http2Client->connect(%{$how{$name}});
    my ($one, $two, $three) = map { $h2->request(path => "/sub?channel=$_", headers => ['accept-encoding', 'gzip']) } qw(a b a);
    for my $id ($one, $two, $three) {
        ok($h2->wait_data($id, qr/\A: \n\n\z/, 5), "$name: head and first comment at once");
        is($h2->status($id), 200, "$name: its status");
    }
    is(publish($server, 'a', 'hello'), 2, "$name: two streams of one connection");
    ok($h2->wait_data($_, qr/\ndata: hello\n\n\z/, 5), "$name: neither delayed nor encoded") for $one, $three;
    is($h2->data($two), ": \n\n", "$name: nothing for the other one");
    my $long = '汉' x 20000;
    utf8::encode($long);
    is(publish($server, 'b', $long), 1, "$name: a long text");
    ok($h2->wait_data($two, qr/data: $long\n\n\z/, 5), "$name: arrives");
    is(close_channel('b', 'bye'), '{"closed":1}', "$name: a channel is closed");
    ok($h2->wait_end($two, 5) && $h2->is_ended($two), "$name: its stream ends");
    like($h2->data($two), qr/\n\nevent: durable-close\ndata: bye\n\n\z/, "$name: with the reason");
    is(publish($server, 'a', 'on'), 2, "$name: the others go on");
    ok($h2->wait_data($_, qr/data: on\n\n\z/, 5), "$name: the others go on") for $one, $three;
    my $head = $h2->request(path => '/sub?channel=a', method => 'HEAD');
    ok($h2->wait_end($head, 5) && $h2->is_ended($head), "$name: HEAD");
    is($h2->status($head) . $h2->data($head), 200, "$name: HEAD has a head only");
    my $refused = $h2->request(path => '/sub?channel=');
    ok($h2->wait_end($refused, 5), "$name: a refusal");
    is($h2->status($refused), 400, "$name: its status");
    like($h2->data($refused), qr/"invalid_channel"/, "$name: its code");
    my $post = $h2->request(path => '/pub?channel=a', method => 'POST', body => 'x' x 65536);
    ok($h2->wait_end($post, 5), "$name: a publish on the same connection");
    is($h2->data($post), '{"delivered":2}', "$name: its answer");
    ok($h2->wait_data($_, qr/data: ${\('x' x 65536)}\n\n\z/, 5), "$name: reaches its own streams") for $one, $three;
    $h2->client->close;
    ok(wait_count($server, 'a', 0), "$name: the connection goes, and with it all");
}

# HTTP/1.1: the connection is used again after the normal end of a stream.
for my $case (['HTTP/1.1', port => $server->port], ['TLS', port => $server->port('tls'), tls => 1, alpn => ['http/1.1']]) {
    my ($name, %how) = @$case;
    my $client = DurableClient->connect(%how);
    for my $round (1 .. 3) {
        my $stream = SseClient->open(client => $client, path => '/sub?channel=k');
        is(publish($server, 'k', $round), 1, "$name, round $round: published");
        ok(reads($stream, $round), "$name, round $round: received");
        is(close_channel('k', "end $round"), '{"closed":1}', "$name, round $round: closed");
        my $last = $stream->next_event(5);
        is("$last->{event} $last->{data}", "durable-close end $round", "$name, round $round: told so");
        is($stream->wait_end(5), 'end', "$name, round $round: the response ends");
        is($client->request('GET', '/_worker')->{status}, 200, "$name, round $round: the connection goes on") if $name eq 'HTTP/1.1';
    }
    # Pipelined behind a stream: answered when that has ended.
    $client->write("GET /sub?channel=k HTTP/1.1\r\nHost: localhost\r\n\r\n"
        . "POST /pub?channel=k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx");
    is($client->read_head(5)->{status}, 200, "$name: a stream with a request behind it");
    is(publish($server, 'k', 'now'), 1, "$name: it is alone");
    is(close_channel('k', 'bye'), '{"closed":1}', "$name: its channel is closed");
    is($client->read_chunks(5), ": \n\ndata: now\n\nevent: durable-close\ndata: bye\n\n", "$name: it ends whole");
    is($client->read_response(5)->{body}, '{"delivered":0}', "$name: then the next is answered");
    $client->close;
}

$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');

# Nothing but HTTP/2 streams when the worker is to quit: they end whole, and it closes their
# connections before it leaves.
$server = DurableServer->start(%{$server->{args}});
%how = ('HTTP/2' => {port => $server->port('h2')}, 'HTTP/2 over TLS' => {port => $server->port('tls'), tls => 1});
my @connections = map { Http2Client->connect(%{$how{$_}}) } sort keys %how;
my @ids = map { $_->request(path => '/sub?channel=q') } @connections;
ok($connections[$_]->wait_data($ids[$_], qr/: \n\n/, 5), 'a stream') for 0, 1;
is(publish($server, 'q', 'last'), 2, 'a message');
my ($old) = $server->worker_pids;
ok($server->reload, 'reload');
for (0, 1) {
    ok($connections[$_]->wait_end($ids[$_], 5) && $connections[$_]->is_ended($ids[$_]), 'a stream ends');
    like($connections[$_]->data($ids[$_]), qr/data: last\n\n\z/, 'with all of it');
}
$_->client->close for @connections;
ok($server->wait_gone($old, 10), 'the old worker leaves');

$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');
done_testing();
