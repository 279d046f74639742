# SPDX-License-Identifier: BSD-2-Clause
# An application whose requests are stories about an event stream: a test names a story in the
# path, and the story makes host calls on behalf of the request it is serving.
#
#     my $app = StreamApp->start(
#         hello => sub {
#             my ($calls, $connection, $request) = @_;   # DurableApp's connection and request
#             $calls->start;                             # '201', or the refusal's code
#             $calls->write("data: 1\n\n");              # '0', '1', '2', or a code
#             $calls->disconnected; $calls->end; $calls->abort('reason');
#         },                                             # what it does not answer gets an empty 200
#     );
#     my $server = $app->server(workers => 2, location => 'proxy_buffering off;');
#     … GET /app/hello/same …
#     is($app->results('hello', 2), 'start 201, write 0');   # what it passed to $calls->note
#
# GET /app/hello/same makes the calls at the worker that serves the request, /app/hello/other at
# another one if there is any, /app/hello at whichever accepts them.
package StreamApp;
use strict;
use warnings;
use DurableApp;
use DurableClient;
use DurableServer;
use JSON::PP ();

our @ISA = ('DurableApp');

# For FastCGI and its like the names are the same, as HTTP_X_WORKER and HTTP_X_PORT.
our $TO_APP = 'proxy_http_version 1.1; proxy_set_header X-Worker $pid; proxy_set_header X-Port {{port}};';

sub start {
    my ($class, %stories) = @_;
    return $class->SUPER::start(sub {
        my ($request, $connection) = @_;
        my (undef, undef, $name, $where) = split m{[/?]}, $request->{path};
        my $story = $stories{$name} or return $connection->respond(404, undef, "no story $name");
        my $calls = StreamApp::Calls->new($request, $where);
        $calls->{note} = sub { $connection->note("$name: $_[0]") };
        my $is_answered = $story->($calls, $connection, $request);
        $connection->respond(200) if ($is_answered // '') ne 'answered';
    });
}

# A DurableServer with this application below /app/ and its host calls below /durable/. location:
# more directives for the former; server, http, workers and so on as in DurableServer.
sub server {
    my ($self, %with) = @_;
    my $location = delete $with{location} // '';
    my $port = $self->port;
    return DurableServer->start(
        workers => 2, %with,
        http => 'durable_zone main 8m; ' . ($with{http} // ''),
        server => "location /app/ { durable_object main \$host; $TO_APP $location proxy_pass http://127.0.0.1:$port; }\n"
            . 'location /durable/ { durable_api; } ' . ($with{server} // ''),
    );
}

# The next so many notes of a story, once they are there.
sub results {
    my ($self, $story, $count, $seconds) = @_;
    my $seen = $self->{seen}{$story} // 0;
    $self->wait_note(qr/^\Q$story\E: /, $seconds // 10, $seen + $count);
    my @all = grep { s/^\Q$story\E: // } $self->notes;
    my @new = splice @all, $seen, $count;
    $self->{seen}{$story} = $seen + @new;
    return join ', ', @new;
}

# Nothing that matches is noted by a story for so long, besides what has been taken already.
sub is_quiet {
    my ($self, $story, $pattern, $seconds) = @_;
    my $seen = $self->{seen}{$story} // 0;
    return !NginxProcess::wait_until($seconds, sub {
        my @all = grep { s/^\Q$story\E: // } $self->notes;
        return grep { $_ =~ $pattern } @all[$seen .. $#all];
    });
}

# Forgets the notes that a story has made so far.
sub forget { my ($self, $story) = @_; $self->{seen}{$story} = grep { /^\Q$story\E: / } $self->notes }

package StreamApp::Calls;

# where: 'same', 'other' or undef.
sub new {
    my ($class, $request, $where) = @_;
    my $headers = $request->{headers};
    my $self = bless {
        port => $headers->{'x-port'}, token => $headers->{'durable-event'}, worker => $headers->{'x-worker'},
        where => $where // '', prefix => '/durable',
    }, $class;
    return $self;
}

sub token { $_[0]{token} }
sub handle { $_[0]{handle} }
sub note { $_[0]{note}->($_[1]) }

# A connection to the worker that was asked for.
sub connection {
    my ($self) = @_;
    return $self->{connection} if $self->{connection} && !$self->{connection}->is_eof;
    for (1 .. 50) {
        my $client = DurableClient->connect(port => $self->{port});
        my $at = $self->{where} =~ /same|other/ ? $client->request('GET', '/_worker')->{body} : '';
        return $self->{connection} = $client
            if $self->{where} !~ /same|other/ || ($self->{where} eq 'same') == ($at eq $self->{worker});
    }
    return $self->{connection} = DurableClient->connect(port => $self->{port});    # there is no other
}

# Any call: (status, the answer as Perl data). token, headers, timeout may be given.
sub call {
    my ($self, $method, $path, %with) = @_;
    my $token = exists $with{token} ? $with{token} : $self->{token};
    my $response = $self->connection->request(
        $method, "$self->{prefix}/$path", body => $with{body} // ($method eq 'POST' ? '' : undef),
        timeout => $with{timeout} // 20,
        headers => [defined $token ? ('Durable-Event', $token) : (), @{$with{headers} || []}]);
    my $data = $response->{body} ne '' ? JSON::PP::decode_json($response->{body}) : {};
    return ($response->{status}, $data);
}

# status, headers [[name, value], …], or body: the JSON text itself.
sub start {
    my ($self, %head) = @_;
    my $body = $head{body} // (%head ? JSON::PP->new->utf8->canonical->encode(\%head) : '');
    my ($status, $data) = $self->call('POST', 'stream', body => $body);
    $self->{message} = $data->{message};
    $self->{handle} = $data->{stream} if $status == 201;
    return $data->{code} // $status;
}

# The message of the last refusal.
sub message { $_[0]{message} }

sub write {
    my ($self, $text, %with) = @_;
    my ($status, $data) = $self->call('POST', 'streams/' . ($with{handle} // $self->{handle}) . '/text', %with, body => $text);
    $self->{message} = $data->{message};
    return $data->{code} // $data->{result} // $status;
}

sub disconnected {
    my ($self, %with) = @_;
    my (undef, $data) = $self->call('GET', 'streams/' . ($with{handle} // $self->{handle}), %with);
    return $data->{code} // ($data->{disconnected} ? 'true' : 'false');
}

sub end {
    my ($self, %with) = @_;
    my ($status, $data) = $self->call('POST', 'streams/' . ($with{handle} // $self->{handle}) . '/end', %with);
    return $data->{code} // $status;
}

sub abort {
    my ($self, $reason, %with) = @_;
    my ($status, $data) = $self->call('POST', 'streams/' . ($with{handle} // $self->{handle}) . '/abort', %with, body => $reason // '');
    return $data->{code} // $status;
}

# Waits until the client's leaving is seen; false if it is not in time.
sub wait_disconnected {
    my ($self, $seconds) = @_;
    return NginxProcess::wait_until($seconds, sub { $self->disconnected eq 'true' });
}

1;
