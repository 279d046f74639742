# SPDX-License-Identifier: BSD-2-Clause
# A subscribed stream on the wire: its head, its framing byte for byte, and what nginx's own
# directives do to it.
use strict;
use warnings;
use utf8;
use Encode qw(encode_utf8);
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use DurableServer;
use SseClient;
use Test::More;
use Time::HiRes qw(time);

my $server = DurableServer->start(
    workers => 2,
    http => 'durable_zone main 4m; durable_ping 0; gzip on; gzip_min_length 0; gzip_types *; gzip_vary on;'
        . 'log_format stream \'$uri $status $body_bytes_sent\'; access_log {{prefix}}/logs/stream.log stream;',
    server => 'durable_object main o;'
        . 'location = /sub { durable_subscribe $arg_channel; }'
        . 'location = /two { durable_subscribe $arg_one $arg_two $arg_one; }'
        . 'location = /json { durable_subscribe_format json; durable_subscribe $arg_one $arg_two; }'
        . 'location = /retry { durable_retry 2500ms; durable_subscribe a; }'
        . 'location = /plain { chunked_transfer_encoding off; durable_subscribe $arg_channel; }'
        . 'location = /more { expires 1h; add_header X-More yes; server_tokens off; durable_subscribe a; }'
        . 'location = /slow { limit_rate 4000; durable_ping $ping; durable_subscribe $arg_channel; }' =~ s/\$ping/0/r
        . 'location = /pub { durable_publish $arg_channel; }',
);
my $port = $server->port;

sub publish {
    my ($channel, $text, $event) = @_;
    my $path = "/pub?channel=$channel" . (defined $event ? "&event=$event" : '');
    my $response = http_request($port, 'POST', $path, body => encode_utf8($text));
    return $response->{body} =~ /^\{"delivered":(\d+)\}$/ ? $1 : $response->{body};
}

# Waits for exactly these body bytes of a chunked response.
sub body_is {
    my ($client, $expected, $name) = @_;
    my $got = '';
    while (length $got < length $expected) {
        my $line = $client->read_until(qr/\r\n/, 5) // last;
        my ($size) = $line =~ /^([0-9a-f]+)\r\n$/ or last;
        $got .= substr $client->read_bytes(hex($size) + 2, 5) // last, 0, -2;
    }
    is($got, $expected, $name);
}

# The head
{
    my $client = DurableClient->connect(port => $port);
    $client->send_request('GET', '/sub?channel=a', headers => ['Accept-Encoding', 'gzip']);
    my $head = $client->read_head(5);
    (my $raw = $head->{raw}) =~ s/^(Server|Date): [^\r]*\r\n//mg;
    is($raw, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n"
        . "Connection: keep-alive\r\nVary: Accept-Encoding\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n\r\n",
        'the head, with gzip on and allowed by the client');
    body_is($client, ": \n\n", 'a comment at once');
    is(publish('a', 'hello'), 1, 'published to it');
    body_is($client, "data: hello\n\n", 'and neither delayed nor encoded');
    ok($client->is_quiet(0.05), 'nothing more comes');
}

# Framing: what is published, what is on the wire
{
    my $client = DurableClient->connect(port => $port);
    $client->send_request('GET', '/sub?channel=frames');
    $client->read_head(5);
    body_is($client, ": \n\n", 'the first comment');
    my $long = 'x' x 65536;
    for my $case (
        ['empty', '', "data: \n\n"],
        ['one line', 'a', "data: a\n\n"],
        ['LF', "a\nb", "data: a\ndata: b\n\n"],
        ['CR LF', "a\r\nb", "data: a\ndata: b\n\n"],
        ['a lone CR', "a\rb", "data: a\ndata: b\n\n"],
        ['LF CR is two ends', "a\n\rb", "data: a\ndata: \ndata: b\n\n"],
        ['CR CR LF is two ends', "a\r\r\nb", "data: a\ndata: \ndata: b\n\n"],
        ['a line end at the end keeps its empty line', "a\n", "data: a\ndata: \n\n"],
        ['a CR at the end too', "a\r", "data: a\ndata: \n\n"],
        ['only an LF', "\n", "data: \ndata: \n\n"],
        ['NUL', "a\0b", "data: a\0b\n\n"],
        ['a space at the start is kept', ' a', "data:  a\n\n"],
        ['what looks like a field', "id: 7\nevent: x\n: y\nretry: 1", "data: id: 7\ndata: event: x\ndata: : y\ndata: retry: 1\n\n"],
        ['several bytes for a character', encode_utf8("汉字😀\x{85}\x{2028}z"), encode_utf8("data: 汉字😀\x{85}\x{2028}z\n\n")],
        ['a byte order mark', "\xEF\xBB\xBFa", "data: \xEF\xBB\xBFa\n\n"],
        ['65536 bytes', $long, "data: $long\n\n"],
        ['65536 line ends', "\n" x 65536, "data: \n" x 65537 . "\n"],
        ['an event type', 'a', "event: e\ndata: a\n\n", 'e'],
        ['an event type with an empty text', '', "event: " . encode_utf8('汉 字') . "\ndata: \n\n", '%E6%B1%89%20%E5%AD%97'],
    ) {
        my ($name, $text, $frame, $event) = @$case;
        my $response = http_request($port, 'POST', '/pub?channel=frames' . (defined $event ? "&event=$event" : ''), body => $text);
        is($response->{body}, '{"delivered":1}', "$name: published") or next;
        body_is($client, $frame, "$name: framed");
    }
    my $stream = SseClient->open(port => $port, path => '/sub?channel=exact');
    my $text = "a\r\nb\rc\n\nd\r\n";
    publish('exact', $text);
    is($stream->next_event(5)->{data}, $text =~ s/\r\n?/\n/gr, 'the reader gets the text back, line ends as LF');
}

