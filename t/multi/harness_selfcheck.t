# SPDX-License-Identifier: BSD-2-Clause
# The tools in t/lib that the tests of several connections stand on, with nginx alone.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableApp;
use DurableClient qw(http_request curl);
use DurableServer;
use Http2Client;
use SseClient;
use Test::More;
use Time::HiRes qw(time);

local $ENV{TEST_NGINX_LOAD_MODULES} = '';

# Answers as the path says, so that a test can have what it needs of a stream.
my $app = DurableApp->start(sub {
    my ($request, $connection) = @_;
    my ($what) = $request->{path} =~ m{^/app/(\w+)};
    my $head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    $connection->note("$what $request->{method} $request->{body}");
    if ($what eq 'echo') {
        $connection->respond(201, ['X-Method', $request->{method}], $request->{body});
    } elsif ($what eq 'events') {
        $connection->write("$head\r\n\xEF\xBB\xBF: hi\r\nid: 7\r\nretry: 20\r\ndata: a\r\ndata:  b\r\n\r\n");
        $connection->write("event: e\ndata\n\nid: 8\nevent: none\n\rdata: c\r\rdata: lost\n");
    } elsif ($what eq 'cut') {
        $connection->write("${head}Transfer-Encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n9\r\nda");
        $connection->die_now;
    } elsif ($what eq 'whole') {
        $connection->write("${head}Transfer-Encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n");
        $connection->wait_for('whole', 10) and $connection->write("0\r\n\r\n");
    } elsif ($what eq 'long') {
        $connection->write("$head\r\n" . join '', map { "data: $_\n\n" } 1 .. 20000);
    } elsif ($what eq 'silent') {
        $connection->note('closed') if $connection->wait_closed(10);
    }
});

my $to_app = 'proxy_buffering off; proxy_http_version 1.1; proxy_pass http://127.0.0.1:' . $app->port . ';';

# Workers
my $server = DurableServer->start(workers => 2);
my @workers = $server->worker_pids;
is(scalar @workers, 2, 'two workers');
for my $worker (@workers) {
    my $client = $server->connect_to_worker($worker);
    is($client->request('GET', '/_worker')->{body}, $worker, 'a connection to a chosen worker');
}
$server->kill_worker($workers[0]);
my @after = $server->worker_pids;
is(scalar @after, 2, 'a killed worker is replaced');
ok(!grep({ $_ == $workers[0] } @after) && grep({ $_ == $workers[1] } @after), 'the other one lives');
$server->no_alerts('a signal may be expected', qr/exited on signal 9/);
ok($server->reload(workers => 3, server => 'location = /new { return 200 new; }'), 'reload');
is(scalar $server->worker_pids, 3, 'three workers after it');
is(http_request($server->port, 'GET', '/new')->{body}, 'new', 'the new configuration serves');
ok(!$server->reload(server => 'nonsense;'), 'a configuration that fails is refused');
is(http_request($server->port, 'GET', '/new')->{body}, 'new', 'and the old one still serves');
ok($server->wait_log(qr/unknown directive "nonsense"/), 'with a reason in the log');

# The alarm itself
{
    my $outcome = 1;
    no warnings 'redefine';
    local *Test::More::ok = sub { $outcome = $_[0] };
    local *Test::More::diag = sub { };
    $server->no_alerts('', qr/exited on signal/);
    ok(!$outcome, 'no_alerts sees what is not expected');
}

$server = DurableServer->start(
    workers => 1,
    http => "server { listen 127.0.0.1:{{port_tls}} ssl http2; listen 127.0.0.1:{{port_h2}} http2;\n"
        . 'ssl_certificate {{cert}}; ssl_certificate_key {{key}};'
        . "location / { $to_app } }",
    server => "location /app/ { $to_app } location = /gone { return 410 gone; }",
);
my $port = $server->port;

# Requests
my $response = http_request($port, 'PUT', '/app/echo', body => "a\r\nb", headers => ['X-A', 'b']);
is("$response->{status} $response->{headers}{'x-method'} $response->{body}", "201 PUT a\r\nb", 'a request with a body');
my $client = DurableClient->connect(port => $port);
is($client->request('GET', '/gone')->{status}, 410, 'the first of a connection');
is($client->request('HEAD', '/gone')->{body}, '', 'a HEAD');
is($client->request('POST', '/app/echo', headers => ['Transfer-Encoding', 'chunked'],
                    body => "3\r\nabc\r\n0\r\n\r\n")->{body}, 'abc', 'a chunked body');
