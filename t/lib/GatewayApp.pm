# SPDX-License-Identifier: BSD-2-Clause
# The least of an application server for FastCGI, uwsgi or SCGI: answers each request with the
# parameters whose names match, sorted, a line each.
#
#     my $app = GatewayApp->start('fastcgi', qr/^HTTP_DURABLE/);    # or uwsgi, scgi
#     fastcgi_pass 127.0.0.1:PORT;                                  # $app->port
package GatewayApp;
use strict;
use warnings;
use FreePort qw(free_port);
use IO::Socket::INET;
use POSIX ();

my %answer = (fastcgi => \&answer_fastcgi, uwsgi => \&answer_uwsgi, scgi => \&answer_scgi);

sub start {
    my ($class, $protocol, $pattern) = @_;
    my $self = bless {port => free_port(), owner => $$}, $class;
    my $listener = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1', LocalPort => $self->{port}, Proto => 'tcp', Listen => 64, ReuseAddr => 1)
        or die "port $self->{port}: $!";
    $self->{pid} = fork // die "fork: $!";
    return $self if $self->{pid};
    while (my $socket = $listener->accept) {
        eval { $answer{$protocol}->($socket, $pattern); 1 } or warn $@;
    }
    POSIX::_exit(0);
}

sub port { $_[0]{port} }

sub take {
    my ($socket, $count) = @_;
    my $bytes = '';
    while (length $bytes < $count) {
        read $socket, $bytes, $count - length $bytes, length $bytes or die 'cut short';
    }
    return $bytes;
}

sub listed {
    my ($pattern, %params) = @_;
    return join '', map { "$_=$params{$_}\n" } sort grep { $_ =~ $pattern } keys %params;
}

sub answer_fastcgi {
    my ($socket, $pattern) = @_;
    my $params = '';
    while (1) {
        my ($version, $type, $id, $length, $padding) = unpack 'CCnnC', take($socket, 8);
        my $content = substr take($socket, $length + $padding), 0, $length;
        $params .= $content if $type == 4;
        last if $type == 5 && $length == 0;
    }
    my %params;
    my $size = sub {
        return ord substr $params, 0, 1, '' if ord($params) < 128;
        return unpack('N', substr $params, 0, 4, '') & 0x7fffffff;
    };
    while ($params ne '') {
        my ($name, $value) = ($size->(), $size->());
        my $key = substr $params, 0, $name, '';
        $params{$key} = (exists $params{$key} ? "$params{$key}, " : '') . substr $params, 0, $value, '';
    }
    my $text = "Content-Type: text/plain\r\n\r\n" . listed($pattern, %params);
    print $socket pack('CCnnCC', 1, 6, 1, length $text, 0, 0), $text, pack('CCnnCC', 1, 6, 1, 0, 0, 0),
        pack('CCnnCCNCCCC', 1, 3, 1, 8, 0, 0, 0, 0, 0, 0, 0);
    close $socket;
}

sub answer_uwsgi {
    my ($socket, $pattern) = @_;
    my (undef, $size) = unpack 'CvC', take($socket, 4);
    my @pairs = unpack '(v/a*)*', take($socket, $size);
    print $socket "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n", listed($pattern, joined(@pairs));
    close $socket;
}

sub answer_scgi {
    my ($socket, $pattern) = @_;
    my $length = '';
    while (($length .= take($socket, 1)) !~ /:$/) { }
    my @pairs = split /\0/, take($socket, substr($length, 0, -1) + 1), -1;
    print $socket "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n", listed($pattern, joined(@pairs[0 .. $#pairs - 1]));
    close $socket;
}

sub joined {
    my %params;
    while (my ($name, $value) = splice @_, 0, 2) {
        $params{$name} = exists $params{$name} ? "$params{$name}, $value" : $value;
    }
    return %params;
}

sub DESTROY {
    my ($self) = @_;
    return if $self->{owner} != $$;
    local ($?, $!);
    kill 'KILL', $self->{pid};
    waitpid $self->{pid}, 0;
}

1;
