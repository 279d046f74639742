# SPDX-License-Identifier: BSD-2-Clause
# conf-examples/replay.conf with its application in Python and in Node: readers that come, go and
# come back while others write see every event once, in order.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use ExampleServer;
use JSON::PP qw(decode_json);
use SseClient;
use Test::More;

sub program_path { my ($name) = @_; return (grep { -x } map { "$_/$name" } split /:/, $ENV{PATH})[0] }

for my $kind (['python3', 'app.py'], ['node', 'app.mjs']) {
    my ($program, $script) = @$kind;
    SKIP: {
        my $path = program_path($program) or skip "$program is not installed", 1;
        subtest $script => sub { replay($path, $script) };
    }
}

sub replay {
    my ($program, $script) = @_;
    my $example = ExampleServer->start('replay.conf');
    my $env = {PORT => $example->port(9000), DURABLE_API => '127.0.0.1:' . $example->port(8080), STORE => $example->prefix . '/data/store'};
    my @command = ($program, ExampleServer::examples() . "/replay/$script", $env);
    my $pid = $example->run(9000, @command);
    my $port = $example->port(8080);
    my $post = sub { my $answer = http_request($port, 'POST', '/events', body => $_[0]); return decode_json($answer->{body}) };
    my $open = sub {
        my ($last) = @_;
        return SseClient->open(port => $port, path => '/events', headers => defined $last ? ['Last-Event-ID', $last] : []);
    };

    is_deeply($post->('first'), {id => 1, delivered => 0}, 'an event is stored, with nobody there');
    my $reader = $open->();
    is_deeply($reader->next_event(5), {event => 'message', data => 'first', id => 1}, 'a reader gets what is stored');
    NginxProcess::wait_until(5, sub { $post->("two\nlines")->{delivered} == 1 });
    my $event = $reader->next_event(5);
    is($event->{data}, "two\nlines", 'and what is published then');
    cmp_ok($event->{id}, '>=', 2, 'with its number');

    # Readers join at any moment of a writer's work, from the start or from where they were.
    my @writers = map { my $writer = $_; start_writer(sub { $post->("$writer.$_") for 1 .. 40 }) } 1 .. 3;
    my @readers;
    for my $n (1 .. 12) {
        my $joined = $open->($n % 3 == 0 ? $n : undef);
        my @seen = $n % 2 ? map { $joined->next_event(10) } 1 .. 3 : ();
        if (@seen == 3) {    # its connection breaks, and it comes back
            $joined->client->close;
            $joined = $open->($seen[-1]{id});
        }
        push @readers, {first => $n % 3 == 0 ? $n : 0, seen => \@seen, stream => $joined};
    }
    waitpid $_, 0 for @writers;
    my $last = $post->('last')->{id};
    for my $one (@readers) {
        until (@{$one->{seen}} && $one->{seen}[-1]{id} >= $last) {
            my $next = $one->{stream}->next_event(10) or last;
            push @{$one->{seen}}, $next;
        }
        is(join(' ', map { $_->{id} } @{$one->{seen}}), join(' ', $one->{first} + 1 .. $last), 'every event once, in order');
    }

    # The application dies; its readers come back to a new one.
    $example->kill_program($pid);
    is($reader->wait_end(5), 'cut', 'a reader sees the application die');
    $example->run(9000, @command);
    my $again = $open->($last - 1);
    is($again->next_event(5)->{id}, $last, 'the store outlives it');
    is($post->('after')->{id}, $last + 1, 'and so do its numbers');
    is($again->next_event(5)->{data}, 'after', 'it goes on');
    my @alarms = grep { $_ =~ $NginxProcess::ALARMING } split /^/, $example->nginx->error_log;
    is("@alarms", '', 'no alerts');
}

sub start_writer {
    my ($work) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    eval { $work->(); 1 } or warn $@;
    POSIX::_exit(0);
}

done_testing();
