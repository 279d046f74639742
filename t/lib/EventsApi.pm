# SPDX-License-Identifier: BSD-2-Clause
# The events API as its callers see it: an nginx with a store, callers by headers, and an
# application that receives webhooks.
#
#     my $api = EventsApi->start(workers => 2);
#     my $alice = $api->caller('alice', 'notes');            # an account, and an app or none
#     my $row = $alice->subscribe(subject => 'topic:a');      # dies unless it is 200
#     $alice->call(POST => 'unsubscribe', {subId => $row->{subId}});   # {status, json, body, headers}
#     my $stream = $alice->stream('topic:a');                 # SseClient; no subject: persistent rows
#     $api->publish(subject => 'topic:a', data => 1);         # the answer's JSON
#     $api->operator('events/suspend', {…});
#     $api->hooks;                                            # webhook calls so far, in order
#
# Webhooks go to handlers h0 to h3, at /hook/h0 …; what they answer is decided by `answer` of the
# constructor or by $api->hook_status(h0 => 503).
package EventsApi;
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use DurableApp;
use DurableClient qw(http_request);
use DurableServer;
use File::Temp qw(tempdir);
use JSON::PP ();
use MIME::Base64 qw(decode_base64 encode_base64);
use NginxProcess;
use SseClient;
use Time::HiRes ();

our $secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
my $json = JSON::PP->new->utf8->allow_nonref->canonical;
sub json { $json }

# workers; http, server: more configuration; events, store: parameters of durable_events and
# durable_store; handlers: a text in place of the default ones; path of the store; identity: the account.
sub start {
    my ($class, %args) = @_;
    my $self = bless {folder => tempdir('durable-hooks-XXXXXX', TMPDIR => 1, CLEANUP => 1)}, $class;
    my $folder = $self->{folder};
    $self->{app} = DurableApp->start(sub { receive($folder, @_) });
    $self->{args} = {http => '', server => '', events => '', store => '', handlers => undef, %args};
    $self->{server} = DurableServer->start(%args, $self->texts);
    return $self;
}

sub texts {
    my ($self, %changes) = @_;
    my %args = %{$self->{args} = {%{$self->{args}}, %changes}};
    my $port = $self->{app}->port;
    my $handlers = $args{handlers} // join ' ', map { "durable_handler h$_ http://127.0.0.1:$port/hook/h$_ secret=$secret timeout=5s;" } 0 .. 3;
    my $path = $args{path} // '{{prefix}}/store.db';
    my $identity = $args{identity} // '$http_account';
    return (
        http => "durable_zone main 2m; durable_store $path $args{store}; $handlers $args{http}",
        server => <<"END",
            location /events/ { durable_events $args{events}; durable_identity $identity \$http_app; }
            location /durable/ { durable_api; }
            $args{server}
END
    );
}

sub reload { my ($self, %changes) = @_; return $self->{server}->reload($self->texts(%changes)) }
sub server { $_[0]{server} }
sub port { $_[0]{server}->port }
sub app { $_[0]{app} }
sub path { "$_[0]{server}{prefix}/store.db" }
sub hook_url { my ($self, $name) = @_; return 'http://127.0.0.1:' . $self->{app}->port . "/hook/$name" }

# ---- webhooks ----

# Each call is one file, so that its order and its bytes are kept.
sub receive {
    my ($folder, $request, $connection) = @_;
    my ($name) = $request->{path} =~ m{^/hook/(\w+)};
    my $record = $json->encode({name => $name, at => Time::HiRes::time(), headers => $request->{headers},
                                method => $request->{method}, body => MIME::Base64::encode_base64($request->{body}, '')});
    open my $out, '>>', "$folder/calls" or die $!;
    syswrite $out, "$record\n";
    close $out;
    my $how = NginxProcess::slurp("$folder/status-$name") // '200';
    my ($status, @headers) = split / /, $how;
    if ($status eq 'hang') { $connection->wait_closed(60); return }
    $connection->die_now if $status eq 'die';
    $connection->respond($status, [map { /^(.*?)=(.*)/ ? ($1, $2) : () } @headers], 'done');
}

# A status, `hang` or `die`; further words are headers, Name=value.
sub hook_status {
    my ($self, $name, $status) = @_;
    open my $out, '>', "$self->{folder}/status-$name.new" or die $!;
    print $out $status;
    close $out;
    rename "$self->{folder}/status-$name.new", "$self->{folder}/status-$name" or die $!;
}

