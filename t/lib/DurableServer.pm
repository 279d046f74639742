# SPDX-License-Identifier: BSD-2-Clause
# An nginx with the module for tests that need several live connections, reloads or dying
# workers (t/multi/*.t). Everything is ended and removed with the object.
#
#     my $server = DurableServer->start(
#         workers => 2,
#         main   => '…', http => '…',      # in the main and the http context, optional
#         server => 'location = /sub { … }',
#     );
#     $server->port; $server->worker_pids; $server->reload(workers => 3); $server->no_alerts;
#
# In the texts {{prefix}} is the server's folder, {{port}} the port of the default server,
# any {{port_NAME}} a further free port, {{cert}} and {{key}} a certificate for localhost.
# The default server has `location = /_worker`, which answers with its worker's pid.
package DurableServer;
use strict;
use warnings;
use DurableClient;
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FreePort qw(free_port);
use NginxProcess;
use Test::More ();

# The texts above, workers (2), connections of each (4096), level of the error log (info), env (a hash).
sub start {
    my ($class, %args) = @_;
    my $self = bless {
        args => {workers => 2, level => 'info', connections => 4096, main => '', http => '', server => '', %args},
        prefix => tempdir('durable-multi-XXXXXX', TMPDIR => 1, CLEANUP => 1),
        ports => {},
    }, $class;
    chmod 0755, $self->{prefix};    # workers may be another user
    make_path(map { "$self->{prefix}/$_" } qw(conf html logs));
    $self->write_conf;
    $self->{nginx} = NginxProcess->start(
        binary => $ENV{TEST_NGINX_BINARY} || 'nginx', prefix => $self->{prefix}, env => $args{env});
    my $has_master = $self->{args}{main} !~ /\bmaster_process\s+off/;
    $self->{nginx}->wait_ready($self->port) && (!$has_master || $self->wait_workers($self->{args}{workers}))
        or die "nginx did not start:\n" . $self->error_log;
    return $self;
}

