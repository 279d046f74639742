# SPDX-License-Identifier: BSD-2-Clause
# HostCalls with a handler for exclusive sections: what a section does stands in its params, so
# that a test writes it down where it asks for the section.
#
#     my $host = Sections->start(workers => 2, timeout => '2s');
#     my $event = $host->event(object => 'o');
#     my $call = $event->begin(POST => 'exclusive/op', body => steps([note => 'in'], [wait => 'go'], [answer => 200, '1']));
#     $host->sections->wait_note(qr/^in/, 5);
#     $host->sections->allow('go');
#     $call->answer(5);                              # {status, json, body}
#     my $held = hold($host, $event, 'name'); … release($host, $held, 'name');
#
# Steps: note TEXT; wait NAME (until the test allows it); sleep SECONDS; add KEY (reads a number,
# waits 30 ms, writes it plus one and answers it); call METHOD PATH BODY (a host call of the section,
# noted as "STATUS BODY"); visit PATH (a request to the server with the section's token; noted too);
# stray PATH (one without); give RESULT (POST section/result, noted); seen (notes headers and body);
# give_large and answer_large BYTES (a string of
# that many); echo; size (answers how many bytes came); answer STATUS BODY HEADERS; raw BYTES; close; silence.
package Sections;
use strict;
use warnings;
use DurableApp;
use DurableClient qw(http_request);
use Exporter 'import';
use File::Temp qw(tempdir);
use HostCalls;
use JSON::PP ();
use Time::HiRes qw(sleep time);

our @ISA = ('HostCalls');
our @EXPORT_OK = qw(steps refusal hold release request);

my $json = JSON::PP->new->utf8->allow_nonref->canonical;

sub steps { return $json->encode([@_]) }
sub refusal { my ($answer) = @_; return "$answer->{status} " . (ref $answer->{json} ? $answer->{json}{code} // '' : $answer->{body}) }

# A section that runs until the test releases it; returns once it runs. More steps come after that.
sub hold {
    my ($host, $event, $name, @more) = @_;
    my $call = $event->begin(POST => "exclusive/$name", body => steps([note => "$name in"], [wait => $name], @more, [answer => 200, "\"$name\""]));
    $host->sections->wait_note(qr/^$name in/, 5) or die "section $name did not start";
    return $call;
}
sub release { my ($host, $call, $name) = @_; $host->sections->allow($name); return $call->answer(5)->{body} }

# A request at this worker, whose answer is not awaited: its client.
sub request {
    my ($host, $worker, $path, %with) = @_;
    my $client = $host->server->connect_to_worker($worker);
    $client->send_request($with{method} // 'GET', $path, %with);
    return $client;
}

# timeout: durable_exclusive_timeout; handler: more directives of its location, which then has no
# `internal`; {{sections}} in http and server: the handler's address. The rest as in HostCalls.
sub start {
    my ($class, %args) = @_;
    my $folder = tempdir('durable-counter-XXXXXX', TMPDIR => 1, CLEANUP => 1);
    my $sections = DurableApp->start(sub { run($folder, @_) });
    my $port = $sections->port;
    my ($timeout, $handler, $server, $location) = map { $_ // '' } delete @args{qw(timeout handler server location)};
    $_ = ($_ // '') =~ s/\{\{sections\}\}/127.0.0.1:$port/gr for $server, $args{http};
    my $rules = 'durable_exclusive_handler /section;' . ($timeout && "durable_exclusive_timeout $timeout;");
    my $self = HostCalls::start(
        $class, %args, location => "$rules $location",
        server => "location = /section { internal; proxy_set_header X-Port {{port}}; $handler proxy_pass http://127.0.0.1:$port; }\n"
            . "location /as_section { proxy_set_header X-Port {{port}}; proxy_pass http://127.0.0.1:$port; }\n"
            . $server);
    @{$self}{qw(sections folder)} = ($sections, $folder);
    return $self;
}

sub sections { $_[0]{sections} }

# The counter's number.
sub number {
    my ($self, $key) = @_;
    return (NginxProcess::slurp("$self->{folder}/$key") // 0) + 0;
}
sub clear { my ($self, $key) = @_; unlink "$self->{folder}/$key" }

# Reads, waits, writes; the new number.
sub add {
    my ($folder, $key, $pause) = @_;
    my $n = (NginxProcess::slurp("$folder/$key") // 0) + 1;
    sleep $pause // 0.03;
    open my $out, '>', "$folder/$key.$$" or die $!;
    print $out $n;
    CORE::close($out);
    rename "$folder/$key.$$", "$folder/$key" or die $!;
    return $n;
}

# What operations of these names do, whatever their params.
my %large = (
    large_echo => [['echo']],
    large_size => [['size']],
    large_calls => [[call => 'GET', 'section'], [give_large => 8388606], [answer => 200, '1']],
);

# The handler.
sub run {
    my ($folder, $request, $connection) = @_;
    my $headers = $request->{headers};
    my @token = ('Durable-Event', $headers->{'durable-event'} // '-');
    my $port = $headers->{'x-port'};
    my $tell = sub { my ($answer) = @_; $connection->note("$answer->{status} " . substr $answer->{body}, 0, 4000) };
    # Large params are not read for steps.
    my $todo = $large{$headers->{'durable-operation'} // ''} // eval { $json->decode($request->{body}) };
    for my $step (ref $todo eq 'ARRAY' ? @$todo : (['echo'])) {
        my ($what, @with) = ref $step ? @$step : 'echo';
        if ($what eq 'note') { $connection->note($with[0]) }
        elsif ($what eq 'wait') { $connection->wait_for($with[0], 60) }
        elsif ($what eq 'sleep') { sleep $with[0] }
        elsif ($what eq 'add') {
            my $start = time;
            my $n = add($folder, @with);
            $connection->note(sprintf 'ran %.6f %.6f', $start, time);
            return $connection->respond(200, undef, $n);
        }
        elsif ($what eq 'call') { $tell->(http_request($port, $with[0], "/durable/$with[1]", body => $with[2], headers => [@token])) }
        elsif ($what eq 'give_large') { $tell->(http_request($port, 'POST', '/durable/section/result', body => '"' . 'x' x $with[0] . '"', headers => [@token])) }
        elsif ($what eq 'answer_large') { return $connection->respond(200, undef, '"' . 'x' x $with[0] . '"') }
        elsif ($what eq 'give') { $tell->(http_request($port, 'POST', '/durable/section/result', body => $with[0], headers => [@token])) }
        elsif ($what eq 'visit') { $tell->(http_request($port, $with[1] // 'GET', $with[0], body => $with[2], headers => [@token], timeout => 40)) }
        elsif ($what eq 'stray') { $tell->(http_request($port, 'GET', $with[0], timeout => 40)) }
        elsif ($what eq 'seen') { $connection->note(join ' ', 'seen', $request->{method}, map({ "$_=" . ($headers->{$_} // '-') } @with), $request->{body}) }
        elsif ($what eq 'echo') { return $connection->respond(200, undef, $request->{body}) }
        elsif ($what eq 'size') { return $connection->respond(200, undef, length $request->{body}) }
        elsif ($what eq 'answer') { return $connection->respond($with[0], $with[2], $with[1]) }
        elsif ($what eq 'raw') { $connection->write($with[0]) }
        elsif ($what eq 'close') { $connection->die_now }
        elsif ($what eq 'silence') { $connection->note('closed') if $connection->wait_closed(60); return }
        else { die "no step $what" }
    }
    return $connection->respond(200, undef, 'null');
}

1;
