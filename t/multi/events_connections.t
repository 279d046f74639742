# SPDX-License-Identifier: BSD-2-Clause
# The events API over HTTP/2, TLS and HTTP/1.0, with clients that leave while they wait, with many streams
# at once, and with nginx's own directives around it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(curl http_request);
use EventsApi;
use Test::More;
use Time::HiRes qw(sleep time);

sub refusal { my ($answer) = @_; return "$answer->{status} " . ($answer->{json}{code} // '') }

my $api = EventsApi->start(workers => 2, server => <<'END',
        location /gated/ { durable_object main $http_object; durable_events; durable_identity $http_account; }
        location /limited/ { durable_events; durable_identity $http_account; limit_except GET { deny all; } }
        location /rewritten/ { rewrite ^/rewritten/(.*)$ /events/$1 last; }
        location /asked/ { auth_request /events/subscriptions; root {{prefix}}/html; }
        location /timeout/ { durable_events; durable_identity $http_account; send_timeout 1s; }
        location /slow/ { durable_events; durable_identity $http_account; limit_rate 4k; durable_ping 0; }
        location /slow_pinged/ { durable_events; durable_identity $http_account; limit_rate 4k; durable_ping 100ms; }
        location = /single { durable_exclusive main k; proxy_pass http://127.0.0.1:{{port}}/events/subscriptions; }
END
    http => <<'END');
    server { listen 127.0.0.1:{{port_h2}} http2; listen 127.0.0.1:{{port_tls}} ssl http2; ssl_certificate {{cert}}; ssl_certificate_key {{key}};
        location /events/ { durable_events; durable_identity $http_account; durable_ping 300ms; }
        location /quiet/ { durable_events; durable_identity $http_account; durable_ping 0; } }
END
my $server = $api->server;
my $who = $api->caller('a');

# ---- protocols
for my $case (['h2c', "http://127.0.0.1:@{[$server->port('h2')]}", '--http2-prior-knowledge'], ['h2 over TLS', "https://127.0.0.1:@{[$server->port('tls')]}", '--http2'],
              ['TLS', "https://127.0.0.1:@{[$server->port('tls')]}", '--http1.1'], ['HTTP/1.0', "http://127.0.0.1:@{[$server->port]}", '-0']) {
    my ($name, $origin, $how) = @$case;
    my ($status, $text) = curl($how, '-H', 'Account: p', '-d', '{"subject":"topic:p"}', "$origin/events/subscribe");
    like($text, qr/"subject":"topic:p"/, "$name: subscribe");
    ($status, $text) = curl($how, '-H', 'Account: p', '-w', ' %{http_code} %{content_type}', "$origin/events/subscriptions?limit=0");
    like($text, qr/bad_request.* 400 application\/json$/, "$name: a refusal");
    my $topic = 'topic:live' . ($name =~ s/\W//gr);
    my $seq = $api->publish(subject => $topic, data => 'first')->{seq} - 1;
    my $pid = open my $stream, '-|', 'curl', '-sNk', '--noproxy', '*', '--max-time', 20, $how, '-H', 'Account: p', '-H', "Last-Event-ID: $seq", "$origin/events/stream?subject=$topic" or die $!;
    my $got = '';
    my $read_until = sub { my ($pattern) = @_; local $SIG{ALRM} = sub { die "late: $got" }; alarm 10; while ($got !~ $pattern) { my $line = <$stream> // last; $got .= $line } alarm 0; return $got =~ $pattern };
    ok($read_until->(qr/"data":"first"/), "$name: what was missed");
    $api->publish(subject => $topic, data => 'second' . 'x' x 60000) for 1 .. 20;
    $api->publish(subject => $topic, data => 'third');
    ok($read_until->(qr/"data":"third"/), "$name: live");
    is(scalar(() = $got =~ /"data":"secondx{60000}"/g), 20, "$name: large ones, whole");
    ok($read_until->(qr/third.*\n\n(?::.*\n\n?){2}/s), "$name: pings") if $name =~ /h2|TLS/;
    kill 'TERM', $pid;
    close $stream;
}

# ---- clients that leave
for my $round (1 .. 60) {
    my $client = DurableClient->connect(port => $api->port);
    $client->send_request('POST', '/events/subscribe', headers => ['Account', "left$round"], body => '{"subject":"topic:left"}');
    $round % 3 ? $client->close : $client->reset;
}
for my $round (1 .. 40) {
    my $client = DurableClient->connect(port => $api->port);
    $client->send_request('GET', '/events/stream' . ($round % 2 ? '?subject=topic:left' : ''), headers => ['Account', "left$round"]);
    $client->read_head(5) if $round % 4 < 2;
    $client->reset;
    my $operator = DurableClient->connect(port => $api->port);
    $operator->send_request('POST', '/durable/events', body => '{"subject":"topic:left"}');
    $operator->close;
}
is($who->call(GET => 'subscriptions')->{status}, 200, 'clients that leave disturb nobody');
ok(NginxProcess::wait_until(5, sub { $api->query('SELECT count(*) FROM live_scopes') eq '0' }), 'their streams are forgotten');

# ---- one that takes nothing is disconnected, however much there is
my $deaf = DurableClient->connect(port => $api->port, rcvbuf => 4096);
$deaf->send_request('GET', '/timeout/stream?subject=topic:deaf', headers => ['Account', 'a']);
$deaf->read_head(5);
$api->publish(subject => 'topic:deaf', data => 'x' x 60000) for 1 .. 200;
ok($server->wait_log(qr/client timed out.*\/timeout\/stream/, 10), 'a client that takes nothing is disconnected');
undef $deaf;

# ---- limit_rate has the write timer of a stream for itself while it delays
for my $place (qw(slow slow_pinged)) {
    my $stream = SseClient->open(port => $api->port, path => "/$place/stream?subject=topic:$place", headers => ['Account', 'a']);
    for my $round (1 .. 3) {
        $api->publish(subject => "topic:$place", data => "$round" . 'y' x 3000);
        is(substr(($stream->next_event(5) // {data => ''})->{data} =~ s/.*"data":"//r, 0, 1), $round, "/$place: event $round");
    }
}

# ---- nothing stays behind in TLS's own buffer, though no ping would push it out
my $late = SseClient->open(port => $server->port('tls'), tls => 1, rcvbuf => 4096, path => '/quiet/stream?subject=topic:late', headers => ['Account', 'a']);
$api->publish(subject => 'topic:late', data => $_ . 'z' x 60000) for 1 .. 80;
$api->publish(subject => 'topic:late', data => 'last');
my $texts = join ' ', map { s/.*"data":"(\d+|last).*/$1/r } $late->next_texts(81, 15);
is($texts, join(' ', 1 .. 80, 'last'), 'TLS: a late reader gets all');
undef $late;

# ---- many streams
my @streams = map { $who->stream('topic:many') } 1 .. 200;
$api->publish(subject => 'topic:many', data => $_) for 1 .. 5;
my $right = grep { my $stream = $_; join(',', map { ($who->delivery($stream, 10) // {event => {}})->{event}{data} // '-' } 1 .. 5) eq '1,2,3,4,5' } @streams;
is($right, 200, '200 streams have all, in order');
@streams = ();

# ---- with nginx's own directives
is(refusal($who->call(GET => 'x', undef, client => undef)), '404 not_found', 'an unknown call');
my $get = sub { my ($path, @headers) = @_; return EventsApi::answer(http_request($api->port, 'GET', $path, headers => ['Account', 'a', @headers])) };
is($get->('/gated/subscriptions')->{status}, 200, 'an object does not gate it');
is($get->('/rewritten/subscriptions')->{status}, 200, 'a rewrite leads to it');
is($get->('/limited/subscriptions')->{status}, 200, 'limit_except: what is allowed');
my $denied = EventsApi::answer(http_request($api->port, 'POST', '/limited/subscribe', headers => ['Account', 'a'], body => '{"subject":"topic:a"}'));
is(refusal($denied), '403 forbidden', 'limit_except: and what is not, as JSON');
is($get->('/asked/')->{status}, 403, 'auth_request cannot call it');
is($get->('/single')->{status}, 200, 'behind a proxy and in a section');
is($get->('/events//subscriptions')->{status}, 200, 'slashes before the call');
is(refusal($get->('/events/subscriptions/')), '404 not_found', 'but not behind it');
my $client = DurableClient->connect(port => $api->port);
$client->send_request('GET', '/events/subscriptions', headers => $who->headers) for 1 .. 5;
is(join(' ', map { $client->read_response(10)->{status} } 1 .. 5), '200 200 200 200 200', 'pipelined calls');

$server->no_alerts;
ok($server->stop('QUIT', 5), 'nginx ends in time');

# ---- a worker that is told to end at once does so
{
    my $api = EventsApi->start(workers => 2);
    my $who = $api->caller('a');
    $api->hook_status(h0 => 'hang');
    $who->subscribe(subject => 'topic:a', delivery => 'single', handlerName => 'h0', targets => ['worker']);
    $api->publish(subject => 'topic:a');
    $api->wait_hooks('h0', 1);
    my $stream = $who->stream;
    my $since = time;
    ok($api->server->stop('TERM', 5), 'TERM, with a call under way and a stream');
    cmp_ok(time - $since, '<', 2.5, 'within a second or so');
    $api->server->no_alerts;
}

done_testing;
