# SPDX-License-Identifier: BSD-2-Clause
# Event streams beside nginx's own directives: buffering, error pages, redirects, retries, caches,
# rate limits, and connections that are used again.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use SseClient;
use StreamApp;
use Test::More;
use Time::HiRes qw(sleep time);

my $app = StreamApp->start(
    # Streams two frames and then does what the path asks for.
    then => sub {
        my ($calls, $connection, $request) = @_;
        my ($end, $how) = $request->{path} =~ /\?(\w+)-(\w+)/;
        $connection->note("got $request->{path}");
        $calls->start;
        $connection->write("HTTP/1.1 200 OK\r\nX-Own: 1\r\nContent-Length: 4\r\n\r\n") if $how eq 'early';
        $calls->write("data: 1\n\n");
        sleep 0.6 if $how eq 'silent';
        $calls->write("data: 2\n\n");
        $calls->end if $end eq 'end';
        return '' if $how =~ /silent|empty/;
        $connection->write('late') if $how eq 'early';
        $connection->respond(200, ['Cache-Control', 'max-age=100'], 'cached') if $how eq 'body';
        $connection->respond(503) if $how eq 'fails';
        $connection->die_now if $how eq 'dies';
        $connection->respond(200, ['X-Accel-Redirect', "/$1"], 'x') if $how =~ /^to_(\w+)$/;
        $connection->respond(200, undef, 'x' x 3_000_000) if $how eq 'huge';
        $connection->write("HTTP/1.1 101 Up\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw bytes") and $connection->die_now
            if $how eq 'upgrades';
        return 'answered';
    },
    upload => sub {
        my ($calls, $connection, $request) = @_;
        $calls->start;
        $calls->note(length $request->{body});
        $calls->write("data: $request->{body}\n\n");
        $calls->end;
    },
    slow => sub {
        my ($calls) = @_;
        $calls->start;
        $calls->note(join ' ', map { $calls->write($_ x 4999 . "\n") } 'a' .. 'd');
        $calls->end;
    },
    # Has more unsent than its client takes, and then answers with more than nginx would buffer.
    tight => sub {
        my ($calls, $connection) = @_;
        $calls->start;
        $calls->write('s' x 60000);
        $connection->respond(200, undef, 'x' x 5_000_000);
        $calls->note('answered');
        return 'answered';
    },
    other => sub { my (undef, $connection) = @_; $connection->note('other was asked'); $connection->respond(200, undef, 'other'); 'answered' },
);
BEGIN {
    package EarlyApp;
    our @ISA = ('StreamApp');
    sub connection_class { 'EarlyApp::Connection' }

    package EarlyApp::Connection;
    our @ISA = ('DurableApp::Connection');

    # The head alone.
    sub read_request {
        my ($self) = @_;
        my $head = $self->{peer}->read_until(qr/\r\n\r\n/, 60) // return undef;
        my ($method, $path) = split / /, $head;
        my %headers = map { /^([^:]+): (.*)/ ? (lc $1 => $2) : () } split /\r\n/, $head;
        return {method => $method, path => $path, headers => \%headers, body => ''};
    }
}
my $early = EarlyApp->start(
    reads => sub {
        my ($calls, $connection) = @_;
        $calls->start;
        my @answers;
        for (1 .. 3) {
            my $line = $connection->{peer}->read_until(qr/line \d\n/, 5) // "lost\n";
            push @answers, $calls->write("data: $line\n");
        }
        $calls->note(join ' ', @answers, $calls->end);
    },
);

