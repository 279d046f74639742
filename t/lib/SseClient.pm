# SPDX-License-Identifier: BSD-2-Clause
# Reads an event stream as the HTML standard says, and tells a stream that has ended from
# one that was cut off.
#
#     my $stream = SseClient->open(port => $port, path => '/sub?channel=a');
#     my $event = $stream->next_event(5);    # {event, data, id}, or undef
#     $stream->wait_end(5);                  # 'end', 'cut', or undef if it is still open
package SseClient;
use strict;
use warnings;
use DurableClient;
use Time::HiRes qw(time);

# path; method, headers, body, version as in DurableClient; client: a connection to use
# instead of a new one, for which the rest (port, unix, tls, rcvbuf) is meant.
# The head must come within `timeout` (10 s).
sub open {
    my ($class, %args) = @_;
    my $client = $args{client} || DurableClient->connect(%args);
    $client->send_request($args{method} // 'GET', $args{path}, %args);
    my $head = $client->read_head($args{timeout} // 10) or die "no head of a stream at $args{path}";
    my $self = bless {
        client => $client, %$head, text => '', events => [], comments => [], last_id => '', retry => undef,
        data => undef, type => '', is_chunked => ($head->{headers}{'transfer-encoding'} // '') eq 'chunked',
        length => $head->{headers}{'content-length'},
    }, $class;
    return $self;
}

sub client { $_[0]{client} }
sub status { $_[0]{status} }
sub header { $_[0]{headers}{lc $_[1]} }
# Comment lines so far, without their colon.
sub comments { @{$_[0]{comments}} }
sub retry { $_[0]{retry} }
# undef while open; 'end' after the final chunk, the announced length or, where there is
# neither, the close; else 'cut'.
sub ending { $_[0]{ending} }

# The next event, waiting for it; undef if none comes in time or the stream is over.
sub next_event {
    my ($self, $seconds) = @_;
    my $deadline = time + $seconds;
    while (!@{$self->{events}}) {
        $self->advance($deadline) or return undef;
    }
    return shift @{$self->{events}};
}

# So many events' data; fewer if they do not come in time.
sub next_texts {
    my ($self, $count, $seconds) = @_;
    my $deadline = time + $seconds;
    my @texts;
    while (@texts < $count) {
        my $event = $self->next_event($deadline - time) or last;
        push @texts, $event->{data};
    }
    return @texts;
}

# True once there are so many comments.
sub wait_comments {
    my ($self, $count, $seconds) = @_;
    my $deadline = time + $seconds;
    while (@{$self->{comments}} < $count) {
        $self->advance($deadline) or return 0;
    }
    return 1;
}

# Waits for the end, keeping the events that come before it for next_event.
sub wait_end {
    my ($self, $seconds) = @_;
    my $deadline = time + $seconds;
    1 while !$self->{ending} && $self->advance($deadline);
    return $self->{ending};
}

# Takes what the connection has. False if there was nothing until the deadline, or at the end.
sub advance {
    my ($self, $deadline) = @_;
    return 0 if $self->{ending};
    return 1 if $self->take_body;
    return 0 if $self->{ending};
    return 1 if $self->{client}->fill($deadline) && ($self->take_body || 1);
    $self->{ending} = $self->{is_chunked} || defined $self->{length} ? 'cut' : 'end' if $self->{client}->is_eof;
    return 0;
}

# Moves body bytes from the connection's buffer to the parser. True if there were any.
sub take_body {
    my ($self) = @_;
    my $buffer = \$self->{client}{buffer};
    my $bytes = '';
    if ($self->{is_chunked}) {
        while ($$buffer =~ /\A([0-9a-fA-F]+)\r\n/ && length $$buffer >= $+[0] + hex($1) + 2) {
            my ($start, $size) = ($+[0], hex $1);
            $bytes .= substr $$buffer, $start, $size;
            die 'no line end after a chunk' if substr($$buffer, $start + $size, 2) ne "\r\n";
            substr($$buffer, 0, $start + $size + 2) = '';
            if ($size == 0) { $self->{ending} = 'end'; last }
        }
        die 'bad chunk size: ' . substr($$buffer, 0, 20) if $$buffer =~ /\A(?!\z|[0-9a-fA-F]+\r?\z|[0-9a-fA-F]+\r\n)/;
    } else {
        $bytes = substr $$buffer, 0, $self->{length} // length $$buffer, '';
        if (defined $self->{length}) {
            $self->{length} -= length $bytes;
            $self->{ending} = 'end' if $self->{length} == 0;
        }
    }
    return 0 if $bytes eq '';
    $self->parse($bytes);
    return 1;
}

# CR, LF and CRLF end a line; a CR at the end of what is there may be half a CRLF.
sub parse {
    my ($self, $bytes) = @_;
    $self->{text} .= $bytes;
    $self->{text} =~ s/\A\xEF\xBB\xBF// if !$self->{has_begun} && length $self->{text} >= 3;
    $self->{has_begun} = 1 if length $self->{text} >= 3;
    while ($self->{text} =~ s/\A([^\r\n]*)(?:\r\n|\n|\r(?=.))//s) {
        $self->take_line($1);
    }
}

sub take_line {
    my ($self, $line) = @_;
    return $self->dispatch if $line eq '';
    if ($line =~ s/^://) {
        push @{$self->{comments}}, $line;
        return;
    }
    my ($field, $value) = $line =~ /^([^:]*)(?:: ?(.*))?$/s;
    $value //= '';
    if ($field eq 'data') { $self->{data} = ($self->{data} // '') . "$value\n" }
    elsif ($field eq 'event') { $self->{type} = $value }
    elsif ($field eq 'id') { $self->{last_id} = $value if $value !~ /\0/ }
    elsif ($field eq 'retry') { $self->{retry} = $value if $value =~ /^[0-9]+$/ }
}

sub dispatch {
    my ($self) = @_;
    my ($data, $type) = @{$self}{qw(data type)};
    @{$self}{qw(data type)} = (undef, '');
    return if !defined $data;
    chop $data;
    push @{$self->{events}}, {event => $type eq '' ? 'message' : $type, data => $data, id => $self->{last_id}};
}

1;
