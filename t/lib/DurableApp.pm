# SPDX-License-Identifier: BSD-2-Clause
# A small application server for tests of proxy_pass: a process of its own for each
# connection, in which a callback answers each request.
#
#     my $app = DurableApp->start(sub {
#         my ($request, $connection) = @_;     # {method, path, headers, body}
#         $connection->note("got $request->{path}");
#         $connection->wait_for('go', 5);      # until the test calls $app->allow('go')
#         $connection->respond(200, ['Content-Type', 'text/plain'], 'hello');
#     });
#     proxy_pass http://127.0.0.1:{{port_app}};  # or $app->port in the text
#     $app->wait_note(qr/got/, 5);
#
# A callback may also write bytes of its own, or die_now; what it does not answer is closed.
package DurableApp;
use strict;
use warnings;
use DurableClient;
use File::Temp qw(tempdir);
use FreePort qw(free_port);
use IO::Socket::INET;
use NginxProcess;
use POSIX ();
use Socket qw(IPPROTO_TCP TCP_NODELAY);

# port: a free one if not given.
sub start {
    my ($class, $callback, %args) = @_;
    my $self = bless {
        port => $args{port} // free_port(), owner => $$,
        folder => tempdir('durable-app-XXXXXX', TMPDIR => 1, CLEANUP => 1),
    }, $class;
    # Listening before the fork: whoever connects after start() is served.
    my $listener = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1', LocalPort => $self->{port}, Proto => 'tcp', Listen => 512, ReuseAddr => 1)
        or die "port $self->{port}: $!";
    $self->{pid} = fork // die "fork: $!";
    return $self if $self->{pid};
    in_child(sub { $self->serve($listener, $callback) });
}

# A child must neither run the test's END blocks nor end the test's own servers.
sub in_child {
    my ($work) = @_;
    eval { $work->(); 1 } or warn $@;
    POSIX::_exit(0);
}

sub serve {
    my ($self, $listener, $callback) = @_;
    $SIG{CHLD} = 'IGNORE';
    setpgrp;
    while (1) {
        my $socket = $listener->accept or next;
        my $pid = fork // next;
        if ($pid) { close $socket; next }
        close $listener;
        in_child(sub { $self->connection_class->new($socket, $self->{folder})->serve($callback) });
    }
}

# For those that speak something else than HTTP.
sub connection_class { 'DurableApp::Connection' }

sub port { $_[0]{port} }

# Lets callbacks that wait for this name go on, now and later.
sub allow {
    my ($self, $name) = @_;
    open my $out, '>', "$self->{folder}/allow-$name" or die $!;
}

# What callbacks noted, in order.
sub notes {
    my ($self) = @_;
    return split /\n/, NginxProcess::slurp("$self->{folder}/notes") // '';
}

# True once so many notes (1) match.
sub wait_note {
    my ($self, $pattern, $seconds, $count) = @_;
    return NginxProcess::wait_until($seconds, sub { (grep { $_ =~ $pattern } $self->notes) >= ($count // 1) });
}

# Ends the server and all its connections, as if the application had crashed.
sub stop {
    my ($self) = @_;
    my $pid = delete $self->{pid} or return;
    kill 'KILL', -$pid;
    kill 'KILL', $pid;    # it may not have made its group yet
    waitpid $pid, 0;
}

sub DESTROY {
    my ($self) = @_;
    return if $self->{owner} != $$;
    local ($?, $!, $@);
    $self->stop;
}

package DurableApp::Connection;

sub new {
    my ($class, $socket, $folder) = @_;
    setsockopt $socket, Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1;
    $socket->blocking(0);
    my $peer = bless {socket => $socket, buffer => '', is_eof => 0}, 'DurableClient';
    return bless {peer => $peer, folder => $folder}, $class;
}

sub serve {
    my ($self, $callback) = @_;
    while (my $request = $self->read_request) {
        $callback->($request, $self);
        return if !$self->{keeps_alive};
    }
}

sub read_request {
    my ($self) = @_;
    my $head = $self->{peer}->read_until(qr/\r\n\r\n/, 60) // return undef;
    my ($line, @lines) = split /\r\n/, $head;
    my ($method, $path, $version) = split / /, $line;
    my %headers;
    for (@lines) {
        my ($name, $value) = split /:[ \t]*/, $_, 2;
        $headers{lc $name} = defined $headers{lc $name} ? "$headers{lc $name}, $value" : $value;
    }
    my $connection = lc($headers{connection} // '');
    $self->{keeps_alive} = $version eq 'HTTP/1.0' ? $connection eq 'keep-alive' : $connection ne 'close';
    my $body = ($headers{'transfer-encoding'} // '') eq 'chunked' ? $self->{peer}->read_chunks(60)
             : $self->{peer}->read_bytes($headers{'content-length'} // 0, 60);
    return {method => $method, path => $path, headers => \%headers, raw => $head, body => $body // return undef};
}

# The whole answer at once; headers: [name, value, …].
sub respond {
    my ($self, $status, $headers, $body) = @_;
    my @headers = @{$headers || []};
    my $head = "HTTP/1.1 $status Status\r\nContent-Length: " . length($body //= '') . "\r\n";
    $head .= "Connection: close\r\n" if !$self->{keeps_alive};
    while (my ($name, $value) = splice @headers, 0, 2) { $head .= "$name: $value\r\n" }
    return $self->write("$head\r\n$body");
}

# Bytes as they are: for answers that come in parts, or are broken.
sub write { $_[0]{peer}->write($_[1]) }
# True once the other side has closed this connection.
sub wait_closed {
    my ($self, $seconds) = @_;
    return defined $self->{peer}->read_to_eof($seconds);
}

# Ends this connection at once, in the middle of whatever was written.
sub die_now { POSIX::_exit(1) }
sub reset_now { $_[0]{peer}->reset; POSIX::_exit(1) }

# Waits until the test allows this name; false if it does not in time.
sub wait_for {
    my ($self, $name, $seconds) = @_;
    return NginxProcess::wait_until($seconds, sub { -e "$self->{folder}/allow-$name" });
}

# One line for the test. Lines of several connections do not mix: each is one append.
sub note {
    my ($self, $text) = @_;
    open my $out, '>>', "$self->{folder}/notes" or die $!;
    syswrite $out, $text =~ s/\n/\\n/gr . "\n";
}

1;