my $to = 'http://127.0.0.1:' . $app->port . '/app/';
my $location = "durable_object main \$host; $StreamApp::TO_APP";
my $server = $app->server(
    workers => 2,
    location => 'proxy_read_timeout 200ms;',
    http => 'proxy_cache_path {{prefix}}/cache keys_zone=cache:1m; '
        . 'upstream two { ' . "server 127.0.0.1:${\$app->port} max_fails=0; " x 2 . '} '
        . 'upstream kept { ' . "server 127.0.0.1:${\$app->port} max_fails=0; " x 2 . 'keepalive 4; } ',
    server => <<"CONF");
        listen 127.0.0.1:{{port_slow}} sndbuf=8k;
        location /unbuffered/ { $location proxy_buffering off; proxy_pass $to; }
        location /early/ { $location proxy_request_buffering off; proxy_pass http://127.0.0.1:@{[$early->port]}/app/; }
        location /tight/ { $location proxy_max_temp_file_size 0; proxy_pass $to; }
        location /request/ { $location proxy_request_buffering off; proxy_pass $to; }
        location /two/ { $location proxy_read_timeout 200ms; proxy_next_upstream error timeout invalid_header http_500 http_503 non_idempotent; proxy_pass http://two/app/; }
        location /kept/ { $location proxy_set_header Connection ''; proxy_read_timeout 200ms; proxy_next_upstream error timeout http_503; proxy_pass http://kept/app/; }
        location /cached/ { $location proxy_cache cache; proxy_cache_lock on; proxy_cache_valid any 1h; proxy_cache_key \$uri; proxy_pass $to; add_header X-Cache \$upstream_cache_status; }
        location /stored/ { $location proxy_store {{prefix}}/stored; proxy_pass $to; }
        location /error_static/ { $location error_page 502 503 /fallback; proxy_intercept_errors on; proxy_pass $to; }
        location /error_status/ { $location error_page 502 503 =200 /fallback; proxy_intercept_errors on; proxy_pass $to; }
        location /error_named/ { $location error_page 502 503 \@fallback; proxy_intercept_errors on; proxy_pass $to; }
        location /error_return/ { $location error_page 502 503 \@returns; proxy_intercept_errors on; proxy_pass $to; }
        location /error_url/ { $location error_page 502 503 http://example.com/; proxy_intercept_errors on; proxy_pass $to; }
        location \@fallback { rewrite ^ /app/other break; proxy_pass http://127.0.0.1:@{[$app->port]}; }
        location \@returns { return 200 returned; }
        location = /fallback { internal; root {{prefix}}; try_files /conf/nginx.conf =404; }
        location = /static { internal; alias {{prefix}}/conf/nginx.conf; }
        location = /proxied { internal; proxy_pass ${to}other; }
        location = /durable_too { internal; $location proxy_pass ${to}other; }
        location = /subscribed { internal; durable_object main x; durable_subscribe a; }
        location /zipped/ { $location gzip on; gzip_types *; gzip_min_length 0; gzip_vary on; proxy_pass $to; }
        location /rate/ { $location limit_rate 20k; proxy_buffering off; proxy_pass $to; }
        location /upgrade/ { $location proxy_set_header Upgrade x; proxy_set_header Connection upgrade; proxy_pass $to; }
        location /mirrored/ { $location mirror /mirror; proxy_pass $to; }
        location = /mirror { internal; proxy_pass ${to}other; }
        location /post/ { $location post_action /posted; proxy_pass $to; }
        location = /posted { internal; proxy_pass ${to}other; }
        location /expires/ { $location expires 1h; add_header X-Added yes; proxy_pass $to; }
CONF
my $port = $server->port;

# Every way in which the application may answer behind its stream.
my %after = (
    empty => '', silent => '', early => '', body => '', fails => '', dies => '', huge => '',
    map { ("to_$_" => '') } qw(static proxied durable_too subscribed nowhere),
);
for my $where (qw(same other)) {
    for my $prefix (qw(app unbuffered request two kept cached stored mirrored expires
                       error_static error_status error_named error_return error_url post)) {
        for my $how (sort keys %after) {
            next if $how =~ /^to_|huge/ && $prefix !~ /app|unbuffered|error_static|request/;
            for my $end (qw(end open)) {
                # proxy_read_timeout counts from an early answer on, while the head is the client's already.
                my $what = "$prefix, $how, $end, $where";
                my $client = DurableClient->connect(port => $port);
                my $stream = SseClient->open(client => $client, path => "/$prefix/then/$where?$end-$how");
                is($stream->status, 200, "$what: the head of the stream");
                is(join(' ', $stream->next_texts(2, 5)), '1 2', ($how eq 'silent' ? 'S-22a, past proxy_read_timeout, ' : '') . "$what: its frames");
                is($stream->wait_end(5), $end eq 'end' ? 'end' : 'cut', "$what: its end");
                next if $end eq 'open' || $prefix eq 'request' || $client->is_eof;
                my $next = eval { $client->request('GET', '/_worker') };
                ok($next ? $next->{status} == 200 : $client->is_eof, "$what: the connection goes on, or is closed");
            }
        }
    }
}
sleep 0.1;
my @asked = grep { /other was asked/ } $app->notes;
is(scalar @asked, 2 * 24, 'S-22a: nobody else was asked, but by mirror and post_action');
is(scalar(grep { m{got /app/then/\w+\?end-dies} } $app->notes), 2 * 15, 'S-22a: the application was asked once for each')
    or diag grep { m{got /app/then/\w+\?end-dies} } $app->notes;
my @bad = grep { !m{" 200 } } grep { m{/then/} } split /^/, $server->access_log;
is_deeply(\@bad, [], 'the access log has the status of the streams');

# Cache
for my $how (qw(body dies empty)) {
    my $first = http_request($port, 'GET', "/cached/then/same?end-$how");
    my $second = http_request($port, 'GET', "/cached/then/same?end-$how");
    is($second->{body}, "data: 1\n\ndata: 2\n\n", "S-22a, proxy_cache: nothing is stored ($how)");
    isnt($second->{headers}{'x-cache'}, 'HIT', 'proxy_cache: no hit');
}
is(() = glob("$server->{prefix}/stored/*"), 0, 'proxy_store: nothing is stored');
{
    my $before = time;
    my $slow = SseClient->open(port => $port, path => '/cached/then/same?end-silent');
    my $second = http_request($port, 'GET', '/cached/then/same?end-empty');
    is($second->{status}, 200, 'proxy_cache_lock: released at the start');
    cmp_ok(time - $before, '<', 4, 'proxy_cache_lock: nobody waits for its timeout');
    $slow->wait_end(5);
}

# gzip, limit_rate, headers
my $response = http_request($port, 'GET', '/zipped/then/same?end-empty', headers => ['Accept-Encoding', 'gzip']);
is($response->{headers}{'content-encoding'}, undef, 'gzip leaves streams alone');
is($response->{body}, "data: 1\n\ndata: 2\n\n", 'and their bytes');
$response = http_request($port, 'GET', '/expires/then/same?end-empty');
is($response->{headers}{'x-added'}, 'yes', 'add_header and expires apply');
{
    my $before = time;
    my $client = DurableClient->connect(port => $port);
    $response = $client->request('GET', '/rate/slow/same');
    ok($response->{body} eq join('', map { $_ x 4999 . "\n" } 'a' .. 'd'), 'limit_rate: all arrives');
    is($app->results('slow', 1), '0 0 0 0', 'limit_rate: every write is answered');
}
{
    my $client = DurableClient->connect(port => $port);
    $client->send_request('GET', '/upgrade/then/same?open-upgrades', headers => ['Upgrade', 'x']);
    my $answer = $client->read_to_eof(5);
    like($answer, qr/data: 1\n\n.*data: 2\n\n\r\n\z/s, 'an upgrade behind a stream makes no tunnel');
}

# Requests behind the stream
{
    my $client = DurableClient->connect(port => $port);
    $client->write(join '', map { "GET $_ HTTP/1.1\r\nHost: localhost\r\n\r\n" }
        '/app/then/same?end-empty', '/_worker', '/app/then/same?end-empty', '/_worker');
    is($client->read_response(5)->{body}, "data: 1\n\ndata: 2\n\n", 'pipelined: a stream');
    like($client->read_response(5)->{body}, qr/^\d+$/, 'pipelined: a request behind it');
    is($client->read_response(5)->{body}, "data: 1\n\ndata: 2\n\n", 'pipelined: another stream');
    like($client->read_response(5)->{body}, qr/^\d+$/, 'pipelined: and another');
}

# Request bodies
for my $prefix (qw(app request)) {
    my $client = DurableClient->connect(port => $port);
    for (1 .. 2) {
        $response = $client->request('POST', "/$prefix/upload/same", body => 'z' x 20000);
        is($response->{body}, 'data: ' . 'z' x 20000 . "\n\n", "$prefix: a request with a body");
        is($app->results('upload', 1), 20000, 'which the application gets');
        last if $prefix eq 'request';
    }
}

# With proxy_request_buffering off the application reads while it writes.
for my $case ([0, 'stays'], [1, 'leaves'], [2, 'leaves']) {
    my ($after, $what) = @$case;
    my $client = DurableClient->connect(port => $port);
    $client->send_request('POST', "/early/reads/same", headers => ['Content-Length', 7 * 3]);
    my $head = $client->read_head(5);
    is($head && $head->{status}, 200, "a stream before the request's body");
    for my $line (1 .. 3) {
        if ($after && $line > $after) { $client->close; last }
        $client->write("line $line\n");
        like($client->read_until(qr/data: .*?\n\n/, 5), qr/data: line $line\n\n/, "line $line comes back");
    }
    if ($what eq 'stays') {
        is($early->results('reads', 1), '0 0 0 204', 'the calls');
        is($client->read_until(qr/0\r\n\r\n/, 5), "\r\n0\r\n\r\n", 'and the end');
        next;
    }
    # nginx cannot complete the request any more: its application is let go.
    like($early->results('reads', 1), qr/^0(?: 0)* (?:1|unknown_event) /, "a client that leaves after line $after");
}

# A client that reads nothing holds up no answer of the application's own.
for my $prefix (qw(tight unbuffered)) {
    my $client = DurableClient->connect(port => $server->port('slow'), rcvbuf => 4096);
    $client->send_request('GET', "/$prefix/tight/same");
    is($app->results('tight', 1), 'answered', "$prefix: a large answer is swallowed while the client reads nothing");
    my $body = $client->read_to_eof(10);
    is($body =~ tr/s/s/, 60000 + ($body =~ /\A.*?\r\n\r\n/s ? $& =~ tr/s/s/ : 0), "$prefix: and the client gets its stream");
    unlike($body, qr/xxx/, "$prefix: alone");
}

$server->no_alerts;
ok($server->stop, 'nginx ends');
done_testing();