ok($client->is_quiet(0.02), 'nothing more comes');
is($client->read_until(qr/x/, 0.02), undef, 'a wait that ends in vain');
ok(!eval { $client->send_request('GET', '/app/cut'); $client->read_response(5); 1 }, 'a response cut short is seen');
my ($status, $text) = curl('-i', "http://127.0.0.1:$port/gone");
like($text, qr/^HTTP\/1\.1 410 .*gone$/s, 'curl');
isnt((curl("http://127.0.0.1:$port/app/cut"))[0], 0, "curl's failure is seen");

# Streams
my $stream = SseClient->open(port => $port, path => '/app/events');
is_deeply($stream->next_event(5), {event => 'message', data => "a\n b", id => 7}, 'an event of two lines');
is_deeply($stream->next_event(5), {event => 'e', data => '', id => 7}, 'an empty one with a type');
is_deeply($stream->next_event(5), {event => 'message', data => 'c', id => 8}, 'CR ends a line; no data is no event');
is($stream->next_event(5), undef, 'an event without its empty line is none');
is_deeply([$stream->comments], [' hi'], 'its comments');
is($stream->retry, 20, 'its retry');
is($stream->ending, 'end', 'its end is the final chunk that nginx adds');
$stream = SseClient->open(port => $port, path => '/app/whole');
is($stream->next_event(5)->{data}, 'a', 'an event before the end');
is($stream->wait_end(0.02), undef, 'an open stream has no end');
$app->allow('whole');
is($stream->wait_end(5), 'end', 'a normal end');
$stream = SseClient->open(port => $port, path => '/app/cut');
is($stream->wait_end(5), 'cut', 'a stream that is cut off');
is($stream->next_event(1)->{data}, 'a', 'its events before that are kept');
$stream = SseClient->open(port => $port, path => '/app/events', version => '1.0');
is($stream->wait_end(5), 'end', 'HTTP/1.0 ends by closing');
is_deeply([SseClient->open(port => $port, path => '/app/long', rcvbuf => 4096)->next_texts(20000, 20)],
          [1 .. 20000], 'many events');
$stream = SseClient->open(port => $server->port('tls'), tls => 1, alpn => ['http/1.1'], path => '/app/long');
is_deeply([$stream->next_texts(20000, 20)], [1 .. 20000], 'over TLS');
is($stream->wait_end(5), 'end', 'to the end');

# Clients that leave
$client = DurableClient->connect(port => $port);
$client->send_request('GET', '/app/silent');
ok($app->wait_note(qr/^silent/, 5), 'the application got it');
$client->reset;
ok($app->wait_note(qr/^closed/, 5), 'and sees that the client has left');

# HTTP/2
for my $h2 (Http2Client->connect(port => $server->port('h2')), Http2Client->connect(port => $server->port('tls'), tls => 1)) {
    my ($long, $echo, $cut) = ($h2->request(path => '/app/long'),
        $h2->request(path => '/app/echo', method => 'POST', body => 'x' x 50000), $h2->request(path => '/app/cut'));
    ok($h2->wait_end($echo, 10), 'HTTP/2: a response');
    is($h2->status($echo), 201, 'its status');
    is(length $h2->data($echo), 50000, 'its body');
    ok($h2->wait_data($long, qr/data: 20000\n\n/, 20), 'a long stream');
    is($h2->status($long), 200, 'its status');
    ok($h2->wait_end($cut, 5) && !$h2->is_ended($cut), 'one cut off is reset');
    is($h2->reset_code($cut), 2, 'with INTERNAL_ERROR');
}
my $slow = Http2Client->connect(port => $server->port('h2'), window => 1000, grows => 0);
my $id = $slow->request(path => '/app/long');
ok($slow->wait_data($id, 1000, 5), 'a slow reader gets its window');
ok(!$slow->wait_data($id, 1001, 0.05), 'and no more');
$slow->give_window($id, 10);
ok($slow->wait_data($id, 1010, 5), 'until it gives more');
$slow->rst($id);
is($slow->status($slow->request(path => '/app/x')), undef, 'no status before the head');
$id = $slow->request(path => '/app/echo');
ok($slow->wait_end($id, 5), 'the connection outlives a reset stream');
($status, $text) = curl('--http2-prior-knowledge', '-i', 'http://127.0.0.1:' . $server->port('h2') . '/app/echo');
like($text, qr{^HTTP/2 201}, 'curl speaks HTTP/2 too');

$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');
ok(!$server->is_running, 'and is gone');
done_testing();
