# SPDX-License-Identifier: BSD-2-Clause
# Events whose application is the test itself: a request passes nginx to an application that
# does nothing but hand its token over, and the test makes its host calls, at workers of its choice.
#
#     my $host = HostCalls->start(workers => 2);
#     my $event = $host->event(object => 'room', worker => $pid);
#     my $answer = $event->call(POST => 'channels/c/subscriptions');   # {status, json, body, headers}
#     my $wait = $event->begin(GET => "subscriptions/$handle/message?timeout=1000");
#     $wait->answer(5);                # undef if it does not come in time
#     $event->end;                     # the application answers, and the client has the answer
#     $host->call(GET => 'channels/c', object => 'room');              # without a token
#
# Objects are named by the test. `at` chooses the workers of calls: `same` as the event's, `other`
# than it (where there are several), `any` (round about).
package HostCalls;
use strict;
use warnings;
use DurableApp;
use DurableClient;
use DurableServer;
use JSON::PP ();
use Test::More ();

my $json = JSON::PP->new->utf8->allow_nonref->max_depth(2000);

# zone (its size and limits), http, server, location (of the application) and api (of the
# calls): more configuration. The rest as in DurableServer.
sub start {
    my ($class, %args) = @_;
    my $self = bless {at => $args{at} // 'any', next => 0, count => 0, idle => {}}, $class;
    $self->{app} = DurableApp->start(\&hand_over);
    my ($zone, $http, $location, $api, $server) = map { $_ // '' } delete @args{qw(zone http location api server)};
    $zone ||= '16m';
    my $port = $self->{app}->port;
    $self->{server} = DurableServer->start(
        %args,
        http => "durable_zone main $zone; proxy_http_version 1.1; $http",
        # A queue for each worker, or a busy machine would give all connections to one of them.
        server => <<"END",
            listen 127.0.0.1:{{port_each}} reuseport;
            location /app/ { durable_object main \$arg_object; $location proxy_pass http://127.0.0.1:$port; }
            location /durable/ { durable_api; $api }
            location /of/ { durable_object main \$http_object; durable_api; $api }
            location = /sub { durable_object main \$arg_object; durable_subscribe \$arg_channel; }
            location = /pub { durable_object main \$arg_object; durable_publish \$arg_channel; }
            $server
END
    );
    return $self;
}

# The application: notes the token, and answers when it is told how.
sub hand_over {
    my ($request, $connection) = @_;
    my ($name, $how) = $request->{path} =~ m{^/app/(\w+)(?:/(\w+))?};
    my $headers = $request->{headers};
    $connection->note(join ' ', $name, map { $headers->{$_} // '-' } qw(durable-event durable-event-kind durable-object));
    $connection->wait_for($name, 60);
    $connection->die_now if ($how // '') eq 'dies';
    $connection->respond(200, ['Content-Type', 'text/plain'], "answer of $name");
}

sub server { $_[0]{server} }
sub app { $_[0]{app} }
sub workers { my ($self) = @_; my @pids = $self->{server}->worker_pids; return @pids }

# A worker other than that one, if there is one, each in its turn.
sub choose_worker {
    my ($self, $at, $home) = @_;
    return $home if $at eq 'same' && defined $home;
    my @pids = $self->workers;
    my @others = grep { !defined $home || $_ != $home } @pids;
    @pids = @others if $at eq 'other' && @others;
    return $pids[$self->{next}++ % @pids];
}

# A kept-alive connection that no call uses now.
sub take_client {
    my ($self, $pid) = @_;
    my $client = pop @{$self->{idle}{$pid} //= []};
    return $client // $self->connect_to_worker($pid);
}

sub connect_to_worker {
    my ($self, $pid) = @_;
    return $self->{server}->connect_to_worker($pid, port => $self->{server}->port('each'));
}

# object, worker (its pid), how: 'dies' for an application that ends without an answer.
sub event {
    my ($self, %args) = @_;
    my $name = 'e' . ++$self->{count};
    my $pid = $args{worker} // $self->choose_worker('any');
    my $client = $self->connect_to_worker($pid);
    my $path = $args{path} // "/app/$name" . ($args{how} ? "/$args{how}" : '');
    $path =~ s/NAME/$name/;
    $client->send_request($args{method} // 'GET', "$path?object=" . ($args{object} // 'o'), headers => $args{headers} // []);
    my $event = bless {host => $self, name => $name, client => $client, worker => $pid, at => $args{at} // $self->{at}},
        'HostCalls::Event';
    $self->{app}->wait_note(qr/^$name /, 10) or die "the application did not get $name";
    my ($note) = grep { /^$name / } $self->{app}->notes;
    (undef, @{$event}{qw(token kind object)}) = split / /, $note;
    return $event;
}

# A call without a token, at /of/: object, worker, body, headers.
sub call { my ($self, @call) = @_; return $self->begin(@call)->answer(10) // die "no answer to @call[0, 1]" }
sub begin {
    my ($self, $method, $path, %with) = @_;
    my @object = defined $with{object} ? ('Object', $with{object}) : ();
    return HostCalls::Call->new($self, $with{worker} // $self->choose_worker('any'), $method,
                                ($with{prefix} // '/of/') . $path, %with, headers => [@object, @{$with{headers} // []}]);
}

package HostCalls::Event;

sub token { $_[0]{token} }
sub worker { $_[0]{worker} }
sub client { $_[0]{client} }

# worker, at, body, headers.
sub begin {
    my ($self, $method, $path, %with) = @_;
    my $pid = $with{worker} // $self->{host}->choose_worker($with{at} // $self->{at}, $self->{worker});
    return HostCalls::Call->new($self->{host}, $pid, $method, ($with{prefix} // '/durable/') . $path, %with,
                                headers => ['Durable-Event', $self->{token}, @{$with{headers} // []}]);
}

sub call { my ($self, @call) = @_; return $self->begin(@call)->answer(10) // die "no answer to @call[0, 1]" }

# ---- the calls by their names; each dies where the status is not the one of success ----

sub expect {
    my ($self, $status, @call) = @_;
    my $answer = $self->call(@call);
    die "@call[0, 1]: $answer->{status} $answer->{body}" if $answer->{status} != $status;
    return $answer->{json};
}

sub subscribe { my ($self, $channel, @with) = @_; $self->expect(201, POST => "channels/$channel/subscriptions", @with)->{subscription} }
sub publish { my ($self, $channel, $text, @with) = @_; $self->expect(200, POST => "channels/$channel/messages", body => $text, @with)->{delivered} }
sub close_channel { my ($self, $channel, $reason, @with) = @_; $self->expect(200, POST => "channels/$channel/close", body => $reason, @with)->{closed} }
sub count { my ($self, $channel, @with) = @_; $self->expect(200, GET => "channels/$channel", @with)->{subscriptions} }
sub cancel { my ($self, $handle, @with) = @_; $self->expect(204, DELETE => "subscriptions/$handle", @with); return 1 }
# [status, text, code]; the timeout in ms, 0 if not given.
sub wait_message {
    my ($self, $handle, $timeout, @with) = @_;
    return HostCalls::Call::outcome($self->call(GET => "subscriptions/$handle/message?timeout=" . ($timeout // 0), @with));
}
sub begin_wait { my ($self, $handle, $timeout, @with) = @_; return $self->begin(GET => "subscriptions/$handle/message?timeout=$timeout", @with) }

# The application answers; its client's response.
sub end {
    my ($self) = @_;
    $self->{host}{app}->allow($self->{name});
    return $self->{response} //= $self->{client}->read_response(10);
}
# The client leaves instead.
sub leave { my ($self) = @_; $self->{client}->reset }

package HostCalls::Call;

sub new {
    my ($class, $host, $pid, $method, $path, %with) = @_;
    my $client = $host->take_client($pid);
    $client->send_request($method, $path, %with);
    return bless {host => $host, pid => $pid, client => $client, method => $method}, $class;
}

sub client { $_[0]{client} }

# The answer, undef if it does not come in time.
sub answer {
    my ($self, $seconds) = @_;
    return $self->{answer} if $self->{answer};
    return undef if $self->{client}->buffer eq '' && !$self->{client}->fill(Time::HiRes::time() + $seconds);
    my $answer = $self->{client}->read_response(10, $self->{method});
    $answer->{json} = $json->decode($answer->{body}) if $answer->{body} ne '';
    push @{$self->{host}{idle}{$self->{pid}}}, $self->{client}
        if ($answer->{headers}{connection} // '') ne 'close';
    return $self->{answer} = $answer;
}

# A wait's answer as [status, text] or [2, reason, code].
sub outcome {
    my ($answer) = @_;
    die 'no answer' if !$answer;
    my $json = $answer->{json} // {};
    return ["$answer->{status} " . ($json->{code} // '')] if $answer->{status} != 200;
    utf8::encode(my $text = $json->{text});
    return [$json->{status}, $text, exists $json->{code} ? $json->{code} : ()];
}
sub message { my ($self, $seconds) = @_; return outcome($self->answer($seconds // 10)) }
sub is_waiting { my ($self, $seconds) = @_; return !defined $self->answer($seconds // 0.03) }
# Its client leaves.
sub drop { my ($self) = @_; $self->{client}->close; $self->{answer} = {} }

1;