# Several channels
{
    my $stream = SseClient->open(port => $port, path => '/two?one=x&two=y');
    is(publish('x', '1'), 1, 'a channel named twice counts once');
    is(publish('y', '2'), 1, 'the other one');
    publish('x', '3');
    is_deeply([$stream->next_texts(3, 5)], [1, 2, 3], 'both in the order of publishing, each once');
    ok($stream->client->is_quiet(0.05), 'and no more');

    my $json = DurableClient->connect(port => $port);
    $json->send_request('GET', '/json?one=x&two=z');
    $json->read_head(5);
    body_is($json, ": \n\n", 'json: the first comment');
    is(publish('x', "a\"\\\n\r\n\0é"), 2, 'to both streams');
    body_is($json, encode_utf8(qq(data: {"channel":"x","event":null,"text":"a\\"\\\\\\n\\r\\n\\u0000é"}\n\n)), 'json: its channel, no event');
    publish('z', '', 'e%22');
    body_is($json, qq(event: e"\ndata: {"channel":"z","event":"e\\"","text":""}\n\n), 'json: an event and an empty text');
}

# retry, add_header, expires
{
    my $client = DurableClient->connect(port => $port);
    $client->send_request('GET', '/retry');
    $client->read_head(5);
    body_is($client, "retry: 2500\n\n: \n\n", 'retry comes first');
    my $stream = SseClient->open(port => $port, path => '/more');
    is($stream->header('X-More'), 'yes', 'add_header applies');
    like($stream->header('Expires'), qr/GMT/, 'expires applies');
    like($stream->header('Cache-Control'), qr/max-age=3600/, 'with its Cache-Control');
    is($stream->header('Server'), 'nginx', 'server_tokens applies');
}

# Without chunks
for my $case (['HTTP/1.0', '/sub', '1.0'], ['chunked_transfer_encoding off', '/plain', '1.1']) {
    my ($name, $path, $version) = @$case;
    my $client = DurableClient->connect(port => $port);
    $client->send_request('GET', "$path?channel=raw", version => $version);
    my $head = $client->read_head(5);
    is($head->{headers}{connection}, 'close', "$name: the connection is to be closed");
    ok(!exists $head->{headers}{'transfer-encoding'} && !exists $head->{headers}{'content-length'}, "$name: no framing");
    is($client->read_bytes(4, 5), ": \n\n", "$name: a comment at once");
    is(publish('raw', "a\nb"), 1, "$name: published");
    is($client->read_bytes(17, 5), "data: a\ndata: b\n\n", "$name: the bytes as they are");
    $client->close;
    my $left = time + 5;
    1 while publish('raw', '') && time < $left;
    is(publish('raw', ''), 0, "$name: the client has left");
}

# limit_rate: 4000 bytes a second from its start on
{
    my $stream = SseClient->open(port => $port, path => '/slow?channel=slow');
    my $start = time;
    is(publish('slow', 'x' x 9000), 1, 'limit_rate: published');
    is(publish('slow', 'y'), 1, 'limit_rate: published while the first is being sent');
    is(length(($stream->next_event(10) // {data => ''})->{data}), 9000, 'limit_rate: the first comes');
    cmp_ok(time - $start, '>', 0.9, 'limit_rate: slowly');
    is(($stream->next_event(10) // {data => ''})->{data}, 'y', 'limit_rate: the second comes');
    for my $i (1 .. 3) {
        publish('slow', "z$i");
        is(($stream->next_event(5) // {data => ''})->{data}, "z$i", "limit_rate: and message $i later on");
    }
}

# The log
{
    my $client = DurableClient->connect(port => $port);
    $client->send_request('GET', '/sub?channel=logged');
    $client->read_head(5);
    body_is($client, ": \n\n", 'log: the first comment');
    publish('logged', 'abc');
    body_is($client, "data: abc\n\n", 'log: a message');
    $client->close;
    my $bytes = length("4\r\n: \n\n\r\n") + length("b\r\ndata: abc\n\n\r\n");
    ok(NginxProcess::wait_until(5, sub {
        (NginxProcess::slurp($server->prefix . '/logs/stream.log') // '') =~ m{^/sub 200 $bytes$}m
    }), "a stream is logged at its end, with its status and its $bytes bytes")
        or diag(NginxProcess::slurp($server->prefix . '/logs/stream.log'));
}

$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');
done_testing();