sub prefix { $_[0]{prefix} }
sub port {
    my ($self, $name) = @_;
    return $self->{ports}{defined $name ? "port_$name" : 'port'} //= free_port();
}
sub master_pid { $_[0]{nginx}->pid }
sub worker_pids { $_[0]{nginx}->workers }
sub is_running { $_[0]{nginx}->is_running }
sub error_log { $_[0]{nginx}->error_log }
sub access_log { NginxProcess::slurp("$_[0]{prefix}/logs/access.log") // '' }

sub write_conf {
    my ($self) = @_;
    my %args = %{$self->{args}};
    my $modules = join "\n", map { "load_module $_;" } split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
    my $user = $> == 0 ? 'user root;' : '';
    my $temps = join "\n    ", map { "${_}_temp_path {{prefix}}/${_}_temp;" } qw(client_body proxy fastcgi scgi uwsgi);
    my $text = <<"CONF";
worker_processes $args{workers};
error_log {{prefix}}/logs/error.log $args{level};
pid {{prefix}}/logs/nginx.pid;
$user
$modules
$args{main}
events { worker_connections $args{connections}; }
http {
    access_log {{prefix}}/logs/access.log;
    $temps
    default_type text/plain;
    $args{http}
    server {
        listen 127.0.0.1:{{port}};
        location = /_worker { return 200 \$pid; }
        $args{server}
    }
}
CONF
    open my $out, '>', "$self->{prefix}/conf/nginx.conf" or die $!;
    print $out $self->expand($text);
    close $out;
}

sub expand {
    my ($self, $text) = @_;
    $text =~ s/\{\{prefix\}\}/$self->{prefix}/g;
    $text =~ s/\{\{port(?:_(\w+))?\}\}/$self->port($1)/ge;
    $self->make_certificate if $text =~ /\{\{(?:cert|key)\}\}/;
    $text =~ s/\{\{(cert|key)\}\}/$self->{prefix}\/$1.pem/g;
    return $text;
}

sub make_certificate {
    my ($self) = @_;
    my ($key, $cert) = map { "$self->{prefix}/$_.pem" } qw(key cert);
    return if -e $cert;
    system("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
         . "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 "
         . "-keyout $key -out $cert 2>$self->{prefix}/openssl.log") == 0
        or die 'openssl: ' . NginxProcess::slurp("$self->{prefix}/openssl.log");
}

# Changes the texts, if any are given, and reloads. True once the new workers take the
# connections and the old ones none; false if nginx refused the new configuration.
sub reload {
    my ($self, %changes) = @_;
    my %old = map { $_ => 1 } $self->worker_pids;
    my $offset = length $self->error_log;
    $self->{args} = {%{$self->{args}}, %changes};
    $self->write_conf;
    kill 'HUP', $self->master_pid;
    my $refused;
    my $done = NginxProcess::wait_until(20, sub {
        return $refused = 1 if substr($self->error_log, $offset) =~ /\[emerg\]/;
        my @now = $self->worker_pids;
        return @now == $self->{args}{workers} && !grep { $old{$_} } @now;
    });
    die "no new workers 20 s after a reload:\n" . $self->error_log if !$done;
    return !$refused;
}

# Waits until as many workers take connections; false if they do not in time.
sub wait_workers {
    my ($self, $count, $seconds) = @_;
    return NginxProcess::wait_until($seconds // 20, sub { $self->worker_pids == $count });
}

# Kills one worker and waits until it is gone and the master has replaced it.
sub kill_worker {
    my ($self, $pid, $signal) = @_;
    kill $signal // 'KILL', $pid;
    NginxProcess::wait_until(10, sub {
        NginxProcess::is_gone($pid) && !grep { $_ == $pid } $self->worker_pids
    }) or die "worker $pid is still there";
    $self->wait_workers($self->{args}{workers}) or die "worker $pid was not replaced";
}

# Waits until a process, say a worker that was asked to quit, has ended.
sub wait_gone {
    my ($self, $pid, $seconds) = @_;
    return NginxProcess::wait_until($seconds // 10, sub { NginxProcess::is_gone($pid) });
}

# Waits for a line in the error log; true if it came.
sub wait_log {
    my ($self, $pattern, $seconds) = @_;
    return NginxProcess::wait_until($seconds // 5, sub { $self->error_log =~ $pattern });
}

# A kept-alive connection that this worker serves. Which worker accepts is the kernel's
# choice: it is asked for several at a time until one is right.
sub connect_to_worker {
    my ($self, $pid, %how) = @_;
    for (1 .. 100) {
        my @clients = map { DurableClient->connect(port => $self->port, %how) } 1 .. 8;
        $_->write("GET /_worker HTTP/1.1\r\nHost: localhost\r\n\r\n") for @clients;
        for my $client (@clients) {
            return $client if $client->read_response(5)->{body} == $pid;
        }
    }
    die "no connection reached worker $pid";
}

# One test: nothing alarming in the log but what is expected.
sub no_alerts {
    my ($self, $name, @expected) = @_;
    my @lines = grep { my $line = $_; !grep { $line =~ $_ } @expected }
        grep { $_ =~ $NginxProcess::ALARMING } split /^/, $self->error_log;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return Test::More::ok(!@lines, $name // 'no alerts in the error log') || Test::More::diag(@lines);
}

# Ends nginx: true if it did in time. QUIT lets requests end, TERM does not.
sub stop {
    my ($self, $signal, $seconds) = @_;
    return $self->{nginx}->stop($signal // 'QUIT', $seconds // 10);
}

sub DESTROY {
    my ($self) = @_;
    my $nginx = $self->{nginx} or return;
    return if $nginx->{owner} != $$ || Test::More->builder->is_passing;
    my @lines = split /^/, $self->error_log;
    splice @lines, 0, -40 if @lines > 40;
    Test::More::diag("end of the error log:\n", @lines);
}

1;
