# SPDX-License-Identifier: BSD-2-Clause
# Builds what goes onto the wire from a block's sections, byte for byte as Test::Nginx
# does, and sends it.
package MinimalNginx::Request;
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(sleep);

# One line of method, URL and version, the last two optional; then the body.
sub parse {
    my ($text) = @_;
    $text =~ s/\A(?:\s*\#[^\n]*\n|\s+)+//;
    my ($line, $body) = $text =~ /\A([^\n]*)(?:\n(.*))?\z/s;
    $line =~ s/\s+\z//;
    my ($method, $url, $version) = $line =~ /\A(\S+)(?: +(\S+))?(?: +(\S+))?\z/
        or die "request line is not METHOD [URL [VERSION]]: \"$line\"\n";
    return ($method, $url // '/', $version // 'HTTP/1.1', $body // '');
}

sub parse_more_headers {
    my ($text) = @_;
    my ($lines, $is_chunked) = ('', 0);
    for my $header (split /\n+/, $text) {
        next if $header =~ /^\s*\#/;
        my ($name, $value) = split /:\s*/, $header, 2;
        $value //= '';
        $is_chunked = 1 if lc $name eq 'transfer-encoding' && $value eq 'chunked';
        $lines .= "$name: $value\r\n";
    }
    return ($lines, $is_chunked);
}

sub build {
    my ($text, $more, $server_name, $connection) = @_;
    my ($method, $url, $version, $body) = parse($text);
    my ($more_lines, $is_chunked) = parse_more_headers($more);
    my $length = '';
    if (!$is_chunked && $body ne '' && $more_lines !~ /^Content-Length:/m) {
        $body =~ s/\A\s+|\s+\z//g;
        $length = 'Content-Length: ' . length($body) . "\r\n";
    }
    my $head = '';
    $head .= "Host: $server_name\r\n" if $more_lines !~ /^Host:/mi;
    $head .= "Connection: $connection\r\n" if $more_lines !~ /^Connection/mi;
    return "$method $url $version\r\n$head$more_lines$length\r\n$body";
}

sub at {
    my ($value, $i, $what) = @_;
    return $value if !ref $value;
    return $value->[$i] // die "--- $what has nothing for request $i\n";
}

# A list of exchanges: {packets => [bytes, …], answers => N}, each on its own connection.
sub exchanges {
    my ($block, $server_name, $expand) = @_;
    if (defined(my $raw = $block->raw_request)) {
        return {packets => [ref $raw ? @$raw : $raw], answers => 1};
    }
    my $more = $block->more_headers // '';
    if (my $list = $block->pipelined_requests) {
        die "--- pipelined_requests is an array\n" if ref $list ne 'ARRAY';
        my $bytes = join '', map {
            build($expand->($list->[$_]), at($more, $_, 'more_headers'), $server_name,
                  $_ == $#$list ? 'close' : 'keep-alive')
        } 0 .. $#$list;
        return {packets => [$bytes], answers => scalar @$list};
    }
    my $request = $block->request // die "no --- request\n";
    my @list = ref $request eq 'ARRAY' ? @$request : $request;
    die "--- request of packets is not supported, use --- raw_request\n" if grep { ref } @list;
    return map {
        {packets => [build($list[$_], at($more, $_, 'more_headers'), $server_name, 'close')],
         answers => 1}
    } 0 .. $#list;
}

# Sends the packets and reads until the server closes, or for `timeout` seconds without
# any progress. Returns the bytes read and whether that timeout has passed.
# shutdown: direction to close once all is sent; middle_delay: seconds between packets.
sub exchange {
    my ($port, $packets, %how) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp')
        or die "cannot connect to port $port: $!\n";
    setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1;
    $socket->blocking(0);
    local $SIG{PIPE} = 'IGNORE';
    my @unsent = @$packets;
    my $select = IO::Select->new($socket);
    my $answer = '';
    while (1) {
        my ($readable, $writable) = IO::Select->select($select, @unsent ? $select : undef, undef, $how{timeout})
            or return ($answer, 1);
        if (@$readable) {
            my $got = sysread $socket, $answer, 65536, length $answer;
            last if defined $got ? $got == 0 : !$!{EAGAIN};
        }
        if (@$writable) {
            my $sent = syswrite $socket, $unsent[0];
            # The server may answer and close before it has read all: its answer counts.
            if (!defined $sent) { @unsent = () if !$!{EAGAIN}; next }
            substr($unsent[0], 0, $sent) = '';
            next if $unsent[0] ne '';
            shift @unsent;
            if (!@unsent) { shutdown $socket, $how{shutdown} if defined $how{shutdown} }
            elsif ($how{middle_delay}) { sleep $how{middle_delay} }
        }
    }
    return ($answer, 0);
}

1;
