# SPDX-License-Identifier: BSD-2-Clause
# The line of an object over HTTP: who waits for whom, and in which order (X-6 to X-9, X-14a, X-17),
# with one, two and four workers.
use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../lib";
use NginxProcess;
use Sections qw(steps refusal hold release request);
use Test::More;
use Time::HiRes qw(sleep time);

binmode Test::More->builder->$_, ':utf8' for qw(output failure_output);

sub until_true { return NginxProcess::wait_until(5, $_[0]) }

for my $workers (1, 2, 4) {
    my $of = "$workers workers";
    my $host = Sections->start(workers => $workers, timeout => '5s', server => <<'END');
        location /denied/ { durable_object main $arg_object; deny all; proxy_pass http://{{sections}}; }
        location /whole/ { durable_exclusive main $arg_object; durable_exclusive_handler /section; proxy_set_header X-Port {{port}}; proxy_pass http://{{sections}}; }
END
    my @pids = $host->workers;
    my $n = 0;
    my $next = sub { $pids[$n++ % @pids] };
    my $event = $host->event(object => 'o', worker => $next->());
    my $other = $host->event(object => 'o', worker => $next->());
    my $handle = $other->subscribe('c');
    my $quiet = $event->subscribe('quiet');
    my $long = $event->begin_wait($event->subscribe('c'), 30000);

    # X-7, X-8: what is held
    my $since = time;
    my ($wait, $shorter) = ($other->begin_wait($handle, 600), $event->begin_wait($quiet, 600));
    my $section = hold($host, $event, 'first', [call => 'POST', 'channels/c/messages', 'from within']);
    my %held = map { $_->[0] => $other->begin(@$_[1 .. $#$_], worker => $next->()) } (
        ['count', GET => 'channels/d'], ['publish', POST => 'channels/c/messages', body => 'late'],
        ['subscribe', POST => 'channels/d/subscriptions'], ['close', POST => 'channels/e/close', body => ''],
        ['cancel', DELETE => 'subscriptions/0123456789abcdef'],
        ['section', POST => 'exclusive/second', body => steps([answer => 200, '2'])]);
    my $no_token = $host->begin(GET => 'channels/c', object => 'o', worker => $next->());
    my $sub = request($host, $next->(), '/sub?object=o&channel=c');
    my $pub = request($host, $next->(), '/pub?object=o&channel=c', method => 'POST', body => 'published');
    my $denied = request($host, $next->(), '/denied/?object=o');
    is($denied->read_response(5)->{status}, 403, "$of: a client that access control denies is refused at once");
    sleep 0.65 - (time - $since) if time - $since < 0.65;
    ok($held{$_}->is_waiting(0.001), "X-8, $of: $_ waits") for sort keys %held;
    ok($_->is_waiting(0.001), "X-8, $of: the answer of a wait waits as well, past its time") for $wait, $shorter;
    ok($no_token->is_waiting(0.001), "X-8, $of: a call without a token waits");
    ok($_->is_quiet(0.001), "X-7, $of: a stream or a publish waits") for $sub, $pub;
    is(release($host, $section, 'first'), '"first"', "X-7a, $of: the caller has its result");
    is($wait->message(5)->[1], 'from within', "X-8, $of: the wait has the message that came meanwhile");
    is($long->message(5)->[1], 'from within', "X-8, $of: and so has the caller's own");
    is_deeply($shorter->message(5), [1, ''], "X-8, $of: one whose time was over says so");
    is($held{section}->answer(5)->{body}, '2', "X-6, $of: the next section");
    is($held{$_}->answer(5)->{status}, $_ eq 'subscribe' ? 201 : $_ eq 'cancel' ? 403 : 200, "X-8, $of: $_") for grep { $_ ne 'section' } sort keys %held;
    is($no_token->answer(5)->{status}, 200, "X-8, $of: the call without a token");
    is($pub->read_response(5)->{status}, 200, "X-7, $of: the publish location");
    is($sub->read_head(5)->{status}, 200, "X-7, $of: the stream");

    # X-7: an open stream gets messages at once
    $section = hold($host, $event, 'open', [call => 'POST', 'channels/c/messages', 'live'], [wait => 'opened']);
    $host->sections->allow('open');
    ok($sub->read_until(qr/data: live\n/, 5), "X-7, $of: an open stream gets a message during a section");
    $host->sections->allow('opened');
    $section->answer(5);

    # X-6, X-7: the order of a mixed line, whichever workers
    my @calls;
    my $first = hold($host, $event, 'mixed');
    my $order = sub { map { /^(?:order )?(order\d+)/ ? $1 : () } @_ };
    for my $i (1 .. 12) {
        push @calls, $i % 3 == 0
            ? request($host, $next->(), "/whole/$i?object=o", method => 'POST', body => steps([note => "order order$i"]))
            : request($host, $next->(), "/app/order$i?object=o");
        sleep 0.02;    # so that they stand in this order
    }
    ok(!$order->($host->app->notes, $host->sections->notes), "X-7, $of: nobody passes the section");
    release($host, $first, 'mixed');
    ok(until_true(sub { 4 == $order->($host->sections->notes) && 8 == $order->($host->app->notes) }), "X-7, $of: all of the line is served");
    is(join(' ', $order->($host->sections->notes)), 'order3 order6 order9 order12', "X-6, $of: sections in their order");
    $host->app->allow("order$_") for 1 .. 12;
    is($_->read_response(5)->{status}, 200, "X-7, $of: served") for @calls;

    # X-14a: the section's own requests
    my $before = () = $host->sections->notes;
    $host->app->allow('inner');
    my $start = time;
    $event->call(POST => 'exclusive/self', body => steps(
        [visit => '/app/inner?object=o'], [visit => '/pub?object=o&channel=c', 'POST', 'inner'], [call => 'GET', 'channels/c'],
        [visit => '/whole/x?object=o', 'POST', steps(['seen', 'durable-event-kind'], [call => 'GET', 'channels/c'], [call => 'POST', 'exclusive/x', '1'])],
        [call => 'GET', 'channels/c']));
    my @told = ($host->sections->notes)[$before .. $before + 7];
    cmp_ok(time - $start, '<', 1, "X-14a, $of: requests of a section to its own object take no time");
    is($told[0], '200 answer of inner', "X-14a, $of: it is let through");
    like((grep { /^inner / } $host->app->notes)[0], qr/^inner [0-9a-f]{32,64} durable-block o$/, "X-14a, $of: as part of the section");
    like($told[1], qr/^200 \{"delivered"/, "X-14a, $of: a publish location");
    like($told[2], qr/^200 \{"subscriptions"/, "X-14a, $of: a host call, after an inner request has ended");
    like($told[3], qr/^seen POST durable-event-kind=durable-block /, "X-14a, $of: a whole-request location of its own line");
    like($told[4], qr/^200 /, "X-14a, $of: host calls of the inner request are not held");
    like($told[5], qr/^409 .*nested_exclusive/, "X-5, $of: and start no section");
    like($told[7], qr/^200 /, "X-14a, $of: the section outlives its inner requests");

    # X-17
    $before = () = $host->sections->notes;
    $start = time;
    my $whole = request($host, $next->(), '/whole/y?object=o', method => 'POST', headers => ['Durable-Event', 'f' x 64], body => steps(
        ['seen', 'durable-event-kind', 'durable-object'], [call => 'GET', 'channels/c'], [call => 'POST', 'exclusive/x', '1'], [call => 'GET', 'section'],
        [visit => '/app/inner?object=o'], [answer => 201, 'whole']));
    is($whole->read_response(5)->{body}, 'whole', "X-17, $of: a whole request");
    cmp_ok(time - $start, '<', 1, "X-17, $of: whatever it asks of its own object takes no time");
    @told = ($host->sections->notes)[$before .. $before + 4];
    like($told[0], qr/^seen POST durable-event-kind=fetch durable-object=o /, "X-17, $of: its kind");
    like($told[1], qr/^200 /, "X-17, $of: its host calls are not held");
    like($told[2], qr/^409 .*nested_exclusive/, "X-17, $of: it starts no section");
    like($told[3], qr/^409 .*not_in_section/, "X-17, $of: and is not in one");
    is($told[4], '200 answer of inner', "X-14a, $of: its own request is let through");
    like((grep { /^inner / } $host->app->notes)[-1], qr/ fetch o$/, "X-17, $of: of the same kind");
    $_->end for $event, $other;
    $host->server->no_alerts("$of: no alerts");
}
done_testing();
