# SPDX-License-Identifier: BSD-2-Clause
# One connection, read with deadlines: raw bytes, and HTTP/1.x requests and responses.
package DurableClient;
use strict;
use warnings;
use Exporter 'import';
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Socket qw(IPPROTO_TCP SOL_SOCKET SO_LINGER SO_RCVBUF SOCK_STREAM TCP_NODELAY inet_aton);
use Time::HiRes qw(time);

our @EXPORT_OK = qw(http_request curl);

# port, or unix (a path); tls => 1, alpn => [...]; rcvbuf => BYTES for a slow reader.
sub connect {
    my ($class, %how) = @_;
    my $socket;
    if (defined $how{unix}) {
        $socket = IO::Socket::UNIX->new(Peer => $how{unix}, Type => SOCK_STREAM) or die "$how{unix}: $!";
    } else {
        # IO::Socket::INET knows no option for the size, and after the connect it would come too late.
        $socket = IO::Socket::INET->new(Proto => 'tcp') or die "socket: $!";
        setsockopt $socket, SOL_SOCKET, SO_RCVBUF, pack('i', $how{rcvbuf}) if $how{rcvbuf};
        $socket->connect($how{port}, inet_aton('127.0.0.1')) or die "port $how{port}: $!";
        setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1;
    }
    if ($how{tls}) {
        require IO::Socket::SSL;
        IO::Socket::SSL->start_SSL($socket, SSL_verify_mode => 0, SSL_hostname => 'localhost',
                                   $how{alpn} ? (SSL_alpn_protocols => $how{alpn}) : ())
            or die "TLS: $IO::Socket::SSL::SSL_ERROR";
    }
    $socket->blocking(0);
    return bless {socket => $socket, buffer => '', is_eof => 0, tls => $how{tls}}, $class;
}

# True once the peer has closed (or reset: then {error} says so) and its bytes are read.
sub is_eof { $_[0]{is_eof} }
# What has been read but not taken yet.
sub buffer { $_[0]{buffer} }
sub socket { $_[0]{socket} }

# Reads what there is, waiting for it until the deadline. False at its end or the deadline.
sub fill {
    my ($self, $deadline) = @_;
    return 0 if $self->{is_eof};
    while (1) {
        my $got = sysread $self->{socket}, $self->{buffer}, 65536, length $self->{buffer};
        return 1 if $got;
        if (defined $got || !$!{EAGAIN}) {
            $self->{error} = "$!" if !defined $got;
            $self->{is_eof} = 1;
            return 0;
        }
        my $left = $deadline - time;
        return 0 if $left <= 0;
        IO::Select->new($self->{socket})->can_read($left);
    }
}

# Takes the bytes up to the end of the match; undef if it does not come in time.
sub read_until {
    my ($self, $pattern, $seconds) = @_;
    my $deadline = time + $seconds;
    while (1) {
        return substr $self->{buffer}, 0, $+[0], '' if $self->{buffer} =~ $pattern;
        $self->fill($deadline) or return undef;
    }
}

# Takes exactly so many bytes, or undef.
sub read_bytes {
    my ($self, $count, $seconds) = @_;
    my $deadline = time + $seconds;
    while (length $self->{buffer} < $count) {
        $self->fill($deadline) or return undef;
    }
    return substr $self->{buffer}, 0, $count, '';
}

# Takes all until the peer closes; undef if it does not in time.
sub read_to_eof {
    my ($self, $seconds) = @_;
    my $deadline = time + $seconds;
    1 while $self->fill($deadline);
    return undef if !$self->{is_eof};
    return substr $self->{buffer}, 0, length $self->{buffer}, '';
}

# Nothing arrives for so long: true. The one wait that has no event to end it.
sub is_quiet {
    my ($self, $seconds) = @_;
    return 0 if $self->{buffer} ne '';
    return !$self->fill(time + $seconds) && !$self->{is_eof};
}

