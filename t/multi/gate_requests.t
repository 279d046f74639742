# SPDX-License-Identifier: BSD-2-Clause
# The gate among nginx's own directives: a request is held once and let go once, whatever nginx does
# with it inside; handlers of every kind; callers of every kind; $durable_wait.
use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use StreamGateway;
use Http2Client;
use NginxProcess;
use Sections qw(steps refusal hold release request);
use Test::More;
use Time::HiRes qw(sleep time);

binmode Test::More->builder->$_, ':utf8' for qw(output failure_output);

my %size = (size => sub { my (undef, $connection, $request) = @_; $connection->respond(200, undef, length $request->{body}); 'answered' });
my ($fastcgi, $uwsgi) = (StreamGateway::Fastcgi->start(%size), StreamGateway::Uwsgi->start(%size));
my ($fastcgi_port, $uwsgi_port) = map { $_->port } $fastcgi, $uwsgi;
my $host = Sections->start(
    workers => 2, timeout => '5s',
    http => 'log_format waits "$request_uri wait=$durable_wait"; ssi_min_file_chunk 1;'
        . ' server { listen 127.0.0.1:{{port_h2}} http2; durable_object main $arg_object; durable_exclusive_handler /section;'
        . ' location /durable/ { durable_api; } location / { proxy_pass http://127.0.0.1:{{port}}; }'
        . ' location = /section { internal; proxy_set_header X-Port {{port}}; proxy_pass http://{{sections}}; } }',
    server => <<"END");
        access_log logs/access.log waits;
        location /try/ { durable_object main \$arg_object; try_files /missing \@app; }
        location \@app { proxy_pass http://{{sections}}; }
        location /fails/ { durable_object main \$arg_object; error_page 502 404 = /fallback; proxy_pass http://127.0.0.1:1; }
        location /fallback { durable_object main \$arg_object; return 200 "fallback \$durable_object"; }
        location /auth/ { durable_object main \$arg_object; auth_request /check; proxy_pass http://{{sections}}; }
        location = /check { durable_object main \$arg_object; proxy_pass http://127.0.0.1:{{port}}/ok; }
        location = /ok { return 200 "ok"; }
        location /ssi/ { durable_object main \$arg_object; ssi on; ssi_types *; root html; }
        location /part { durable_object main \$arg_object; return 200 "part"; }
        location /mirrored/ { durable_object main \$arg_object; mirror /mirror; mirror_request_body off; proxy_pass http://{{sections}}; }
        location = /mirror { internal; durable_object main \$arg_object; proxy_pass http://{{sections}}/seen; }
        location /accel/ { durable_object main \$arg_object; proxy_pass http://{{sections}}; }
        location /static/ { durable_object main \$arg_object; root html; }
        location /waits/ { durable_object main \$arg_object; return 200 "\$durable_wait"; }
        location /limited/ { durable_object main \$arg_object queue=1 wait=150ms; proxy_pass http://{{sections}}; }

        location = /returns { internal; default_type application/json; return 200 '{"from":"nginx"}'; }
        location = /empty { internal; return 200; }
        location = /forwards { internal; proxy_set_header X-Port {{port}}; proxy_pass http://{{sections}}/accel; }
        location = /forwarded { internal; return 200 '"forwarded"'; }
        location = /intercepts { internal; error_page 500 = /forwarded; proxy_intercept_errors on; proxy_pass http://{{sections}}; }
        location = /fastcgi/size { internal; @{[StreamGateway::params('fastcgi')]} fastcgi_pass 127.0.0.1:$fastcgi_port; }
        location = /uwsgi/size { internal; @{[StreamGateway::params('uwsgi')]} uwsgi_pass 127.0.0.1:$uwsgi_port; }
        location = /file.json { internal; root html; }
        location /a/returns { durable_object main \$arg_object; durable_exclusive_handler /returns; proxy_pass http://127.0.0.1:{{port_app}}; }
        location /a/empty { durable_object main \$arg_object; durable_exclusive_handler /empty; proxy_pass http://127.0.0.1:{{port_app}}; }
        location /a/forwards { durable_object main \$arg_object; durable_exclusive_handler /forwards; proxy_pass http://127.0.0.1:{{port_app}}; }
        location /a/intercepts { durable_object main \$arg_object; durable_exclusive_handler /intercepts; proxy_pass http://127.0.0.1:{{port_app}}; }
        location /a/missing { durable_object main \$arg_object; durable_exclusive_handler /nowhere; proxy_pass http://127.0.0.1:{{port_app}}; }
        location /a/none { durable_object main \$arg_object; proxy_pass http://127.0.0.1:{{port_app}}; }
        location /a/fastcgi { durable_object main \$arg_object; durable_exclusive_handler /fastcgi/size; proxy_pass http://127.0.0.1:{{port_app}}; }
        location /a/uwsgi { durable_object main \$arg_object; durable_exclusive_handler /uwsgi/size; proxy_pass http://127.0.0.1:{{port_app}}; }
        location /a/file { durable_object main \$arg_object; durable_exclusive_handler /file.json; proxy_pass http://127.0.0.1:{{port_app}}; }
END
my $app = DurableApp->start(sub {
    my ($request, $connection) = @_;
    my ($name) = $request->{path} =~ m{^/a/\w+/(\w+)};
    $connection->note(join ' ', $name, map { $request->{headers}{$_} // '-' } qw(durable-event durable-event-kind durable-object));
    $connection->wait_for($name, 60);
    $connection->respond(200, undef, $name);
}, port => $host->server->port('app'));
my @pids = $host->workers;
for (['part.html', '[<!--#include virtual="/part?object=o" -->]'], ['file.json', '{"file":1}'], ['plain.txt', 'plain']) {
    my ($name, $text) = @$_;
    mkdir $host->server->prefix . "/html/$_" for qw(ssi static);
    for my $folder ('', 'ssi/', 'static/') {
        open my $out, '>', $host->server->prefix . "/html/$folder$name" or die $!;
        print $out $text;
    }
}

# Held once, let go once.
{
    my $event = $host->event;
    my $body = steps([answer => 200, '"app"']);
    my %requests = (
        'try_files' => ['/try/x?object=o'], 'error_page' => ['/fails/x?object=o'], 'auth_request' => ['/auth/x?object=o'],
        'ssi' => ['/ssi/part.html?object=o', 'GET'], 'mirror' => ['/mirrored/x?object=o'], 'static' => ['/static/plain.txt?object=o', 'GET'],
        'return' => ['/part?object=o', 'GET'], 'wait' => ['/waits/?object=o', 'GET']);
    my %answers = (try_files => '"app"', error_page => 'fallback o', auth_request => '"app"', ssi => '[part]', mirror => '"app"', static => 'plain', 'return' => 'part');
    for my $round (1, 2) {    # once with a section in the way, once without
        my $section = $round == 1 && hold($host, $event, 'gate');
        my $n = 0;
        my %clients = map {
            my ($path, $method) = @{$requests{$_}};
            $_ => request($host, $pids[$n++ % 2], $path, method => $method // 'POST', $method ? () : (body => $body))
        } sort keys %requests;
        # `return` comes before the gate: nginx runs it in the rewrite phase.
        sleep 0.1 if $round == 1;
        if ($round == 1) { ok($clients{$_}->is_quiet(0.001), "$_: held") for grep { !/return|wait/ } sort keys %clients }
        release($host, $section, 'gate') if $round == 1;
        is($clients{$_}->read_response(5)->{body}, $answers{$_}, "$_: answered") for sort keys %answers;
        is($clients{wait}->read_response(5)->{body}, '-', 'no wait yet: -');
    }
    my $section = hold($host, $event, 'logged');
    my $logged = request($host, $pids[1], '/static/plain.txt?object=o&logged');
    my $whole = $event->begin(POST => 'exclusive/logged2', body => steps([answer => 200, '1']));
    sleep 0.12;
    release($host, $section, 'logged');
    $logged->read_response(5);
    $whole->answer(5);
    my $log = '';
    ok(NginxProcess::wait_until(3, sub { ($log = $host->server->access_log) =~ /exclusive\/logged2 / && $log =~ /&logged / }), 'both are logged');
    like($log, qr{&logged wait=0\.[12]\d\d$}m, '$durable_wait: a held request');
    like($log, qr{/exclusive/logged2 wait=0\.[12]\d\d$}m, '$durable_wait: a section that waited');
    like($log, qr{/exclusive/logged wait=-$}m, '$durable_wait: one that did not');

    # The gate's own bounds
    $section = hold($host, $event, 'bounds');
    my $waits = request($host, $pids[0], '/limited/?object=o');
    sleep 0.03;
    my $full = request($host, $pids[1], '/limited/?object=o')->read_response(5);
    is("$full->{status} " . ($full->{headers}{'retry-after'} // ''), '503 1', 'X-16b: a full line, with Retry-After');
    like($full->{body}, qr/"exclusive_queue_full"/, 'its code');
    my $late = $waits->read_response(5);
    is($late->{status}, 503, 'X-7: a held request waits so long');
    like($late->{body}, qr/"exclusive_wait_timeout"/, 'its code');
    # One that leaves before it is held, and one with its body unread.
    my $gone = request($host, $pids[0], '/static/plain.txt?object=o');
    $gone->close;
    my $posts = request($host, $pids[0], '/limited/?object=o', method => 'POST', headers => ['Content-Length', 100000], body => 'x' x 1000);
    sleep 0.03;
    $posts->close;
    sleep 0.05;
    my $place = request($host, $pids[0], '/limited/?object=o', method => 'POST', body => steps([answer => 200, 'place']));
    ok($place->is_quiet(0.01), 'X-17: the place of one that left, with its body half sent, is free');
    release($host, $section, 'bounds');
    is($place->read_response(5)->{body}, 'place', 'and then it is served');
    $event->end;
}

# Handlers of every kind.
sub ask {
    my ($kind, $body) = @_;
    my $name = 'k' . ++$host->{kinds};
    my $client = request($host, $pids[0], "/a/$kind/$name?object=h$kind");
    $app->wait_note(qr/^$name /, 5) or die "no event for $kind";
    my ($token) = map { /^$name (\S+)/ ? $1 : () } $app->notes;
    my $answer = http_request($host->server->port, 'POST', '/durable/exclusive/op', headers => ['Durable-Event', $token], body => $body // '{}');
    $app->allow($name);
    $client->read_response(5);
    return "$answer->{status} $answer->{body}";
}
is(ask('returns'), '200 {"from":"nginx"}', 'a handler of nginx itself');
like(ask('empty'), qr/^500 .*exclusive_failed/, 'one without a word has not completed');
like(ask('missing'), qr/^500 .*exclusive_failed.*answered 404/, 'a location that is missing');
like(ask('none'), qr/^500 .*exclusive_failed/, 'no handler anywhere');
like(ask('file'), qr/^500 .*answered 405/, 'a static file takes no POST');
is(ask('forwards', steps([raw => "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /forwarded\r\nContent-Length: 0\r\n\r\n"], [wait => 'ever'])), '200 "forwarded"', 'X-Accel-Redirect');
like(ask('intercepts', steps([answer => 500, 'x'])), qr/^500 .*answered 500/, 'an error that error_page would hide is a failure');
my $eight = '[' . '1,' x 4194302 . '10]';
is(ask($_, $eight), '200 8388608', "8 MiB to a handler behind $_") for 'fastcgi', 'uwsgi';

# Callers of every kind.
{
    my $event = $host->event(object => 'callers');
    my $body = steps([answer => 200, '[1]']);
    my $client = $host->server->connect_to_worker($pids[1]);
    my $one = "POST /durable/exclusive/op HTTP/1.1\r\nHost: x\r\nDurable-Event: " . $event->token . "\r\nContent-Length: " . length($body) . "\r\n\r\n$body";
    $client->write($one x 5);
    is($client->read_response(5)->{body}, '[1]', "pipelined callers: $_") for 1 .. 5;
    my $chunked = 'Transfer-Encoding: chunked';
    $client->write("POST /durable/exclusive/op HTTP/1.1\r\nHost: x\r\nDurable-Event: " . $event->token . "\r\n$chunked\r\n\r\n" . sprintf("%x\r\n%s\r\n0\r\n\r\n", length $body, $body));
    is($client->read_response(5)->{body}, '[1]', 'chunked params');
    my $h2 = Http2Client->connect(port => $host->server->port('h2'));
    my @streams = map { $h2->request(method => 'POST', path => '/durable/exclusive/op', headers => ['Durable-Event', $event->token], body => $body) } 1 .. 3;
    ok($h2->wait_end($_, 5), 'HTTP/2: answered') for @streams;
    is($h2->data($_), '[1]', 'HTTP/2: its result') for @streams;
    my $held = hold($host, $event, 'h2');
    my $queued = $h2->request(method => 'POST', path => '/durable/exclusive/gone', headers => ['Durable-Event', $event->token], body => steps([note => 'gone ran']));
    my $stays = $h2->request(method => 'POST', path => '/durable/exclusive/op', headers => ['Durable-Event', $event->token], body => $body);
    sleep 0.05;
    $h2->rst($queued);
    sleep 0.05;
    release($host, $held, 'h2');
    ok($h2->wait_end($stays, 5), 'HTTP/2: a queued stream is served');
    ok(!(grep { /^gone ran/ } $host->sections->notes), 'X-15: one that was reset is not');
    my $running = $h2->request(method => 'POST', path => '/durable/exclusive/rst', headers => ['Durable-Event', $event->token],
                               body => steps([note => 'rst in'], [wait => 'rst'], [note => 'rst done'], [answer => 200, '1']));
    $host->sections->wait_note(qr/^rst in/, 5);
    $h2->rst($running);
    sleep 0.05;
    $host->sections->allow('rst');
    ok($host->sections->wait_note(qr/^rst done/, 5), 'X-15: HTTP/2: one that runs, runs to its end');
    is($event->call(POST => 'exclusive/op', body => $body)->{body}, '[1]', 'and the line moves on');

    # A caller that does not read: the line moves on when it goes.
    my $slow = DurableClient->connect(port => $host->server->port, rcvbuf => 4096);
    my $large = steps([answer_large => 8000000]);
    $slow->send_request('POST', '/durable/exclusive/large', headers => ['Durable-Event', $event->token], body => $large);
    $slow->read_until(qr/^HTTP/, 10);
    $slow->reset;
    is($event->call(POST => 'exclusive/op', body => $body)->{body}, '[1]', 'X-7a: a caller that does not take its result does not stop the line once it has left');
    my $get = $event->call(POST => 'exclusive/reads', body => steps([call => 'GET', 'section'], [answer => 200, '1']));
    is($get->{status}, 200, 'GET section');
    $event->end;
}
$host->server->no_alerts;
done_testing();
