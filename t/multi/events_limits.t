# SPDX-License-Identifier: BSD-2-Clause
# Quotas and budgets of the events API (E-13, E-24), where many call at once and at several workers.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient;
use EventsApi;
use Test::More;

my $api;
sub refusal { my ($answer) = @_; return "$answer->{status} " . ($answer->{json}{code} // '') }

# The same call at once on so many connections: how often there was each outcome.
sub at_once {
    my ($count, $path, $who, $body) = @_;
    my @clients = map { DurableClient->connect(port => $api->port) } 1 .. $count;
    $_->send_request('POST', $path, headers => $who->headers, body => $body) for @clients;
    my %outcomes;
    ++$outcomes{refusal(EventsApi::answer($_->read_response(20)))} for @clients;
    return \%outcomes;
}

for my $workers (1, 2) {
    $api = EventsApi->start(workers => $workers, server => <<'END');
        location /few/ { durable_events account_rows=5 app_rows=3; durable_identity $http_account $http_app; }
END
    my $body = '{"subject":"topic:a"}';
    my $limit = '429 events_subscription_limit';

    my ($who, $app) = ($api->caller('e13'), $api->caller('e13', 'one'));
    is_deeply(at_once(20, '/few/subscribe', $app, $body), {'200 ' => 3, $limit => 17}, 'E-13: 3 rows an app, however many ask at once');
    is_deeply(at_once(20, '/few/subscribe', $who, $body), {'200 ' => 2, $limit => 18}, 'E-13: 5 rows an account');
    is(scalar($who->rows), 5, 'E-13: no more are there');
    my $other = $api->caller('e13', 'two');
    is(refusal($other->call(POST => 'subscribe', $body)), '200 ', 'E-13: the default is more');
    $who->call(POST => 'unsubscribe', {subId => $_->{subId}}) for ($who->rows)[0, 1];
    is(at_once(5, '/few/subscribe', $app, $body)->{'200 '}, 1, 'E-13: what is removed makes room');
    is($api->operator('events/suspend', {account => 'e13', reason => 'no_credit'})->{json}{changed}, 5, 'they are suspended');
    is_deeply(at_once(3, '/few/subscribe', $app, $body), {$limit => 3}, 'E-13: suspended ones count');

    my $brief = $api->caller('brief');
    is($brief->call(POST => 'subscribe', {subject => 'topic:a', expiresAt => time + 2})->{status}, 200, 'rows that expire') for 1 .. 5;
    is(at_once(1, '/few/subscribe', $brief, $body)->{$limit}, 1, 'E-13: as many as there may be');
    sleep 3;
    is(at_once(1, '/few/subscribe', $brief, $body)->{'200 '}, 1, 'E-13: expired ones do not count');

    # ---- E-24, each call at another worker than the last
    my @pids = $api->server->worker_pids;
    my @clients = map { $api->server->connect_to_worker($_) } @pids;
    my $next = 0;
    my $call = sub { my ($who, @call) = @_; return refusal($who->call(@call[0 .. 2], client => $clients[$next++ % @clients])) };
    my $busy = $api->caller('busy');
    is($call->($busy, POST => 'subscribe', '{"subject":"wrong"}'), '400 invalid_subject', 'E-24: refused for its content') for 1 .. 3;
    is_deeply([map { $call->($busy, POST => 'subscribe', $body) } 1 .. 30], [('200 ') x 30], 'E-24: 30 subscribe');
    is($call->($busy, POST => 'unsubscribe', '{"subId":"none"}'), '404 subscription_does_not_exist', 'E-24: refused') for 1 .. 3;
    my @rows = $busy->rows;
    is_deeply([map { $call->($busy, POST => 'unsubscribe', {subId => $rows[$_]{subId}}) } 0 .. 29], [('200 ') x 30], 'E-24: and 30 unsubscribe');
    is($call->($busy, POST => 'subscribe', $body), '429 too_many_requests', 'E-24: the 61st is over it, at any worker') for 1 .. 4;
    is($call->($busy, POST => 'unsubscribe', {subId => 'x'}), '429 too_many_requests', 'E-24: together');
    is($call->($api->caller('busy', 'app'), POST => 'subscribe', $body), '429 too_many_requests', "E-24: the account's, whatever the app");
    is($call->($api->caller('idle'), POST => 'subscribe', $body), '200 ', 'E-24: not of others');
    my @lists = map { $call->($busy, GET => 'subscriptions') } 1 .. 119;
    is_deeply([@lists], [('200 ') x 119], 'E-24: 120 lists, of which one was before');
    is($call->($busy, GET => 'subscriptions'), '429 too_many_requests', 'E-24: the 121st');
    is_deeply([map { $call->($busy, GET => 'fetch?subject=topic:a') } 1 .. 121], [('200 ') x 120, '429 too_many_requests'], 'E-24: 120 fetches');
    is($call->($busy, POST => 'ack', '{"subId":"x","id":"y"}'), '404 subscription_does_not_exist', 'E-24: acks have none');

    my $outcomes = at_once(200, '/events/subscribe', $api->caller('flood'), $body);
    is_deeply($outcomes, {'200 ' => 60, '429 too_many_requests' => 140}, 'E-24: 200 at once');
    $api->server->no_alerts;
    # A budget outlives its workers.
    if ($workers == 2) {
        ok($api->reload, 'a reload');
        is(refusal($busy->call(GET => 'subscriptions')), '429 too_many_requests', 'E-24: after a reload');
        $api->server->kill_worker($_) for $api->server->worker_pids;
        is(refusal($busy->call(GET => 'subscriptions')), '429 too_many_requests', 'E-24: after the death of all workers');
    }
    $api->server->stop;
}

done_testing;
