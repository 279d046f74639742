# SPDX-License-Identifier: BSD-2-Clause
# durable_emit (E-27), and conf-examples/webdav-events.conf as it stands: files that are written with curl
# show up in a live stream and at a webhook, with no application.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(curl http_request);
use EventsApi;
use File::Path qw(make_path);
use Test::More;
use Time::HiRes qw(sleep);

my $root = "$FindBin::Bin/../..";

sub event_of { my ($who, $stream) = @_; my $delivery = $who->delivery($stream, 5) or return 'none'; return $delivery->{event} }
sub summary { my ($event) = @_; return $event if !ref $event; return join ' ', grep { defined } @{$event}{qw(op path from topic self)} }

# ---- E-27

for my $workers (1, 2) {
    my $api = EventsApi->start(workers => $workers, server => <<'END');
        location /dav/ { root {{prefix}}/html; dav_methods PUT DELETE MOVE COPY MKCOL; create_full_put_path on;
            durable_emit fs:$uri $http_op; }
        location /inner/ { alias {{prefix}}/html/dav/; dav_methods PUT MOVE; durable_emit fs:/outer$uri $http_op; }
        location /owned/ { root {{prefix}}/html; dav_methods PUT; create_full_put_path on; durable_identity $http_account $http_app;
            durable_emit fs:$uri write; }
        location /topic/ { durable_emit topic:$arg_name done; return 200 "ok"; }
        location /status/ { durable_emit topic:status ""; location /status/204 { return 204; } location /status/301 { return 301 /; }
            location /status/404 { return 404; } location /status/500 { return 500; } }
        location /moved/ { durable_emit topic:status ""; error_page 404 =200 /empty; return 404; }
        location = /empty { return 200 "e"; }
        location /sub/ { durable_emit $arg_subject $arg_op; return 204; }
        location /proxied/ { durable_emit topic:proxied ""; proxy_pass http://127.0.0.1:{{port}}/topic/; }
END
    my ($who, $other) = ($api->caller('a'), $api->caller('b'));
    my $http = sub { my ($method, $path, @headers) = @_; return http_request($api->port, $method, $path, headers => [@headers], $method eq 'PUT' ? (body => 'text') : ())->{status} };
    my $stream = $who->stream('fs:/**');
    is($http->('PUT', '/dav/a/b%20c.txt', Op => 'add'), 201, 'PUT');
    is(summary(event_of($who, $stream)), 'add /dav/a/b c.txt 0', 'E-27: PUT');
    $http->('PUT', '/dav/a/*?%3A.txt', Op => 'write');
    is(summary(event_of($who, $stream)), 'write /dav/a/* 0', 'E-27: a path is taken as it is');
    for my $destination ('/dav/a/d%C3%A9.txt', 'http://localhost/dav/a/e.txt', 'http://localhost/dav/x/../a/f.txt') {
        my $path = {'/dav/a/d%C3%A9.txt' => "/dav/a/d\x{e9}.txt", 'http://localhost/dav/a/e.txt' => '/dav/a/e.txt'}->{$destination};
        $http->('PUT', '/dav/a/m.txt', Op => '');
        my $status = $http->('MOVE', '/dav/a/m.txt', Op => 'move', Destination => $destination);
        next if $status > 299;    # nginx refuses an unsafe one
        event_of($who, $stream) if 0;
        is(summary(event_of($who, $stream)), "move $path /dav/a/m.txt 0", "E-27: MOVE to $destination");
    }
    $http->('COPY', '/dav/a/e.txt', Op => 'add', Destination => '/dav/a/copy.txt');
    is(summary(event_of($who, $stream)), 'add /dav/a/copy.txt 0', 'E-27: COPY is about its destination');
    $http->('MKCOL', '/dav/folder/', Op => 'add');
    is(summary(event_of($who, $stream)), 'add /dav/folder 0', 'E-27: MKCOL');
    $http->('DELETE', '/dav/folder/', Op => 'remove');
    is(summary(event_of($who, $stream)), 'remove /dav/folder 0', 'E-27: DELETE');
    is($http->('DELETE', '/dav/none.txt', Op => 'remove'), 404, 'a failure');
    is($http->('PUT', '/inner/i.txt', Op => 'write'), 201, 'PUT elsewhere');
    is(summary(event_of($who, $stream)), 'write /outer/inner/i.txt 0', 'E-27: failures emit nothing; a subject with a prefix');
    $http->('MOVE', '/inner/i.txt', Op => 'move', Destination => '/inner/j.txt');
    is(summary(event_of($who, $stream)), 'move /outer/inner/j.txt /outer/inner/i.txt 0', 'E-27: MOVE with a prefix');

    is($http->('PUT', '/owned/x', Account => 'a'), 201, 'an owner');
    is(summary(event_of($who, $stream)), 'write /owned/x 1', 'E-27: for the account, by itself');
    my $hers = $other->stream('fs:/**');
    $http->('PUT', '/owned/y', Account => 'a');
    $http->('PUT', '/owned/z');
    $http->('PUT', '/owned/b', Account => 'b');
    is(summary(event_of($other, $hers)), 'write /owned/b 1', "E-27: not another's, and nothing where there is no account");
    is(summary(event_of($who, $stream)), 'write /owned/y 1', 'E-27: the owner has it');

    my $topics = $who->stream('topic:*');
    $http->('GET', '/topic/?name=x:y');
    is(summary(event_of($who, $topics)), 'done x:y 0', 'E-27: a topic');
    $http->('GET', "/status/$_") for 301, 404, 500, 204;
    is(summary(event_of($who, $topics)), 'status 0', 'E-27: 2xx only');
    $http->('GET', '/sub/?subject=&op=x');
    $http->('GET', '/sub/?subject=wrong&op=x');
    $http->('GET', '/moved/');
    $http->('GET', '/proxied/?name=p');
    is(join(',', sort map { summary(event_of($who, $topics)) } 1, 2), 'done p 0,proxied 0', 'E-27: an empty subject, or one that is none, emits nothing');
    ok($api->server->wait_log(qr/\[error\].*event not emitted: .*invalid_subject/), 'the second is in the log');
    is($topics->next_event(0.3), undef, 'no more');

    # An event is in the log before its worker is gone.
    my $client = DurableClient->connect(port => $api->port);
    $client->write("GET /topic/?name=last HTTP/1.1\r\nHost: a\r\n\r\n");
    $client->read_response(5);
    ok($api->reload, 'a reload right after');
    is(scalar @{$who->call(GET => 'fetch?subject=topic:last')->{json}{items}}, 1, 'a worker that is to quit finishes its events');
    $api->server->no_alerts;
    ok($api->server->stop, 'nginx ends in time');
}

# ---- the example

SKIP: {
    my $text = NginxProcess::slurp("$root/conf-examples/webdav-events.conf");
    my $api = bless {folder => File::Temp::tempdir('durable-hooks-XXXXXX', TMPDIR => 1, CLEANUP => 1)}, 'EventsApi';
    $api->{app} = DurableApp->start(sub { $_[0]{path} =~ s{^/changed}{/hook/indexer}; EventsApi::receive($api->{folder}, @_) });
    my $port = FreePort::free_port();
    my $prefix = File::Temp::tempdir('durable-example-XXXXXX', TMPDIR => 1, CLEANUP => 1);
    chmod 0755, $prefix;
    make_path(map { "$prefix/$_" } qw(conf logs temp data));
    chmod 0777, "$prefix/data", "$prefix/temp";
    my $load = join "\n", map { "load_module $_;" } split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
    $text =~ s/^load_module [^;]*;/$load\npid logs\/nginx.pid;@{[$> == 0 ? 'user root;' : '']}/m;
    $text =~ s/worker_processes auto/worker_processes 2/;
    is($text =~ s/127\.0\.0\.1:8080;/127.0.0.1:$port;/, 1, 'the example listens at 8080');
    is($text =~ s{http://127\.0\.0\.1:8090/}{'http://127.0.0.1:' . $api->{app}->port . '/'}e, 1, 'and calls 8090');
    open my $out, '>', "$prefix/conf/nginx.conf" or die $!;
    print $out $text;
    close $out;
    my $nginx = NginxProcess->start(binary => $ENV{TEST_NGINX_BINARY} || 'nginx', prefix => $prefix);
    ok($nginx->wait_ready($port), 'the example starts') or diag($nginx->error_log), last SKIP;
    bless $api->{server} = {ports => {port => $port}}, 'DurableServer';
    my $ada = $api->caller('ada');
    my $stream = $ada->stream('fs:/files/reports');
    is($ada->call(POST => 'subscribe', {subject => 'fs:/files/**/*.txt', delivery => 'single', handlerName => 'indexer', targets => ['worker']})->{status}, 200, 'a subscription');
    open my $file, '>', "$prefix/report.txt";
    print $file "a report\n";
    close $file;
    my $url = "http://127.0.0.1:$port/files/reports";
    my @steps = (
        ['-T', "$prefix/report.txt", "$url/report.txt"], 'add /files/reports/report.txt 0',
        ['-T', "$prefix/report.txt", "$url/report.txt"], 'write /files/reports/report.txt 0',
        ['-X', 'MOVE', '-H', 'Destination: /files/reports/old.txt', "$url/report.txt"], 'move /files/reports/old.txt /files/reports/report.txt 0',
        ['-X', 'DELETE', "$url/old.txt"], 'remove /files/reports/old.txt 0',
    );
    my @wanted;
    while (my ($arguments, $summary) = splice @steps, 0, 2) {
        is((curl(@$arguments, '-o', '/dev/null', '-w', '%{http_code}'))[1] =~ /^2/, 1, "curl @$arguments[0, 1]");
        is(summary(event_of($ada, $stream)), $summary, 'a live stream has it');
        push @wanted, $summary;
    }
    is_deeply([map { summary($_->{json}{event}) } $api->wait_hooks('indexer', 4)], \@wanted, 'and so has the webhook, in order');
    unlike($nginx->error_log, $NginxProcess::ALARMING, 'no alerts in its log');
    ok($nginx->stop, 'it ends in time');
}

done_testing;
