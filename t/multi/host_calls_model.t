# SPDX-License-Identifier: BSD-2-Clause
# Random host calls of many events on several objects and channels, at random workers, against a
# plain model: what every call answers, and which of the waits that stand are answered by it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use HostCalls;
use Test::More;
use Time::HiRes qw(time);

my $seed = $ENV{DURABLE_SEED} // time % 100000 | 0;
srand $seed;
diag("DURABLE_SEED=$seed");

my $kBacklog = 1048576;
my @names = ('a', 'b', 'c:1', '..');
my ($host, @events, %channels, @waits, $steps);

# The model: an event has subscriptions; one is {event, handle, object, name, queue, unread, over}.
# `over` is the outcome that follows its queue.
sub live { my ($object, $name) = @_; return grep { !$_->{over} } @{$channels{"$object $name"} //= []} }

sub end_subscription {
    my ($subscription, $over, $keeps_queue) = @_;
    return if $subscription->{over};
    $subscription->{over} = $over;
    $subscription->{queue} = [] if !$keeps_queue;
    my $channel = $channels{"$subscription->{object} $subscription->{name}"};
    @$channel = grep { $_ != $subscription } @$channel;
}

# What a wait answers now; undef: it waits.
sub outcome {
    my ($subscription) = @_;
    my $text = shift @{$subscription->{queue}};
    return [0, $text] if defined $text;
    return $subscription->{over};
}

sub encoded { return $_[0] =~ s/\./%2E/gr }
sub any { return $_[rand @_] }
sub is_same { my ($got, $wanted, $what) = @_; return if "@$got" eq "@$wanted"; is_deeply($got, $wanted, "step $steps: $what"); die 'seed ' . $seed }

# The waits that stand and that the last call has answered.
sub settle {
    my ($what) = @_;
    my @left;
    for my $wait (@waits) {
        my $wanted = outcome($wait->{subscription});
        if ($wanted) {
            is_same($wait->{call}->message(10), $wanted, "the wait that stands, after $what");
            $wait->{subscription}{waits} = 0;
        } else {
            push @left, $wait;
        }
    }
    @waits = @left;
}

my %operation = (
    event => [3, sub {
        return if @events > 12;
        my $event = $host->event(object => any('one', 'two', 'three'));
        push @events, {event => $event, object => $event->{object}, subscriptions => []};
    }],
    end => [2, sub {
        return if @events < 4;
        my ($gone) = splice @events, rand @events, 1;
        is_same([$gone->{event}->end->{status}], [200], 'end');
        end_subscription($_, [2, '订阅已取消', 'cancelled'], 0) for @{$gone->{subscriptions}};
        # One that was closed or dropped before is gone with its event too.
        for my $subscription (grep { $_->{waits} } @{$gone->{subscriptions}}) { $subscription->{queue} = [] }
        settle('an end');
    }],
    subscribe => [14, sub {
        my $one = any(@events);
        my $name = any(@names);
        my $answer = $one->{event}->call(POST => 'channels/' . encoded($name) . '/subscriptions');
        is_same([$answer->{status}], [201], 'subscribe');
        my $subscription = {event => $one, handle => $answer->{json}{subscription}, object => $one->{object}, name => $name, queue => [], waits => 0};
        push @{$one->{subscriptions}}, $subscription;
        push @{$channels{"$one->{object} $name"}}, $subscription;
    }],
    cancel => [6, sub {
        my $one = any(@events);
        my $subscription = any(@{$one->{subscriptions}}) or return;
        is_same([$one->{event}->cancel($subscription->{handle})], [1], 'cancel');
        # C-21: one whose close has been told, or is all that is left, stays as it is.
        return if $subscription->{over} && !@{$subscription->{queue}};
        $subscription->{over} = undef if $subscription->{over};
        end_subscription($subscription, [2, '订阅已取消', 'cancelled'], 0);
        $subscription->{queue} = [];
        settle('a cancel');
    }],
    publish => [30, sub {
        my $one = any(@events);
        my $name = any(@names);
        my $text = "$steps:" . 'x' x any(0, 1, 100, 65000, 65000);
        for my $subscription (live($one->{object}, $name)) {
            my $unread = 0;
            $unread += length for @{$subscription->{queue}}, $text;
            if ($unread > $kBacklog) { end_subscription($subscription, [2, '订阅积压超过 1 MiB，已被断开', 'backlog'], 0) }
            else { push @{$subscription->{queue}}, $text }
        }
        is_same([$one->{event}->publish(encoded($name), $text)], [scalar(live($one->{object}, $name))], 'publish');
        settle('a publish');
    }],
    close => [3, sub {
        my $one = any(@events);
        my $name = any(@names);
        my @live = live($one->{object}, $name);
        is_same([$one->{event}->close_channel(encoded($name), "closed at $steps")], [scalar @live], 'close');
        end_subscription($_, [2, "closed at $steps", 'closed'], 1) for @live;
        settle('a close');
    }],
    count => [6, sub {
        my $one = any(@events);
        my $name = any(@names);
        is_same([$one->{event}->count(encoded($name))], [scalar(live($one->{object}, $name))], 'count');
        is_same([$host->call(GET => 'channels/' . encoded($name), object => $one->{object})->{json}{subscriptions}],
                [scalar(live($one->{object}, $name))], 'count without a token');
    }],
    poll => [30, sub {
        my $one = any(@events);
        my $subscription = any(@{$one->{subscriptions}}) or return;
        my $wanted = $subscription->{waits} ? ['409 wait_in_progress'] : outcome($subscription) // [1, ''];
        is_same($one->{event}->wait_message($subscription->{handle}, any(0, 0, 1)), $wanted, 'poll');
    }],
    wait => [12, sub {
        my $one = any(@events);
        my $subscription = any(@{$one->{subscriptions}}) or return;
        return if $subscription->{waits};
        my $call = $one->{event}->begin_wait($subscription->{handle}, 60000);
        my $wanted = outcome($subscription);
        return is_same($call->message(10), $wanted, 'wait') if $wanted;
        # It stands once a second one is refused.
        for (1 .. 1000) { last if $one->{event}->call(GET => "subscriptions/$subscription->{handle}/message?timeout=0")->{status} == 409 }
        $subscription->{waits} = 1;
        push @waits, {subscription => $subscription, call => $call};
    }],
    foreign => [3, sub {
        my ($one, $other) = (any(@events), any(@events));
        my $subscription = any(@{$other->{subscriptions}}) or return;
        return if $one == $other;
        is_same($one->{event}->wait_message($subscription->{handle}), ['403 unknown_subscription'], 'a foreign handle');
    }],
    leave => [2, sub {
        my $index = rand @waits;
        return if !@waits;
        my ($wait) = splice @waits, $index, 1;
        $wait->{call}->drop;
        # Once the worker has seen it, the handle is free; nothing was taken.
        NginxProcess::wait_until(5, sub {
            my $answer = $wait->{subscription}{event}{event}->call(GET => "subscriptions/$wait->{subscription}{handle}/message?timeout=0");
            $answer->{status} != 409 }) or fail('a wait that was left ends');
        $wait->{subscription}{waits} = 0;
    }],
);
my @lots = map { ($_) x $operation{$_}[0] } sort keys %operation;

for my $workers (1, 2, 4) {
    $host = HostCalls->start(workers => $workers, level => 'warn');
    (@events, %channels, @waits) = ();
    $steps = 0;
    $operation{event}[1]->() for 1 .. 5;
    my $goal = $ENV{DURABLE_STEPS} // 1500;
    while ($steps < $goal) {
        ++$steps;
        $operation{any(@lots)}[1]->();
    }
    is($steps, $goal, "$goal random calls with $workers workers answer as the model does");
    $operation{end}[1]->() while @events > 3;
    $_->{event}->end for @events;
    $host->server->no_alerts;
}

done_testing();
