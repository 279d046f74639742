# SPDX-License-Identifier: BSD-2-Clause
# Event streams of applications behind FastCGI, uwsgi, SCGI and gRPC.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use StreamGateway;
use SseClient;
use StreamApp;
use Test::More;

my %stories = (
    all => sub {
        my ($calls, $connection, $request) = @_;
        my ($end, $how) = $request->{path} =~ /\?(\w+)-(\w+)/;
        $calls->note(join ' ', $calls->start(headers => [['X-A', 'b']]), $calls->write("data: 1\n\n"),
            $calls->write("data: $request->{body}\n\n"), $end eq 'end' ? $calls->end : $end eq 'abort' ? $calls->abort : 'open');
        return '' if $how eq 'empty';
        $connection->respond(200, ['X-Own', 'yes'], 'own') if $how eq 'body';
        $connection->respond(503, undef, 'failed') if $how eq 'fails';
        $connection->die_now if $how eq 'dies';
        return 'answered';
    },
    leaving => sub {
        my ($calls) = @_;
        $calls->start;
        $calls->note($calls->wait_disconnected(5) ? 'seen' : 'not seen');
        $calls->note('goes on ' . $calls->write('x'));
    },
);
my %apps = (fastcgi => StreamGateway::Fastcgi->start(%stories), uwsgi => StreamGateway::Uwsgi->start(%stories),
            scgi => StreamGateway::Scgi->start(%stories), grpc => StreamApp->start(%stories));

my $locations = '';
for my $kind (qw(fastcgi uwsgi scgi)) {
    my $port = $apps{$kind}->port;
    my $params = StreamGateway::params($kind);
    $locations .= "location /$kind/ { durable_object main x; $params ${kind}_read_timeout 300ms; ${kind}_pass 127.0.0.1:$port; }\n"
        . "location /$kind-off/ { rewrite ^/$kind-off/(.*) /$kind/\$1 break; durable_object main x; $params"
        . " ${kind}_buffering off; ${kind}_pass 127.0.0.1:$port; }\n";
}
my $server = $apps{grpc}->server(
    workers => 2,
    http => 'server { listen 127.0.0.1:{{port_backend}} http2; access_log off; location / { proxy_http_version 1.1;'
        . ' rewrite ^/grpc/(.*) /app/$1 break; proxy_pass http://127.0.0.1:' . $apps{grpc}->port . '; } }',
    server => $locations . 'location /grpc/ { durable_object main x; grpc_set_header X-Worker $pid;'
        . ' grpc_set_header X-Port {{port}}; grpc_read_timeout 300ms; grpc_pass grpc://127.0.0.1:{{port_backend}}; }',
);
my $port = $server->port;

for my $kind (qw(fastcgi fastcgi-off uwsgi uwsgi-off scgi scgi-off grpc)) {
    my $app = $apps{$kind =~ s/-off//r};
    for my $where (qw(same other)) {
        for my $how (qw(empty body fails dies)) {
            for my $end (qw(end abort open)) {
                my $what = "$kind, $how, $end, $where";
                my $client = DurableClient->connect(port => $port);
                my $stream = SseClient->open(client => $client, path => "/$kind/all/$where?$end-$how", method => 'POST', body => 'hello');
                is($stream->status . $stream->header('X-A'), '200b', "$what: the head of the stream");
                is(join(' ', $stream->next_texts(2, 5)), '1 hello', "$what: its frames");
                is($stream->wait_end(5), $end eq 'end' ? 'end' : 'cut', "$what: its end");
                like($app->results('all', 1), qr/^201 0 0 (?:204|open)$/, "$what: the calls");
            }
        }
        SseClient->open(port => $port, path => "/$kind/leaving/$where")->client->close;
        is($app->results('leaving', 2), 'seen, goes on 1', "$kind, $where: a client that leaves");
    }
}
my @bad = grep { m{/all/} && !m{" 200 } } split /^/, $server->access_log;
is_deeply(\@bad, [], 'the access log has the status of the streams');
$server->no_alerts;
ok($server->stop, 'nginx ends');
done_testing();
