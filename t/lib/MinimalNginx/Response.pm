# SPDX-License-Identifier: BSD-2-Clause
# Takes one HTTP/1.x response from the front of what a connection sent.
package MinimalNginx::Response;
use strict;
use warnings;

# Returns the response and what follows it; dies with a sentence if it is malformed.
sub parse {
    my ($raw, $is_head) = @_;
    my $self = bless {code => '', raw_headers => '', headers => [], content => ''}, __PACKAGE__;
    $raw =~ s/\A((?:[^\r\n]*\r\n)+?)\r\n//s or return ($self, $raw);
    $self->{raw_headers} = $1;
    my ($status_line, @lines) = split /\r\n/, $1;
    $self->{code} = $1 if $status_line =~ m{\AHTTP/\d\.\d (\d{3})\b};
    $self->{headers} = [map { [split /:[ \t]*/, $_, 2] } @lines];
    return ($self, $raw) if $self->{code} =~ /\A(?:101|304)\z/;

    my $length = $self->header('Content-Length');
    if (lc($self->header('Transfer-Encoding') // '') eq 'chunked') {
        ($self->{content}, $raw) = dechunk($raw);
    } elsif (defined $length && !$is_head) {
        die "body has " . length($raw) . " bytes of $length\n" if length $raw < $length;
        $self->{content} = substr $raw, 0, $length, '';
    } else {
        ($self->{content}, $raw) = ($raw, '');
    }
    return ($self, $raw);
}

# An HTTP/0.9 response is nothing but a body.
sub plain {
    my ($class, $content) = @_;
    return bless {code => 200, raw_headers => '', headers => [], content => $content}, $class;
}

sub dechunk {
    my ($raw) = @_;
    my $decoded = '';
    while ($raw =~ s/\A([0-9A-Fa-f]+)[ \t]*\r\n//) {
        my $size = hex $1;
        if ($size == 0) {
            $raw =~ s/\A\r\n// or last;
            return ($decoded, $raw);
        }
        die "a chunk of $size bytes is cut short\n" if length $raw < $size + 2;
        $decoded .= substr $raw, 0, $size, '';
        $raw =~ s/\A\r\n// or die "no line end after a chunk\n";
    }
    die $raw eq '' ? "no last chunk\n" : "invalid chunked body: " . substr($raw, 0, 80) . "\n";
}

# All values of a header joined with ", ", or undef.
sub header {
    my ($self, $name) = @_;
    my @values = map { $_->[1] } grep { lc $_->[0] eq lc $name } @{$self->{headers}};
    return @values ? join(', ', @values) : undef;
}

sub code { $_[0]{code} }
sub raw_headers { $_[0]{raw_headers} }
sub content { $_[0]{content} }

1;
