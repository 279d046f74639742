# SPDX-License-Identifier: BSD-2-Clause
# conf-examples/long-job.conf with its application: progress, cancelling, failing, a job that is
# silent, and several at once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use ExampleServer;
use JSON::PP qw(decode_json);
use SseClient;
use Test::More;

my ($python) = grep { -x } map { "$_/python3" } split /:/, $ENV{PATH};
plan skip_all => 'python3 is not installed' if !$python;

my $example = ExampleServer->start('long-job.conf');
$example->run(9000, $python, ExampleServer::examples() . '/long-job/app.py',
              {PORT => $example->port(9000), DURABLE_API => '127.0.0.1:' . $example->port(8080), STEP => '0.02'});
my $port = $example->port(8080);

sub outcomes { return map { $_->{outcome} } @{decode_json(http_request($port, 'GET', '/jobs')->{body})} }

my $job = SseClient->open(port => $port, path => '/job?steps=5');
is($job->header('Content-Type'), 'text/event-stream; charset=utf-8', 'a job answers with an event stream');
for my $step (1 .. 5) {
    my $event = $job->next_event(5);
    is("$event->{event} $event->{data}", qq(progress {"step": $step, "of": 5}), "step $step");
}
is($job->next_event(5)->{event}, 'done', 'done');
is($job->wait_end(5), 'end', 'and the end');
is((outcomes())[-1], 'done', 'the application knows');
is($job->client->request('GET', '/jobs')->{status}, 200, 'the connection is used again');

$job = SseClient->open(port => $port, path => '/job?steps=1000');
is($job->next_event(5)->{event}, 'progress', 'a long job');
$job->client->close;
ok(NginxProcess::wait_until(10, sub { (outcomes())[-1] =~ /^cancelled (?:in|after) step \d+$/ }), 'is cancelled when its client leaves');

$job = SseClient->open(port => $port, path => '/job?steps=5&fail=3');
is($job->next_event(5)->{event}, 'progress', 'a job that fails') for 1 .. 2;
is($job->wait_end(5), 'cut', 'is cut off');
like($example->nginx->error_log, qr/aborted its event stream: "step 3 has failed"/, 'with its reason in the log');

my @jobs = map { SseClient->open(port => $port, path => '/job?steps=10') } 1 .. 10;
is(scalar(grep { my $one = $_; my @events = map { $one->next_event(10) } 1 .. 11; $one->wait_end(5) eq 'end' } @jobs), 10, 'ten at once');
unlike($example->nginx->error_log, $NginxProcess::ALARMING, 'no alerts');

done_testing();
