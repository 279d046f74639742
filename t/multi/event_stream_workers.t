# SPDX-License-Identifier: BSD-2-Clause
# Event streams while workers come and go: reload, quit, a worker that is killed, no master process,
# and many streams at once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient;
use SseClient;
use StreamApp;
use Test::More;
use Time::HiRes qw(time);

my $app = StreamApp->start(
    # Writes what the test allows, call by call.
    steps => sub {
        my ($calls, $connection, $request) = @_;
        my ($run) = $request->{path} =~ /\?(\w+)/;
        $calls->note("$run start " . $calls->start);
        for my $step (1 .. 3) {
            $connection->wait_for("$run$step", 20) or last;
            delete $calls->{connection};
            $calls->note("$run $step " . $calls->write("data: $step\n\n"));
        }
        $calls->note("$run end " . $calls->end);
    },
    many => sub {
        my ($calls, $connection, $request) = @_;
        my ($number, $how) = $request->{path} =~ /\?(\d+)-(\w+)/;
        # Whoever leaves before the start has ended the event with it.
        return if $calls->start ne '201' && $how eq 'leave';
        my @answers = (201, map { $calls->write("data: $number $_\n\n") } 1 .. 5);
        push @answers, $how eq 'end' ? $calls->end : $how eq 'abort' ? $calls->abort : 'open';
        my $answers = join ' ', @answers;
        return if $how eq 'leave';
        $calls->note($answers =~ /^201(?: [01]){5} (?:204|open)$/ ? 'fine' : $answers);
    },
);

# reload and quit: a worker that is to go serves its streams to their end.
my $server = $app->server(workers => 2);
for my $how (qw(reload quit)) {
    my @streams = map { SseClient->open(port => $server->port, path => "/app/steps/?$how$_") } 1 .. 6;
    is(() = $app->results('steps', 6) =~ /start 201/g, 6, "$how: streams in both workers");
    $app->allow("$how${_}1") for 1 .. 6;
    is(() = $app->results('steps', 6) =~ /1 0/g, 6, "$how: writes before it");
    if ($how eq 'reload') {
        ok($server->reload, 'a reload');
    } else {
        kill 'QUIT', $server->master_pid;
        ok($server->wait_log(qr/gracefully shutting down/), 'a quit');
    }
    last if $how eq 'quit';
    for my $step (2, 3) {
        $app->allow("$how$_$step") for 1 .. 6;
    }
    my $notes = $app->results('steps', 18);
    is(() = $notes =~ / [23] 0/g, 12, "$how: writes by way of the new workers");
    is(() = $notes =~ /end 204/g, 6, "$how: the end");
    for my $stream (@streams) {
        is(join(' ', $stream->next_texts(3, 5)), '1 2 3', "$how: all of it arrives");
        is($stream->wait_end(5), 'end', "$how: and a normal end");
    }
}
# Nothing listens for the calls of the rest: their applications fail, and nginx ends.
for my $step (2, 3) {
    $app->allow("quit$_$step") for 1 .. 6;
}
ok($server->stop('QUIT'), 'quit: nginx ends');
$server->no_alerts;
$app->forget('steps');

# A worker that is killed takes its own streams along, and no other's.
$server = $app->server(workers => 2);
my %streams;
for my $worker ($server->worker_pids) {
    $streams{$worker} = SseClient->open(client => $server->connect_to_worker($worker), path => "/app/steps/other?kill$worker");
    $app->results('steps', 1);
}
my ($dying, $living) = keys %streams;
$server->kill_worker($dying);
is($streams{$dying}->wait_end(5), 'cut', 'kill: the stream of the worker is cut off');
$app->allow("kill$dying$_") for 1 .. 3;
like($app->results('steps', 4), qr/kill$dying 1 unknown_event, .* 2 unknown_event, .* 3 unknown_event, .* end unknown_event/,
     'kill: its calls answer unknown_event');
$app->allow("kill$living$_") for 1 .. 3;
like($app->results('steps', 4), qr/1 0, .*2 0, .*3 0, .*end 204/, 'kill: the other stream goes on');
is(join(' ', $streams{$living}->next_texts(3, 5)), '1 2 3', 'kill: all of it arrives');
is($streams{$living}->wait_end(5), 'end', 'kill: and a normal end');
$server->no_alerts('the kill alone', qr/exited on signal 9/);
$server->stop;

# worker_shutdown_timeout ends what does not end by itself.
$server = $app->server(workers => 1, main => 'worker_shutdown_timeout 300ms;');
my $stream = SseClient->open(port => $server->port, path => '/app/steps/?stuck');
$app->results('steps', 1);
ok($server->stop('QUIT', 5), 'worker_shutdown_timeout: nginx ends');
is($stream->wait_end(5), 'cut', 'worker_shutdown_timeout: the stream is cut off');
$server->no_alerts;
$app->allow("stuck$_") for 1 .. 3;

# Without a master
$server = $app->server(workers => 1, main => 'master_process off;');
$stream = SseClient->open(port => $server->port, path => '/app/steps/?single');
$app->allow("single$_") for 1 .. 3;
is(join(' ', $stream->next_texts(3, 5)), '1 2 3', 'master_process off: a stream');
is($stream->wait_end(5), 'end', 'master_process off: its end');
$server->no_alerts;
ok($server->stop, 'master_process off: nginx ends');

# Many at once, some of whose clients leave.
for my $workers (1, 2, 4) {
    $server = $app->server(workers => $workers);
    $app->forget('many');
    my @ways = qw(end abort open leave);
    my @all;
    for my $number (1 .. 60) {
        my $way = $ways[$number % 4];
        my $client = DurableClient->connect(port => $server->port);
        $client->send_request('GET', "/app/many/?$number-$way");
        if ($way eq 'leave') { $client->close } else { push @all, [$number, $way, $client] }
    }
    my @wrong;
    for my $one (@all) {
        my ($number, $way, $client) = @$one;
        my $head = $client->read_head(20);
        my $body = $way eq 'end' ? $client->read_chunks(20) : $client->read_to_eof(20);
        my $wanted = join '', map { "data: $number $_\n\n" } 1 .. 5;
        $body =~ s/^[0-9a-f]+\r\n|\r\n(?=[0-9a-f]+\r\n|\z)//mg if $way ne 'end' && defined $body;
        push @wrong, "$number $way: " . ($body // 'undef') if ($body // '') ne $wanted;
    }
    is_deeply(\@wrong, [], "$workers workers: 45 streams at once");
    is(() = $app->results('many', 45) =~ /fine/g, 45, "$workers workers: their calls");
    $server->no_alerts;
    ok($server->stop, 'nginx ends');
}

done_testing();
