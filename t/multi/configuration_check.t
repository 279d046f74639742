# SPDX-License-Identifier: BSD-2-Clause
# nginx -t beside a running instance touches nothing of it, and a configuration without an http
# block, or with one that does not use the module, runs, reloads and stops.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableServer;
use File::Temp qw(tempdir);
use FreePort qw(free_port);
use NginxProcess;
use Test::More;

my $binary = $ENV{TEST_NGINX_BINARY} || 'nginx';
my $server = DurableServer->start(workers => 2, http => $ChannelCalls::http, server => $ChannelCalls::server);
my @workers = $server->worker_pids;
my $stream = subscribe($server, 'a');
is(publish($server, 'a', 'before'), 1, 'a stream');
my $prefix = $server->prefix;
for (1 .. 3) {
    is(system("$binary -t -q -p $prefix/ -c $prefix/conf/nginx.conf -e $prefix/logs/check.log 2>$prefix/logs/check.err"), 0, 'nginx -t passes');
}
$server->{args}{http} .= ' durable_zone other 4m; durable_zone third 1m;';
$server->write_conf;
is(system("$binary -t -q -p $prefix/ -c $prefix/conf/nginx.conf -e $prefix/logs/check.log 2>$prefix/logs/check.err"), 0, 'also of another configuration');
is(publish($server, 'a', 'after'), 1, 'the stream is still there');
is_deeply([$stream->next_texts(2, 5)], ['before', 'after'], 'and has missed nothing');
is_deeply([$server->worker_pids], \@workers, 'the workers are the same');
unlike(NginxProcess::slurp("$prefix/logs/check.log") // '', qr/\[(?:alert|crit|emerg)\]/, 'nothing alarming from the check');
$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');

# No http block: a stream server, so that something listens.
my $folder = tempdir('durable-multi-XXXXXX', TMPDIR => 1, CLEANUP => 1);
mkdir "$folder/$_" or die $! for qw(conf logs);
my $modules = join "\n", map { "load_module $_;" } split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
my $write = sub {
    my ($text) = @_;
    open my $out, '>', "$folder/conf/nginx.conf" or die $!;
    my $user = $> == 0 ? 'user root;' : '';
    my $temps = join ' ', map { "${_}_temp_path $folder/${_}_temp;" } qw(client_body proxy fastcgi scgi uwsgi);
    print $out "$user worker_processes 2; pid $folder/logs/nginx.pid; error_log $folder/logs/error.log info;\n$modules\n"
        . "events { worker_connections 64; }\n" . $text =~ s/\{\{temps\}\}/$temps access_log off;/r;
    close $out;
};
$write->('');
my $nginx = NginxProcess->start(binary => $binary, prefix => $folder);
ok(NginxProcess::wait_until(10, sub { $nginx->workers == 2 }), 'without an http block nginx starts');
my $generation = sub {
    my %old = map { $_ => 1 } $nginx->workers;
    kill 'HUP', $nginx->pid;
    return NginxProcess::wait_until(10, sub { my @now = $nginx->workers; @now == 2 && !grep { $old{$_} } @now });
};
ok($generation->(), 'reloads');
my ($victim) = $nginx->workers;
kill 'KILL', $victim;
ok(NginxProcess::wait_until(10, sub { NginxProcess::is_gone($victim) && $nginx->workers == 2 }), 'replaces a killed worker');
my $port = free_port();
$write->("http { {{temps}} server { listen 127.0.0.1:$port; location / { return 204; } } }");
ok($generation->(), 'gets an http block without the module');
$write->("http { {{temps}} durable_zone main 1m; server { listen 127.0.0.1:$port; durable_object main a; location = /sub { durable_subscribe a; } } }");
ok($generation->(), 'and with it');
my $last = SseClient->open(port => $port, path => '/sub');
is($last->status, 200, 'which works');
$write->('');
ok($generation->(), 'and none again');
is($last->wait_end(5), 'end', 'its stream ends');
ok(NginxProcess::wait_until(10, sub { 2 == (() = $nginx->children) }), 'and its old workers leave');
ok($nginx->stop('QUIT', 10), 'nginx ends at QUIT');
my @alarming = grep { $_ =~ $NginxProcess::ALARMING && !/exited on signal 9/ } split /^/, $nginx->error_log;
is(scalar @alarming, 0, 'no alerts') or diag(@alarming);
done_testing();
