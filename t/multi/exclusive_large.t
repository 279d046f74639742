# SPDX-License-Identifier: BSD-2-Clause
# Params and results of 8 MiB, at the section's worker and across workers, from memory and from files,
# and in a zone that is too small for them (X-2, X-4).
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use Sections qw(steps);
use Test::More;

my $text = '["' . 'x' x (8388608 - 4) . '"]';
my $call = sub {
    my ($host, $event, $worker, $operation) = @_;
    my $client = $host->server->connect_to_worker($worker);
    $client->send_request('POST', "/durable/exclusive/$operation", headers => ['Durable-Event', $event->token], body => $text, timeout => 30);
    return $client->read_response(30);
};

for my $api ('', 'client_body_buffer_size 9m;') {
    my $host = Sections->start(workers => 2, zone => '32m', level => 'error', api => $api, location => 'proxy_read_timeout 600s;', timeout => '25s');
    my @pids = $host->workers;
    my $event = $host->event(worker => $pids[0]);
    my $how = $api ? 'in memory' : 'in files';
    for my $worker (@pids) {
        my $at = $worker == $pids[0] ? 'its event\'s worker' : 'another worker';
        my $answer = $call->($host, $event, $worker, 'large_echo');
        ok($answer->{body} eq $text, "X-2: 8 MiB there and back, $how, at $at") or diag $answer->{status}, substr $answer->{body}, 0, 200;
        $answer = $call->($host, $event, $worker, 'large_size');
        is($answer->{body}, 8388608, "X-2: the handler gets all of it, $how, at $at");
        # Its host calls come to whichever worker, the section's or another.
        for (1 .. 3) {
            my $before = () = $host->sections->notes;
            $answer = $call->($host, $event, $worker, 'large_calls');
            ok($answer->{body} eq '"' . 'x' x 8388606 . '"', 'X-4: a result of 8 MiB') or diag $answer->{status}, substr $answer->{body}, 0, 200;
            my @told = map { substr $_, 0, 60 } ($host->sections->notes)[$before, $before + 1];
            like($told[0], qr/^200 \{"operation":"large_calls","params":\["xxx/, 'its params of 8 MiB');
            is($told[1], '204 ', 'taken');
        }
    }
    $event->end;
    $host->server->no_alerts;
}

# The zone has no room for what goes from worker to worker.
{
    my $host = Sections->start(workers => 2, zone => '2m', level => 'error', location => 'proxy_read_timeout 600s;', timeout => '25s');
    my @pids = $host->workers;
    my $event = $host->event(worker => $pids[0]);
    my %seen;
    for (1 .. 30) {
        my $before = () = $host->sections->notes;
        $call->($host, $event, $pids[$_ % 2], 'large_calls');
        $seen{join ' ', map { /^(\d+ (?:\{"code":"\w+")?)/ ? $1 : $_ } ($host->sections->notes)[$before, $before + 1]}++;
        last if keys %seen > 1 && grep { /no_memory/ } keys %seen;
    }
    my @refused = grep { /no_memory/ } keys %seen;
    ok(@refused, 'calls at another worker are refused') or diag join "\n", keys %seen;
    is(scalar(grep { !/^(?:200 |503 \{"code":"no_memory") (?:204 |503 \{"code":"no_memory")$/ } keys %seen), 0, 'with 503 no_memory') or diag join "\n", keys %seen;
    is($event->call(POST => 'exclusive/small', body => '[["answer",200,"1"]]')->{body}, '1', 'and the rest goes on');
    $event->end;
    $host->server->no_alerts;
}
done_testing();
