# SPDX-License-Identifier: BSD-2-Clause
# nginx with one of conf-examples/, on ports of the test's own, and the programs that belong to it.
#
#     my $example = ExampleServer->start('replay.conf');    # 8080 is $example->port(8080), and so on
#     $example->run(9000, 'python3', "$dir/app.py", env => {…}); # until the object goes
package ExampleServer;
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FreePort qw(free_port);
use Cwd qw(abs_path);
use IO::Socket::INET;
use NginxProcess;
use POSIX ();

my $examples = abs_path(dirname(__FILE__) . '/../../conf-examples');
sub examples { return $examples }

sub start {
    my ($class, $name) = @_;
    my $self = bless {prefix => tempdir('durable-example-XXXXXX', TMPDIR => 1, CLEANUP => 1), ports => {}, programs => [], owner => $$}, $class;
    chmod 0755, $self->{prefix};
    make_path(map { "$self->{prefix}/$_" } qw(conf logs temp data));
    symlink $examples, "$self->{prefix}/conf-examples" or die "symlink: $!";
    my $load = join ' ', map { "load_module $_;" } split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
    my $conf = $self->with_ports(NginxProcess::slurp("$examples/$name"));
    $conf =~ s/^load_module [^;]*ngx_http_durable_module\.so;/$load/m;
    $conf =~ s/^worker_processes auto;/worker_processes 2;/m;
    open my $out, '>', "$self->{prefix}/conf/nginx.conf" or die $!;
    print $out "pid $self->{prefix}/logs/nginx.pid;\n", $conf;
    close $out;
    $self->{nginx} = NginxProcess->start(binary => $ENV{TEST_NGINX_BINARY} || 'nginx', prefix => $self->{prefix});
    $self->{nginx}->wait_ready($self->port(8080)) or die "nginx did not start:\n" . $self->{nginx}->error_log;
    return $self;
}

sub prefix { $_[0]{prefix} }
sub nginx { $_[0]{nginx} }
sub port { my ($self, $port) = @_; return $self->{ports}{$port} //= free_port() }
# A text whose 127.0.0.1:PORT are those of the test.
sub with_ports { my ($self, $text) = @_; return $text =~ s/127\.0\.0\.1:(\d+)/'127.0.0.1:' . $self->port($1)/ger }

# Starts a program and waits until it listens on the port that stands for `port`.
sub run {
    my ($self, $port, @command) = @_;
    my $env = ref $command[-1] ? pop @command : {};
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        setpgrp;
        %ENV = (%ENV, %$env);
        chdir $self->{prefix};
        open STDERR, '>>', "$self->{prefix}/logs/program.log";
        open STDOUT, '>&', \*STDERR;
        exec {$command[0]} @command or POSIX::_exit(127);
    }
    push @{$self->{programs}}, $pid;
    NginxProcess::wait_until(20, sub {
        return 1 if waitpid($pid, POSIX::WNOHANG) == $pid;
        return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->port($port), Proto => 'tcp');
    }) && !NginxProcess::is_gone($pid)
        or die "$command[0] did not start:\n" . (NginxProcess::slurp("$self->{prefix}/logs/program.log") // '');
    return $pid;
}

# Ends one program at once.
sub kill_program { my ($self, $pid) = @_; kill 'KILL', -$pid; waitpid $pid, 0; @{$self->{programs}} = grep { $_ != $pid } @{$self->{programs}} }

sub DESTROY {
    my ($self) = @_;
    return if $self->{owner} != $$;
    local ($?, $!, $@);
    $self->kill_program($_) for @{[@{$self->{programs}}]};
}

1;
