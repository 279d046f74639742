# SPDX-License-Identifier: BSD-2-Clause
# One nginx in the foreground, as a child of the test: started, watched and ended by
# its process id. Used by the minimal Test::Nginx runner and by DurableServer.
package NginxProcess;
use strict;
use warnings;
use IO::Socket::INET;
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(time sleep);

# What makes a run bad whatever the test looked for.
our $ALARMING = qr/\[(?:alert|crit|emerg)\]|exited on signal|AddressSanitizer|runtime error: |Assertion .*? failed/;

# binary, prefix (a folder that has conf/nginx.conf and logs/), env (optional hash).
sub start {
    my ($class, %args) = @_;
    my $self = bless {binary => $args{binary}, prefix => $args{prefix}, owner => $$}, $class;
    my @command = ($args{binary}, '-p', "$args{prefix}/", '-c', "$args{prefix}/conf/nginx.conf",
                   '-e', "$args{prefix}/logs/error.log", '-g', 'daemon off;');
    # The first lines of an nginx that fails go to stderr as well as to the log.
    open my $quiet, '>>', "$args{prefix}/logs/stderr.log" or die "stderr.log: $!";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        %ENV = (%ENV, %{$args{env} || {}});
        delete $ENV{NGINX};    # to nginx it means a binary upgrade
        open STDERR, '>&', $quiet;
        open STDOUT, '>&', $quiet;
        exec {$command[0]} @command or POSIX::_exit(127);
    }
    $self->{pid} = $pid;
    return $self;
}

sub pid { $_[0]{pid} }

# True while the master runs; its status is kept in {status} once it has ended.
sub is_running {
    my ($self) = @_;
    return 0 if defined $self->{status};
    my $reaped = waitpid $self->{pid}, WNOHANG;
    return 1 if $reaped == 0;
    $self->{status} = $reaped == $self->{pid} ? $? : -1;
    return 0;
}

# Waits until the port answers: true; false if nginx has ended instead.
sub wait_ready {
    my ($self, $port, $seconds) = @_;
    return wait_until($seconds // 20, sub {
        return 1 if !$self->is_running;
        my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp');
        return defined $socket;
    }) && $self->is_running;
}

# Waits for nginx to end by itself, as with a bad configuration; its status, or undef.
sub wait_exit {
    my ($self, $seconds) = @_;
    wait_until($seconds, sub { !$self->is_running });
    return $self->{status};
}

# QUIT by default, which lets requests end; KILL after `seconds`. True if it ended in time.
sub stop {
    my ($self, $signal, $seconds) = @_;
    return 1 if !$self->is_running;
    my @children = map { $_->[0] } $self->children;
    kill $signal // 'QUIT', $self->{pid};
    my $ended = wait_until($seconds // 10, sub { !$self->is_running });
    if (!$ended) {
        kill 'KILL', $self->{pid};
        kill 'KILL', $_ for @children;
        waitpid $self->{pid}, 0;
        $self->{status} = $?;
    }
    return $ended;
}

# ([pid, title], …) of the master's children that are alive, lowest pid first.
sub children {
    my ($self) = @_;
    my @found;
    for my $stat (glob '/proc/[0-9]*/stat') {
        my ($pid, $state, $parent) = (slurp($stat) // '') =~ /^(\d+) \(.*\) (\S) (\d+)/s or next;
        next if $parent != $self->{pid} || $state eq 'Z';
        my $title = slurp("/proc/$pid/cmdline") // next;
        $title =~ s/\0+/ /g;
        $title =~ s/ +$//;
        push @found, [$pid, $title];
    }
    return sort { $a->[0] <=> $b->[0] } @found;
}

# Workers that take new connections (their number in scalar context); those that are
# shutting down have another title.
sub workers {
    my ($self) = @_;
    my @pids = map { $_->[0] } grep { $_->[1] eq 'nginx: worker process' } $self->children;
    return @pids;
}

# True once the process has ended: gone, or a zombie that nobody has waited for yet.
sub is_gone {
    my ($pid) = @_;
    my $stat = slurp("/proc/$pid/stat") // return 1;
    return $stat =~ /\) Z /;
}

sub error_log { slurp("$_[0]{prefix}/logs/error.log") // '' }

# Polls a condition that gives no event to wait for; returns its last answer.
sub wait_until {
    my ($seconds, $condition) = @_;
    my $deadline = time + $seconds;
    my $pause = 0.001;
    while (1) {
        my $answer = $condition->();
        return $answer if $answer || time >= $deadline;
        sleep $pause;
        $pause = $pause * 1.5 if $pause < 0.02;
    }
}

sub slurp {
    my ($path) = @_;
    open my $in, '<', $path or return undef;
    local $/;
    return scalar <$in>;
}

sub DESTROY {
    my ($self) = @_;
    return if $self->{owner} != $$;    # a forked helper must not end its parent's nginx
    local ($?, $!, $@);
    $self->stop('TERM', 3);
}

1;
