# SPDX-License-Identifier: BSD-2-Clause
# HTTP/2 (RFC 9113) frame by frame, for what curl cannot do: reset one stream of several,
# stop reading one, see exactly how a stream ends. Knows just as much HPACK (RFC 7541) as
# is needed to send headers and to read a status.
#
#     my $h2 = Http2Client->connect(port => $port);           # or tls => 1
#     my $id = $h2->request(path => '/sub?channel=a');
#     $h2->wait_data($id, qr/hello/, 5);
#     $h2->status($id); $h2->is_ended($id); $h2->reset_code($id); $h2->rst($id);
package Http2Client;
use strict;
use warnings;
use DurableClient;
use Time::HiRes qw(time);

my %frame = (DATA => 0, HEADERS => 1, RST_STREAM => 3, SETTINGS => 4, PING => 6, GOAWAY => 7, WINDOW_UPDATE => 8);

# window: initial bytes that each stream may send (65535); grows: give read bytes back (1).
sub connect {
    my ($class, %how) = @_;
    my $client = DurableClient->connect(%how, $how{tls} ? (alpn => ['h2']) : ());
    my $self = bless {client => $client, next_id => 1, streams => {}, grows => $how{grows} // 1}, $class;
    $client->write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    # SETTINGS_INITIAL_WINDOW_SIZE, and no table of headers to keep.
    $self->send_frame('SETTINGS', 0, 0, pack('nNnN', 4, $how{window} // 65535, 1, 0));
    return $self;
}

sub client { $_[0]{client} }

sub send_frame {
    my ($self, $type, $flags, $id, $payload) = @_;
    my $length = substr pack('N', length $payload), 1;
    return $self->{client}->write($length . pack('CCN', $frame{$type}, $flags, $id) . $payload);
}

sub literal {
    my ($name, $value) = @_;
    return "\0" . join '', map { integer(7, length) . $_ } $name, $value;
}

sub integer {
    my ($bits, $value) = @_;
    my $limit = (1 << $bits) - 1;
    return pack 'C', $value if $value < $limit;
    my $bytes = pack 'C', $limit;
    for ($value -= $limit; $value >= 128; $value >>= 7) { $bytes .= pack 'C', $value & 127 | 128 }
    return $bytes . pack 'C', $value;
}

# method, path, headers [name, value, …], body. Returns the stream's id.
sub request {
    my ($self, %with) = @_;
    my $id = $self->{next_id};
    $self->{next_id} += 2;
    $self->{streams}{$id} = {data => '', head => '', is_ended => 0};
    my @headers = (':method', $with{method} // 'GET', ':scheme', 'http', ':path', $with{path} // '/',
                   ':authority', 'localhost', @{$with{headers} || []});
    my $block = '';
    while (my ($name, $value) = splice @headers, 0, 2) { $block .= literal(lc $name, $value) }
    my $has_body = defined $with{body} && $with{body} ne '';
    $self->send_frame('HEADERS', 4 | ($has_body ? 0 : 1), $id, $block);
    my @parts = $has_body ? $with{body} =~ /.{1,16384}/gs : ();
    $self->send_frame('DATA', $_ == $#parts ? 1 : 0, $id, $parts[$_]) for 0 .. $#parts;
    return $id;
}

# Ends a stream from our side, by default with CANCEL.
sub rst {
    my ($self, $id, $code) = @_;
    return $self->send_frame('RST_STREAM', 0, $id, pack 'N', $code // 8);
}

# Gives a stream, or the connection (0), room for more bytes.
sub give_window {
    my ($self, $id, $bytes) = @_;
    return $self->send_frame('WINDOW_UPDATE', 0, $id, pack 'N', $bytes);
}

# Takes one frame; false if none comes in time.
sub take_frame {
    my ($self, $deadline) = @_;
    my $client = $self->{client};
    while (1) {
        last if length $client->{buffer} >= 9
            && length $client->{buffer} >= 9 + unpack('N', "\0" . substr $client->{buffer}, 0, 3);
        $client->fill($deadline) or return 0;
    }
    my ($high, $low, $type, $flags, $id) = unpack 'CnCCN', substr $client->{buffer}, 0, 9, '';
    $self->on_frame($type, $flags, $id & 0x7fffffff, substr $client->{buffer}, 0, $high << 16 | $low, '');
    return 1;
}

sub on_frame {
    my ($self, $type, $flags, $id, $payload) = @_;
    my $stream = $self->{streams}{$id} // {};
    if ($type == $frame{DATA}) {
        $stream->{data} .= $payload;
        $stream->{is_ended} = 1 if $flags & 1;
        if ($self->{grows} && $payload ne '') {
            $self->give_window($_, length $payload) for 0, $flags & 1 ? () : $id;
        }
    } elsif ($type == $frame{HEADERS}) {
        $stream->{head} .= $payload;
        $stream->{is_ended} = 1 if $flags & 1;
    } elsif ($type == $frame{RST_STREAM}) {
        $stream->{reset_code} = unpack 'N', $payload;
    } elsif ($type == $frame{SETTINGS} && !($flags & 1)) {
        $self->send_frame('SETTINGS', 1, 0, '');
    } elsif ($type == $frame{PING} && !($flags & 1)) {
        $self->send_frame('PING', 1, 0, $payload);
    } elsif ($type == $frame{GOAWAY}) {
        $self->{goaway_code} = unpack 'x4N', $payload;
    }
}

# Reads frames until the condition holds; its last answer.
sub wait_for {
    my ($self, $condition, $seconds) = @_;
    my $deadline = time + $seconds;
    while (!$condition->()) {
        $self->take_frame($deadline) or return $condition->();
    }
    return 1;
}

# True once the stream's data matches; a number instead of a pattern is so many bytes.
sub wait_data {
    my ($self, $id, $wanted, $seconds) = @_;
    my $stream = $self->{streams}{$id};
    return $self->wait_for(
        sub { ref $wanted ? $stream->{data} =~ $wanted : length $stream->{data} >= $wanted }, $seconds);
}

# True once the stream is over, whichever way.
sub wait_end {
    my ($self, $id, $seconds) = @_;
    return $self->wait_for(sub { $self->is_ended($id) || defined $self->reset_code($id) }, $seconds);
}

sub wait_head {
    my ($self, $id, $seconds) = @_;
    return $self->wait_for(sub { $self->{streams}{$id}{head} ne '' }, $seconds);
}

sub data { $_[0]{streams}{$_[1]}{data} }
sub is_ended { $_[0]{streams}{$_[1]}{is_ended} }
sub reset_code { $_[0]{streams}{$_[1]}{reset_code} }
sub goaway_code { $_[0]{goaway_code} }

# Undef before the head. The status comes first in it: an entry of the static table, or a literal with its name from there.
sub status {
    my ($self, $id) = @_;
    my $head = $self->{streams}{$id}{head};
    return undef if $head eq '';
    $head =~ s/\A[\x20-\x3f]//;    # the table's size has changed
    my $first = ord $head;
    my @indexed = (200, 204, 206, 304, 400, 404, 500);
    return $indexed[($first & 127) - 8] if $first >= 0x88 && $first <= 0x8e;
    my $length = ord substr $head, 1, 1;
    my $text = substr $head, 2, $length & 127;
    return $length & 128 ? huffman_digits($text) : $text;
}

# 0, 1 and 2 have 5 bits, 3 to 9 have 6; a status is all that is read.
sub huffman_digits {
    my ($bytes) = @_;
    my $bits = unpack 'B*', $bytes;
    my $digits = '';
    while (length $digits < 3) {
        if ($bits =~ s/\A000(00|01|10)//) { $digits .= oct "0b$1" }
        elsif ($bits =~ s/\A(0110(?:01|10|11)|0111[01]{2})//) { $digits .= oct("0b$1") - 22 }
        else { return undef }
    }
    return $digits;
}

1;