# {name, at, headers, text, json} of each call, of one handler or all.
sub hooks {
    my ($self, $name) = @_;
    my @calls = map { $json->decode($_) } split /\n/, NginxProcess::slurp("$self->{folder}/calls") // '';
    @calls = grep { $_->{name} eq $name } @calls if defined $name;
    for (@calls) { $_->{text} = decode_base64($_->{body}); $_->{json} = $json->decode($_->{text}) }
    return @calls;
}

# Waits for so many; what there is then.
sub wait_hooks {
    my ($self, $name, $count, $seconds) = @_;
    NginxProcess::wait_until($seconds // 10, sub { $self->hooks($name) >= $count });
    return $self->hooks($name);
}

# ---- calls ----

sub caller { my ($self, $account, $app) = @_; return bless {api => $self, account => $account, app => $app}, 'EventsApi::Caller' }

sub answer {
    my ($response) = @_;
    $response->{json} = eval { $json->decode($response->{body}) };
    return $response;
}

# Below /durable/; the body may be data or a text.
sub operator {
    my ($self, $path, $body, %with) = @_;
    return answer(http_request($self->port, 'POST', "/durable/$path", body => ref $body ? $json->encode($body) : $body, %with));
}

sub publish {
    my ($self, %event) = @_;
    my $answer = $self->operator('events', \%event);
    die "publish: $answer->{status} $answer->{body}" if $answer->{status} != 200;
    return $answer->{json};
}

# What the store file says, without a lock on it.
sub query {
    my ($self, $sql) = @_;
    my $text = `sqlite3 -readonly '@{[$self->path]}' "$sql" 2>&1`;
    chomp $text;
    return $text;
}

package EventsApi::Caller;

sub headers {
    my ($self) = @_;
    return ['Account', $self->{account}, defined $self->{app} ? ('App', $self->{app}) : ()];
}

# The body may be data or a text; client: a connection to use.
sub call {
    my ($self, $method, $path, $body, %with) = @_;
    my @body = defined $body ? (body => ref $body ? $json->encode($body) : $body) : ();
    my @with = (headers => [@{$self->headers}, @{$with{headers} // []}], @body, timeout => $with{timeout} // 20);
    return EventsApi::answer($with{client} ? $with{client}->request($method, "/events/$path", @with)
                                           : DurableClient::http_request($self->{api}->port, $method, "/events/$path", @with));
}

sub subscribe {
    my ($self, %wanted) = @_;
    my $answer = $self->call(POST => 'subscribe', \%wanted);
    die "subscribe: $answer->{status} $answer->{body}" if $answer->{status} != 200;
    return $answer->{json};
}

sub list { my ($self, $query) = @_; return $self->call(GET => 'subscriptions' . (defined $query ? "?$query" : ''))->{json} }
sub rows { my ($self) = @_; return @{$self->list('limit=200')->{items}} }
sub row { my ($self, $row) = @_; my ($found) = grep { $_->{subId} eq $row->{subId} } $self->rows; return $found }

# Why a row is suspended; '' where it is not. Read from the store, since lists have a budget.
sub suspension { my ($self, $row) = @_; return $self->{api}->query("SELECT suspended_reason FROM subscriptions WHERE sub_id = '$row->{subId}'") }
sub wait_suspension {
    my ($self, $row, $reason, $seconds) = @_;
    return NginxProcess::wait_until($seconds // 10, sub { Time::HiRes::sleep(0.05); $self->suspension($row) eq $reason });
}

sub stream {
    my ($self, $subject, %with) = @_;
    my $query = defined $subject ? "?subject=$subject" : '';
    my @last = defined $with{last_id} ? ('Last-Event-ID', $with{last_id}) : ();
    return SseClient->open(port => $self->{api}->port, path => "/events/stream$query", %with, headers => [@{$self->headers}, @last]);
}

# The next delivery of a stream, as data with {seq}; undef if none comes in time.
sub delivery {
    my ($self, $stream, $seconds) = @_;
    my $event = $stream->next_event($seconds // 10) or return undef;
    my $data = $json->decode($event->{data});
    return {type => $event->{event}, id => $event->{id}, ref $data eq 'HASH' ? %$data : (data => $data)};
}

1;
