# SPDX-License-Identifier: BSD-2-Clause
# The replay recipe (C-30, C-31, worked sample 9): a publisher stores an event, which gives it a
# number, and publishes the number; a subscriber subscribes, reads the head and the history, and
# then waits, skipping what it has. Every number reaches its client exactly once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use Fcntl qw(:flock);
use File::Temp qw(tempdir);
use HostCalls;
use NginxProcess;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

my $seed = $ENV{DURABLE_SEED} // time % 100000 | 0;
srand $seed;
diag("DURABLE_SEED=$seed");

# A subscriber's part of the recipe, its client being a list.
package Subscriber {
    sub new {
        my ($class, $event, $channel, $history, $last_id) = @_;
        return bless {event => $event, channel => $channel, history => $history, forwarded => [], last => $last_id // 0}, $class;
    }
    sub subscribe { my ($self) = @_; $self->{handle} = $self->{event}->subscribe($self->{channel}) }
    sub catch_up {
        my ($self) = @_;
        my @numbers = $self->{history}->();
        $self->{head} = @numbers ? $numbers[-1] : 0;
        $self->forward(grep { $_ > $self->{last} } @numbers);
    }
    sub forward { my ($self, @numbers) = @_; push @{$self->{forwarded}}, @numbers; $self->{last} = $_ for @numbers }
    # Waits once; its outcome's status.
    sub wait_once {
        my ($self, $timeout) = @_;
        my ($status, $text, $code) = @{$self->{event}->wait_message($self->{handle}, $timeout)};
        my ($number) = $text =~ /^(\d+)/;
        $self->forward($number) if $status eq '0' && $number > $self->{head};
        return $code // $status;
    }
}

for my $workers (1, 2, 4) {
    my $host = HostCalls->start(workers => $workers);
    my @events = map { $host->event } 1 .. 3;

    # Each interleaving of a subscriber that joins and two publishers, one of which has stored before.
    for my $order (interleavings([qw(subscribe catch_up)], [qw(store1 publish1)], [qw(store2 publish2)])) {
        my $channel = 'r' . join '', map { substr($_, 0, 1) . substr $_, -1 } @$order;
        my @stored = (1);
        my %number;
        my $c = Subscriber->new($events[0], $channel, sub { @stored });
        for my $step (@$order) {
            if ($step =~ /^store(.)/) { push @stored, $number{$1} = @stored + 1 }
            elsif ($step =~ /^publish(.)/) { $events[$1]->publish($channel, $number{$1}) }
            else { $c->$step }
        }
        1 while $c->wait_once(0) eq '0';
        $events[0]->cancel($c->{handle});
        my $seen = join ' ', sort { $a <=> $b } @{$c->{forwarded}};
        $seen eq '1 2 3' ? 0 : fail("C-30, sample 9: @$order: $seen");
    }
    pass("C-30, sample 9: every interleaving of two publishers and a subscriber that joins, $workers workers");

    # Publishers and subscribers at any moment, over a store in a file.
    for my $round (1 .. 3) {
        my $file = tempdir(CLEANUP => 1) . '/store';
        my ($publishers, $each, $channel) = (3, 40, "random$round");
        my $total = $publishers * $each;
        my @children = map { start_publisher($host->server->port, $file, $channel, $each) } 1 .. $publishers;
        my @subscribers;
        for my $event (@events, @events) {
            my $c = Subscriber->new($event, $channel, sub { stored($file) });
            $c->subscribe;
            sleep rand 0.02;
            $c->catch_up;
            push @subscribers, $c;
            $subscribers[rand @subscribers]->wait_once(0) for 1 .. rand 8;
        }
        for my $c (@subscribers) {
            my $deadline = time + 20;
            while (@{$c->{forwarded}} < $total && time < $deadline) { last if $c->wait_once(2000) ne '0' }
            1 while $c->wait_once(0) eq '0';
            my @seen = sort { $a <=> $b } @{$c->{forwarded}};
            is("@seen", join(' ', 1 .. $total), "C-30: each number once, $workers workers");
            $c->{event}->cancel($c->{handle});
        }
        waitpid $_, 0 for @children;
    }

    # C-31: a subscriber that falls behind, joins again from what it forwarded last.
    {
        my @stored;
        my $channel = 'behind';
        my $c = Subscriber->new($events[0], $channel, sub { @stored });
        my $publish = sub {
            for (1 .. $_[0]) {
                push @stored, @stored + 1;
                $events[1]->publish($channel, scalar(@stored) . ':' . 'x' x 65000);
            }
        };
        $publish->(2);
        $c->subscribe;
        $c->catch_up;
        my $drops = 0;
        for my $burst (5, 30, 3, 40, 20, 20, 1) {
            $publish->($burst);
            $c->wait_once(0) for 1 .. rand 4;
            my $code;
            1 while ($code = $c->wait_once(0)) eq '0';
            next if $code eq '1';
            is($code, 'backlog', 'C-31: it fell behind');
            ++$drops;
            $c->subscribe;
            $publish->(1) if $drops % 2;
            $c->catch_up;
        }
        1 while $c->wait_once(0) eq '0';
        is("@{$c->{forwarded}}", "@stored", 'C-31: nothing is lost and nothing comes twice');
        cmp_ok($drops, '>=', 4, 'C-31: although it was disconnected');
    }

    # The same with a client that comes back with its last id.
    {
        my @stored = 1 .. 5;
        my $c = Subscriber->new($events[2], 'again', sub { @stored }, 3);
        $c->subscribe;
        push @stored, 6;
        $events[0]->publish('again', 6);
        $c->catch_up;
        push @stored, 7;
        $events[1]->publish('again', 7);
        1 while $c->wait_once(0) eq '0';
        is("@{$c->{forwarded}}", '4 5 6 7', 'C-30: from Last-Event-ID on');
    }
    $_->end for @events;
    $host->server->no_alerts;
}

# All orders of the steps that keep each list's own.
sub interleavings {
    my @lists = @_;
    my @found;
    for my $i (0 .. $#lists) {
        my ($first, @rest) = @{$lists[$i]};
        next if !defined $first;
        my @left = @lists;
        $left[$i] = \@rest;
        push @found, map { [$first, @$_] } interleavings(@left);
    }
    return @found ? @found : [];
}

sub stored {
    my ($file) = @_;
    open my $in, '<', $file or return ();
    flock $in, LOCK_SH;
    return map { $_ + 0 } <$in>;
}

# Appends a number and gives it; a reader sees whole lines.
sub append_to {
    my ($file) = @_;
    open my $store, '+>>', $file or die $!;
    flock $store, LOCK_EX;
    seek $store, 0, 0;
    my @lines = <$store>;
    my $number = @lines + 1;
    syswrite $store, "$number\n";
    return $number;
}

sub start_publisher {
    my ($port, $file, $channel, $count) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    srand $seed + $$;
    my $ok = eval {
        my $client = DurableClient->connect(port => $port);
        for (1 .. $count) {
            my $number = append_to($file);
            sleep rand 0.004 if rand() < 0.5;
            my $answer = $client->request('POST', "/of/channels/$channel/messages", body => $number, headers => ['Object', 'o']);
            die $answer->{body} if $answer->{status} != 200;
        }
        1;
    };
    warn $@ if !$ok;
    POSIX::_exit($ok ? 0 : 1);
}

done_testing();
