# SPDX-License-Identifier: BSD-2-Clause
# StreamApp's stories behind fastcgi_pass, uwsgi_pass and scgi_pass: StreamGateway::Fastcgi,
# StreamGateway::Uwsgi and StreamGateway::Scgi. One request on a connection.
#
#     my $app = StreamGateway::Scgi->start(story => sub { … });
#     location /scgi/ { durable_object main x; $StreamGateway::SCGI_PARAMS scgi_pass 127.0.0.1:PORT; }
package StreamGateway;
use strict;
use warnings;
use StreamApp;

# The path begins with /app/ whatever the location's is.
sub params {
    my ($kind) = @_;
    return join ' ', map { "${kind}_param $_;" } 'REQUEST_METHOD $request_method', 'REQUEST_URI /app$uri?$args',
        'CONTENT_LENGTH $content_length', 'HTTP_X_WORKER $pid', 'HTTP_X_PORT {{port}}', $kind eq 'scgi' ? 'SCGI 1' : ();
}

package StreamGateway::Connection;
our @ISA = ('DurableApp::Connection');

# The variables as DurableApp's request.
sub request_of {
    my ($self, $variables, $body) = @_;
    my %headers = map { (lc(substr $_, 5) =~ tr/_/-/r => $variables->{$_}) } grep { /^HTTP_/ } keys %$variables;
    my ($path) = $variables->{REQUEST_URI} =~ m{^/app/\w+(/.*)};
    return {method => $variables->{REQUEST_METHOD}, path => "/app$path", headers => \%headers, body => $body};
}

sub read_bytes { $_[0]{peer}->read_bytes($_[1], 60) }

sub respond {
    my ($self, $status, $headers, $body) = @_;
    my @headers = @{$headers || []};
    my $head = $self->status_line($status) . "Content-Type: text/plain\r\n";
    while (my ($name, $value) = splice @headers, 0, 2) { $head .= "$name: $value\r\n" }
    return $self->write("$head\r\n" . ($body // ''));
}

sub status_line { "Status: $_[1] Status\r\n" }

package StreamGateway::Scgi::Connection;
our @ISA = ('StreamGateway::Connection');

sub read_request {
    my ($self) = @_;
    my ($size) = ($self->{peer}->read_until(qr/:/, 60) // return undef) =~ /(\d+)/;
    my %variables = $self->read_bytes($size + 1) =~ /([^\0]*)\0([^\0]*)\0/g;
    return $self->request_of(\%variables, $self->read_bytes($variables{CONTENT_LENGTH} || 0));
}

package StreamGateway::Uwsgi::Connection;
our @ISA = ('StreamGateway::Connection');

sub status_line { "HTTP/1.1 $_[1] Status\r\n" }

sub read_request {
    my ($self) = @_;
    my (undef, $size) = unpack 'CvC', $self->read_bytes(4) // return undef;
    my %variables = unpack '(v/a v/a)*', $self->read_bytes($size);
    return $self->request_of(\%variables, $self->read_bytes($variables{CONTENT_LENGTH} || 0));
}

package StreamGateway::Fastcgi::Connection;
our @ISA = ('StreamGateway::Connection');

# (type, content) of the next record.
sub read_record {
    my ($self) = @_;
    my (undef, $type, undef, $size, $padding) = unpack 'CCnnC', $self->read_bytes(8) // return;
    my $content = $self->read_bytes($size);
    $self->read_bytes($padding);
    return ($type, $content);
}

sub read_request {
    my ($self) = @_;
    my ($params, $body) = ('', '');
    while (1) {
        my ($type, $content) = $self->read_record or return undef;
        $params .= $content if $type == 4;
        $body .= $content if $type == 5;
        last if $type == 5 && $content eq '';
    }
    my %variables;
    while ($params ne '') {
        my @sizes = map {
            my $size = unpack 'C', $params;
            my $is_long = $size & 128;
            $size = unpack('N', $params) & 0x7fffffff if $is_long;
            substr $params, 0, $is_long ? 4 : 1, '';
            $size;
        } 1 .. 2;
        my $name = substr $params, 0, $sizes[0], '';
        $variables{$name} = substr $params, 0, $sizes[1], '';
    }
    return $self->request_of(\%variables, $body);
}

# FCGI_STDOUT, FCGI_END_REQUEST
sub respond {
    my ($self, @answer) = @_;
    $self->SUPER::respond(@answer);
    return $self->{peer}->write(pack('CCnnCC', 1, 6, 1, 0, 0, 0) . pack('CCnnCC', 1, 3, 1, 8, 0, 0) . "\0" x 8);
}

sub write {
    my ($self, $bytes) = @_;
    return $self->{peer}->write(join '', map { pack('CCnnCC', 1, 6, 1, length, 0, 0) . $_ } $bytes =~ /.{1,32768}/gs);
}

package StreamGateway::Scgi;
our @ISA = ('StreamApp');
sub connection_class { 'StreamGateway::Scgi::Connection' }

package StreamGateway::Uwsgi;
our @ISA = ('StreamApp');
sub connection_class { 'StreamGateway::Uwsgi::Connection' }

package StreamGateway::Fastcgi;
our @ISA = ('StreamApp');
sub connection_class { 'StreamGateway::Fastcgi::Connection' }

1;