# Sends all, within 10 s or the time given; false if the peer takes no more.
sub write {
    my ($self, $bytes, $seconds) = @_;
    local $SIG{PIPE} = 'IGNORE';
    my $deadline = time + ($seconds // 10);
    while ($bytes ne '') {
        my $sent = syswrite $self->{socket}, $bytes;
        if ($sent) { substr($bytes, 0, $sent) = ''; next }
        return 0 if !$!{EAGAIN} || time >= $deadline;
        IO::Select->new($self->{socket})->can_write($deadline - time);
    }
    return 1;
}

sub shutdown_write { shutdown $_[0]{socket}, 1 }
sub close { CORE::close($_[0]{socket}) }
# The peer gets a RST.
sub reset {
    my ($self) = @_;
    setsockopt $self->{socket}, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0);
    CORE::close($self->{socket});
}

# headers: [name, value, …]; body; version (1.1). Content-Length is added to a body.
sub send_request {
    my ($self, $method, $path, %with) = @_;
    my @headers = @{$with{headers} || []};
    my %has = map { lc $headers[$_] => 1 } grep { $_ % 2 == 0 } 0 .. $#headers;
    unshift @headers, 'Host', 'localhost' if !$has{host};
    push @headers, 'Content-Length', length $with{body}
        if defined $with{body} && !$has{'content-length'} && !$has{'transfer-encoding'};
    my $head = "$method $path HTTP/" . ($with{version} // '1.1') . "\r\n";
    while (my ($name, $value) = splice @headers, 0, 2) { $head .= "$name: $value\r\n" }
    return $self->write("$head\r\n" . ($with{body} // ''), $with{timeout});
}

# {status, headers, raw}, or undef. headers: {lower-case name => "all values, joined"}.
sub read_head {
    my ($self, $seconds) = @_;
    my $raw = $self->read_until(qr/\r\n\r\n/, $seconds) // return undef;
    my ($status_line, @lines) = split /\r\n/, $raw;
    my %headers;
    for my $line (@lines) {
        my ($name, $value) = split /:[ \t]*/, $line, 2;
        $name = lc $name;
        $headers{$name} = defined $headers{$name} ? "$headers{$name}, $value" : $value;
    }
    my ($status) = $status_line =~ m{^HTTP/1\.\d (\d{3})} or die "not HTTP: $status_line";
    return {status => $status, headers => \%headers, raw => $raw};
}

# A whole response, with {body}. Dies with the reason if it is cut short or late.
sub read_response {
    my ($self, $seconds, $method) = @_;
    my $response = $self->read_head($seconds) or die 'no response' . ($self->{is_eof} ? ': closed' : ' in time');
    $response->{body} = '';
    return $response if ($method // '') eq 'HEAD' || $response->{status} =~ /^(?:1..|204|304)$/;
    my $length = $response->{headers}{'content-length'};
    my $body = ($response->{headers}{'transfer-encoding'} // '') eq 'chunked' ? $self->read_chunks($seconds)
             : defined $length ? $self->read_bytes($length, $seconds)
             :                   $self->read_to_eof($seconds);
    $response->{body} = $body // die 'response is cut short after its head';
    return $response;
}

sub read_chunks {
    my ($self, $seconds) = @_;
    my $body = '';
    while (1) {
        my $line = $self->read_until(qr/\r\n/, $seconds) // return undef;
        my ($size) = $line =~ /^([0-9a-f]+)\r\n$/i or die "bad chunk size: $line";
        my $bytes = $self->read_bytes(hex($size) + 2, $seconds) // return undef;
        die 'no line end after a chunk' if substr($bytes, -2, 2, '') ne "\r\n";
        return $body if $bytes eq '';
        $body .= $bytes;
    }
}

# Sends one request on this connection and reads its response; timeout (10 s) for each.
sub request {
    my ($self, $method, $path, %with) = @_;
    $self->send_request($method, $path, %with);
    return $self->read_response($with{timeout} // 10, $method);
}

# One request on a connection of its own: {status, headers, body, raw}.
sub http_request {
    my ($port, $method, $path, %with) = @_;
    my $client = DurableClient->connect(port => $port, tls => $with{tls});
    return $client->request($method, $path, %with, headers => ['Connection', 'close', @{$with{headers} || []}]);
}

# curl as a child: its exit status, which tells of failures, and its output.
sub curl {
    my @command = ('curl', '-s', '-k', '--noproxy', '*', '--max-time', 20, @_);
    open my $out, '-|', @command or die "curl: $!";
    my $text = do { local $/; <$out> };
    CORE::close($out);
    return ($? >> 8, $text);
}

1;
