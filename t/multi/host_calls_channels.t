# SPDX-License-Identifier: BSD-2-Clause
# Channels by host calls, clause by clause (C-1 to C-29, in the order of the specification) and
# its worked samples 1 to 8, with one worker and with several, the calls at the event's own
# worker, at another, or at any.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use HostCalls;
use Test::More;
use Time::HiRes qw(sleep time);

my $zh_closed = "\xe6\x94\xb6\xe6\x91\x8a";    # 收摊
my $zh_cancelled = '订阅已取消';
my $zh_backlog = '订阅积压超过 1 MiB，已被断开';
my ($host, $object) = (undef, 0);

# Two events of an object that nothing else uses.
sub two_events {
    my (%with) = @_;
    ++$object;
    return map { $host->event(object => "o$object", %with) } 1 .. 2;
}
sub new_event { ++$object; return $host->event(object => "o$object") }
sub refusal { my ($answer) = @_; return "$answer->{status} $answer->{json}{code}" }
sub message_of { my ($answer) = @_; utf8::encode(my $text = $answer->{json}{message}); return $text }
# Ends events without looking at each answer.
sub done { $_->end for @_ }

my @clauses = (
    'C-1 names' => sub {
        my ($a, $b) = two_events();
        my @good = ('x', 'c' x 64, 'A-Z.a_z:09', '%2E', '%2E%2E', '%2e', '...', '%41');
        for my $name (@good) {
            my $handle = $a->subscribe($name);
            is($b->publish($name, $name), 1, "C-1: $name is a name");
            is_deeply($a->wait_message($handle), [0, $name], "C-1: and a channel");
            $a->cancel($handle);
        }
        my $handle = $a->subscribe('Case');
        is($b->publish('case', 'x'), 0, 'C-1: names are case-sensitive');
        is($b->publish('%43ase', 'x'), 1, 'C-1: a name is percent-decoded');
        for my $name ('', 'c' x 65, 'a%20b', 'a%2Fb', '%C3%A9', 'a%2543', 'a+b', 'a@b', '%7Bx%7D') {
            for my $call (['POST', 'subscriptions'], ['POST', 'messages'], ['POST', 'close'], ['GET']) {
                my $path = join '/', "channels/$name", @$call[1 .. $#$call];
                my $answer = $b->call($call->[0], $path, $call->[0] eq 'POST' ? (body => 'x') : ());
                is(refusal($answer), '400 invalid_channel', "C-1: $call->[0] $path");
            }
        }
        like(message_of($b->call(GET => 'channels/a%2Fb')), qr/^持久频道名须为 1 至 64 字节/, 'C-1: message');
        done($a, $b);
    },

    'C-2, sample 6: the 65th channel' => sub {
        my ($a, $b) = two_events();
        my @handles = map { ($_ % 2 ? $a : $b)->subscribe("c$_") } 1 .. 64;
        is(refusal($a->call(POST => 'channels/c65/subscriptions')), '429 channel_limit', 'C-2: 64 channels, no more');
        ok($a->subscribe('c1'), 'C-2: those that exist can still be subscribed');
        $b->cancel($handles[1]);
        ok($a->subscribe('c65'), 'C-2: one that ends makes room');
        my $other = new_event();
        ok($other->subscribe('c66'), 'C-2: for each object');
        done($a, $b, $other);
    },

    'C-3, sample 6: the 257th subscription' => sub {
        my ($a, $b) = two_events();
        my @handles = map { ($_ % 2 ? $a : $b)->subscribe('c') } 1 .. 256;
        my $answer = $a->call(POST => 'channels/c/subscriptions');
        is(refusal($answer), '429 subscription_limit', 'C-3: 256 subscriptions, no more');
        is(message_of($answer), '持久频道订阅数已达上限 256', 'C-3: message');
        is($a->count('c'), 256, 'C-7: the refused one does not count');
        is($b->publish('c', 'x'), 256, 'C-3: the others go on');
        is_deeply($a->wait_message($handles[0]), [0, 'x'], 'C-3: and get it');
        $a->cancel($handles[0]);
        ok($b->subscribe('c'), 'C-3: one that ends makes room');
        done($a, $b);
        my %handles = map { $_ => 1 } @handles;
        is(keys %handles, 256, 'C-11: no two handles are the same');
    },

    'C-4, sample 8: texts' => sub {
        my ($a, $b) = two_events();
        my $handle = $a->subscribe('c');
        for my $text ('', 'x', 'x' x 65536, "\xc3\xa9" x 32768, "\xf0\x9f\x98\x80", "\xef\xbb\xbfa") {
            is($b->publish('c', $text), 1, 'C-4: ' . length($text) . ' bytes publish');
            my $message = $a->wait_message($handle);
            ok($message->[0] == 0 && $message->[1] eq $text, 'C-4: and come as they are');
        }
        is($b->call(POST => 'channels/c/messages')->{json}{delivered}, 1, 'C-4: no body at all is an empty text');
        is_deeply($a->wait_message($handle), [0, ''], 'C-4: and comes');
        for my $bad ("\xff", "\xffabc", "a\xff", "\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80", "\xe2\x82") {
            is(refusal($b->call(POST => 'channels/c/messages', body => $bad)), '400 invalid_text',
               'C-4: refused: ' . unpack 'H*', $bad);
        }
        is(message_of($b->call(POST => 'channels/c/messages', body => "\xff")), '持久频道文字不得以字节 0xFF 起首', 'C-4: message');
        for my $how ([body => 'x' x 65537], [body => chunked('x' x 65537), headers => ['Transfer-Encoding', 'chunked']]) {
            my $answer = $b->call(POST => 'channels/c/messages', @$how);
            is(refusal($answer), '413 text_too_large', 'C-4: 65537 bytes are refused');
            is(message_of($answer), '持久频道文字超过 65536 字节', 'C-4: message');
        }
        is($b->call(POST => 'channels/c/messages', body => chunked('x' x 65536),
                    headers => ['Transfer-Encoding', 'chunked'])->{json}{delivered}, 1, 'C-4: 65536 bytes in chunks');
        is(length $a->wait_message($handle)->[1], 65536, 'C-4: come');
        is_deeply($a->wait_message($handle), [1, ''], 'C-7: nothing of what was refused was queued');
        done($a, $b);
    },

    'C-5: reasons' => sub {
        my ($a, $b) = two_events();
        my $handle = $a->subscribe('c');
        is(refusal($b->call(POST => 'channels/c/close', body => 'x' x 1025)), '413 reason_too_large', 'C-5: 1025 bytes');
        is(refusal($b->call(POST => 'channels/c/close', body => chunked('x' x 1025), headers => ['Transfer-Encoding', 'chunked'])),
           '413 reason_too_large', 'C-5: in chunks');
        is(refusal($b->call(POST => 'channels/c/close', body => "\xc3")), '400 invalid_text', 'C-5: not UTF-8');
        is($a->count('c'), 1, 'C-7: nothing was closed');
        is($b->close_channel('c', 'x' x 1024), 1, 'C-5: 1024 bytes');
        is_deeply($a->wait_message($handle), [2, 'x' x 1024, 'closed'], 'C-5: and come');
        $handle = $a->subscribe('c');
        is($b->close_channel('c', ''), 1, 'C-5: none');
        is_deeply($a->wait_message($handle), [2, '', 'closed'], 'C-5: comes too');
        done($a, $b);
    },

    'C-6: timeouts' => sub {
        my ($a, $b) = two_events();
        my $handle = $a->subscribe('c');
        for my $query ('', '?', '?timeout', '?timeout=', '?timeout=-1', '?timeout=+1', '?timeout=1.5', '?timeout=3600001',
                       '?timeout=1e3', '?timeout=%201', '?timeout=1%20', '?timeout=0x10', '?timeout=99999999999999999999',
                       '?timeout=%zz', '?Timeout=1', '?timeout=1s') {
            my $answer = $a->call(GET => "subscriptions/$handle/message$query");
            is(refusal($answer), '400 invalid_timeout', "C-6: $query");
            is(message_of($answer), '持久频道等待超时须在 0 至 3600000 毫秒', 'C-6: message');
        }
        $b->publish('c', $_) for 1 .. 4;
        for my $query ('?timeout=3600000', '?timeout=000', '?x=y&timeout=1', '?timeout=%31') {
            is($a->call(GET => "subscriptions/$handle/message$query")->{json}{status}, 0, "C-6: $query");
        }
        done($a, $b);
    },

    'C-7, C-8: what does not exist' => sub {
        my ($a, $b) = two_events();
        for my $n (1 .. 100) {
            $a->publish("p$n", 'x') == 0 && $a->close_channel("p$n", '') == 0 && $a->count("p$n") == 0 or fail("C-8: p$n");
        }
        $a->subscribe("c$_") for 1 .. 64;
        pass('C-8: publishing, closing and counting create nothing: there is room for 64 channels');
        my $handle = $b->subscribe('c1');
        $a->close_channel("c$_", '') for 2 .. 64;
        is($a->publish('c1', 'x'), 2, 'C-8: a channel is there while it has subscriptions');
        $b->cancel($handle);
        is($a->count('c1'), 1, 'C-8: one is left');
        is($a->close_channel('c1', ''), 1, 'C-8: closing ends the last');
        is($a->publish('c1', 'x'), 0, 'C-8: then it is gone');
        done($a, $b);
    },

    'C-9: objects' => sub {
        my ($a, $b) = (new_event(), new_event());
        my ($of_a, $of_b) = map { $_->subscribe('c') } $a, $b;
        is($a->publish('c', 'to a'), 1, 'C-9: a channel of one object');
        is_deeply($b->wait_message($of_b), [1, ''], 'C-9: is not that of another');
        is($b->close_channel('c', ''), 1, 'C-9: nor is its close');
        is_deeply($a->wait_message($of_a), [0, 'to a'], 'C-9: its own subscriber gets it');
        is_deeply($a->wait_message($of_a), [1, ''], 'C-9: and is not closed');
        done($a, $b);
    },

    'C-11, samples 1 and 2' => sub {
        my ($a, $b) = two_events();
        my $handle = $a->subscribe('c');
        is($b->publish('c', 'a'), 1, 'sample 1: B publishes a');
        is($b->publish('c', 'b'), 1, 'sample 1: and b');
        is_deeply($a->wait_message($handle, 1000), [0, 'a'], 'sample 1: A waits: a');
        is_deeply($a->wait_message($handle, 1000), [0, 'b'], 'sample 1: and b');
        is($b->publish('d', 'early'), 0, 'sample 2: publishing with no subscriber answers 0');
        my $late = $a->subscribe('d');
        $b->publish('d', 'late');
        is_deeply($a->wait_message($late), [0, 'late'], 'sample 2, C-11: what was published before never arrives');
        is_deeply($a->wait_message($late), [1, ''], 'C-11: nothing else');
        done($a, $b);
    },

    'C-12, sample 7: foreign handles' => sub {
        my ($a, $b) = two_events();
        my $handle = $a->subscribe('c');
        my $of_b = $b->subscribe('c');
        for my $bad ($handle, '0' x 16, 'f' x 16, 'x', '%20', uc $handle . 'Z', substr($handle, 1), "${handle}0") {
            for my $call (['GET', "subscriptions/$bad/message?timeout=0"], ['DELETE', "subscriptions/$bad"]) {
                my $answer = $b->call(@$call);
                is(refusal($answer), '403 unknown_subscription', "C-12: $call->[0] with $bad");
                is(message_of($answer), '持久频道订阅柄无效：不是本次事件创建的订阅', 'C-12: message');
            }
        }
        $b->publish('c', 'x');
        is_deeply($a->wait_message($handle), [0, 'x'], 'C-12: the real one is unharmed');
        done($b);
        is(refusal($b->call(GET => "subscriptions/$of_b/message?timeout=0")), '401 unknown_event', 'C-12: an event that is over');
        is(refusal($a->call(DELETE => "subscriptions/$of_b")), '403 unknown_subscription', 'C-12: and its handle');
        done($a);
    },

    'C-13: cancelling' => sub {
        my ($a, $b) = two_events();
        my $handle = $a->subscribe('c');
        $b->publish('c', 'x');
        ok($a->cancel($handle), 'C-13: cancels') for 1 .. 3;
        is($b->publish('c', 'y'), 0, 'C-13: it is over');
        is_deeply($a->wait_message($handle, $_), [2, $zh_cancelled, 'cancelled'], "C-13: a wait of $_ ms") for 0, 1000, 0;
        my $other = $a->subscribe('c');
        my $wait = $a->begin_wait($other, 10000);
        ok($wait->is_waiting, 'C-13: while another call waits');
        $a->cancel($other);
        is_deeply($wait->message(5), [2, $zh_cancelled, 'cancelled'], 'C-13: that one hears of it at once');
        done($a, $b);
    },

    'C-14: the end of an event' => sub {
        my %ends = (
            'answered' => sub { $_[0]->end },
            'client gone' => sub { $_[0]->leave },
        );
        for my $how (sort keys %ends) {
            my ($a, $b) = two_events();
            $a->subscribe('c') for 1 .. 3;
            my $handle = $a->subscribe('d');
            my $wait = $a->begin_wait($handle, 30000);
            ok($wait->is_waiting, 'C-14: one waits');
            $ends{$how}->($a);
            ok(NginxProcess::wait_until(5, sub { $b->count('c') == 0 }), "C-14: $how: its subscriptions are over");
            is($b->publish('c', 'x'), 0, 'C-14: a publish finds none');
            is_deeply($wait->message(5), [2, $zh_cancelled, 'cancelled'], 'C-14: its wait is told');
            is(refusal($a->call(POST => 'channels/c/subscriptions')), '401 unknown_event', 'C-14: its token is worth nothing');
            done($b);
        }
        ++$object;
        my ($a, $b) = ($host->event(object => "o$object", how => 'dies'), $host->event(object => "o$object"));
        $a->subscribe('c');
        is($a->end->{status}, 502, 'C-14: the application dies');
        ok(NginxProcess::wait_until(5, sub { $b->count('c') == 0 }), 'C-14: its subscriptions are over');
        done($b);
    },

    'C-15, C-16: who gets what in which order' => sub {
        my ($a, $b) = two_events();
        my @handles = map { ($_ % 2 ? $a : $b)->subscribe('c') } 0 .. 3;
        my @published;
        for my $n (1 .. 60) {
            is(($n % 2 ? $a : $b)->publish('c', "m$n"), 4, 'C-15: to each of them') if $n % 20 == 0;
            ($n % 2 ? $a : $b)->publish('c', "m$n") if $n % 20;
            push @published, "m$n";
        }
        for my $i (0 .. 3) {
            my $event = $i % 2 ? $a : $b;
            is_deeply([map { $event->wait_message($handles[$i])->[1] } 1 .. 60], \@published, "C-16: the order of publishing, $i");
        }
        # Two at once: whatever order they come in, all see the same.
        my @calls = map { my $n = $_; map { $_->begin(POST => 'channels/c/messages', body => "$_->{name}-$n") } $a, $b } 1 .. 5;
        $_->answer(5) for @calls;
        my @seen = map { my $i = $_; join ' ', map { ($i % 2 ? $a : $b)->wait_message($handles[$i])->[1] } 1 .. 10 } 0 .. 3;
        is($seen[$_], $seen[0], 'C-16: all subscriptions see the same order') for 1 .. 3;
        done($a, $b);
    },

    'C-17, C-22: nobody is held up' => sub {
        my ($a, $b) = two_events();
        my $quiet = $a->subscribe('quiet');
        $a->subscribe('slow');
        my @waits = map { $a->begin_wait($_, 30000) } $quiet, map { $a->subscribe('quiet') } 1 .. 5;
        ok($waits[-1]->is_waiting, 'C-22: events wait');
        my $start = time;
        is($b->publish('slow', 'x' x 60000), 1, 'C-17: a publish to a reader that does not read') for 1 .. 10;
        ok(time - $start < 5, 'C-17, C-22: goes on at once');
        is_deeply($a->wait_message($a->subscribe('other'), 0), [1, ''], 'C-22: so do calls of the same event');
        is($b->publish('quiet', 'now'), 6, 'C-22: those that wait');
        is_deeply($_->message(5), [0, 'now'], 'C-22: get theirs') for @waits;
        done($a, $b);
    },

    'C-18, C-19, C-20, sample 3: timeouts' => sub {
        my ($a, $b) = two_events();
        my $handle = $a->subscribe('c');
        my $start = time;
        is_deeply($a->wait_message($handle, 0), [1, ''], 'C-19: a poll');
        ok(time - $start < 1, 'C-19: answers at once');
        for my $try (1 .. 3) {
            $start = time;    # before it is sent: afterwards would be late when this process has to wait
            my $wait = $a->begin_wait($handle, 200);
            my $counts = 0;
            until (defined $wait->answer(0.01)) { is($b->count('c'), 1, 'sample 3: counts read meanwhile') if ++$counts < 4 }
            my $took = time - $start;
            is_deeply($wait->message, [1, ''], 'sample 3, C-20: (1, empty)');
            ok($took >= 0.2, "C-20: not before 200 ms: $took");
            ok($took < 0.5, "C-20: about then: $took");
        }
        $b->publish('c', 'x');
        is_deeply($a->wait_message($handle, 0), [0, 'x'], 'C-19: a poll takes what is there');
        my $wait = $a->begin_wait($handle, 10000);
        ok($wait->is_waiting, 'C-18: waits');
        $b->publish('c', 'y');
        is_deeply($wait->message(5), [0, 'y'], 'C-18: until there is one');
        done($a, $b);
    },

    'C-21: final' => sub {
        my ($a, $b) = two_events();
        my ($one, $two) = map { $a->subscribe('c') } 1 .. 2;
        $b->close_channel('c', 'over');
        is_deeply($a->wait_message($one, 10), [2, 'over', 'closed'], 'C-21: the same reason') for 1 .. 3;
        $a->cancel($one);
        is_deeply($a->wait_message($one), [2, 'over', 'closed'], 'C-21: also after a cancel');
        $a->subscribe('c');
        $b->publish('c', 'x');
        $b->close_channel('c', 'again');
        is_deeply($a->wait_message($one), [2, 'over', 'closed'], 'C-21: and after another generation');
        is_deeply($a->wait_message($two), [2, 'over', 'closed'], 'C-21: for the other one too');
        done($a, $b);
    },

    'C-23: a caller that has left' => sub {
        my ($a, $b) = two_events();
        my $handle = $a->subscribe('c');
        for my $n (1 .. 20) {
            my $wait = $a->begin_wait($handle, 30000);
            ok($wait->is_waiting(0.02), 'C-23: waits') if $n == 1;
            sleep 0.01;
            $wait->drop;
            $b->publish('c', "m$n");
            my $message = $a->call(GET => "subscriptions/$handle/message?timeout=3000");
            for (1 .. 50) {    # the worker may not have seen the leaving yet
                last if $message->{status} != 409;
                sleep 0.005;
                $message = $a->call(GET => "subscriptions/$handle/message?timeout=3000");
            }
            is($message->{json}{text}, "m$n", 'C-23: its message stays for the next wait');
        }
        done($a, $b);
    },

    'C-24: two waits at once' => sub {
        my ($a, $b) = two_events();
        my ($handle, $other) = map { $a->subscribe('c') } 1 .. 2;
        my $wait = $a->begin_wait($handle, 10000);
        ok($wait->is_waiting, 'C-24: one waits');
        is(refusal($a->call(GET => "subscriptions/$handle/message?timeout=$_")), '409 wait_in_progress', "C-24: another of $_ ms")
            for 0, 1000;
        ok($wait->is_waiting, 'C-24: the first waits on');
        is_deeply($a->wait_message($other), [1, ''], 'C-24: another handle is free');
        $b->publish('c', 'x');
        is_deeply($wait->message(5), [0, 'x'], 'C-24: the first gets the message');
        is_deeply($a->wait_message($handle), [1, ''], 'C-24: and then it is free again');
        done($a, $b);
    },

    'C-25, C-26, sample 4: closing' => sub {
        my ($a, $b) = two_events();
        my $handle = $a->subscribe('c');
        my $second = $b->subscribe('c');
        $b->publish('c', $_) for 1, 2;
        is($b->close_channel('c', $zh_closed), 2, 'C-25: how many that closed');
        is_deeply($a->wait_message($handle, 1000), [0, 1], 'sample 4: what was queued comes first');
        is_deeply($a->wait_message($handle, 1000), [0, 2], 'sample 4: all of it');
        is_deeply($a->wait_message($handle, 1000), [2, $zh_closed, 'closed'], 'sample 4: then the reason') for 1 .. 2;
        is($b->close_channel('c', 'twice'), 0, 'C-25: a second close finds none');
        my $new = $a->subscribe('c');
        is($b->count('c'), 1, 'C-26: a new generation');
        is($b->publish('c', 'new'), 1, 'C-26: has its own messages');
        is_deeply($a->wait_message($new), [0, 'new'], 'C-26: for its own subscribers');
        is_deeply([map { $b->wait_message($second)->[1] } 1 .. 3], [1, 2, $zh_closed], 'C-26: the old one ends as it was');
        my @waits = map { $a->begin_wait($_, 30000) } $new, map { $a->subscribe('c') } 1 .. 3;
        ok($waits[-1]->is_waiting, 'C-25: with waits');
        is($b->close_channel('c', 'bye'), 4, 'C-25: it closes them');
        is_deeply($_->message(5), [2, 'bye', 'closed'], 'C-25: each is told') for @waits;
        done($a, $b);
    },

    'C-27, C-28, sample 5: backlog' => sub {
        my ($a, $b) = two_events();
        my ($slow, $reads, $handle) = map { $a->subscribe('c') } 1 .. 3;
        my $text = 'x' x 65536;
        for my $n (1 .. 16) {
            is($b->publish('c', $text), 3, 'C-27: up to 1 MiB') if $n == 16;
            $b->publish('c', $text) if $n < 16;
            $a->wait_message($reads);
        }
        is(length $a->wait_message($handle)->[1], 65536, 'C-27: exactly 1 MiB is allowed');
        is($b->publish('c', 'y'), 2, 'C-27, sample 5: a byte more is not: no longer counted');
        is($b->count('c'), 2, 'C-15: nor in the count');
        is_deeply($a->wait_message($slow, $_), [2, $zh_backlog, 'backlog'], 'C-27: what was queued is dropped') for 0, 500, 0;
        is_deeply($a->wait_message($reads), [0, 'y'], 'C-28: the others notice nothing');
        is_deeply([map { length $a->wait_message($handle)->[1] } 1 .. 16], [(65536) x 15, 1], 'C-28: and lose nothing');
        is($b->publish('c', ''), 2, 'C-15: and it goes on');
        $a->cancel($slow);
        is_deeply($a->wait_message($slow), [2, $zh_backlog, 'backlog'], 'C-21: the reason stays');
        done($a, $b);
    },

    'C-27a: byte for byte' => sub {
        my ($a, $b) = two_events();
        my $handle = $a->subscribe('c');
        my @texts = ("a\0b\0", "\r\n\n\r", "\x01\x1f\x7f\"\\/", "\xc2\x85\xe2\x80\xa8\xe2\x80\xa9", "\xf4\x8f\xbf\xbf", "</script>",
                     join '', map { chr } 0 .. 127);
        $b->publish('c', $_) for @texts;
        is_deeply($a->wait_message($handle), [0, $_], 'C-27a: ' . unpack 'H*', $_) for @texts;
        done($a, $b);
    },

    'C-29: counting' => sub {
        my ($a, $b) = two_events();
        is($a->count('c'), 0, 'C-29: no channel, 0');
        my @handles = map { $a->subscribe('c') } 1 .. 3;
        is($b->count('c'), 3, 'C-29: the live ones');
        $a->cancel($handles[0]);
        is($b->count('c'), 2, 'C-29: without the cancelled');
        is_deeply($a->wait_message($handles[1]), [1, ''], 'C-29: it creates no message');
        my $head = $a->call(HEAD => 'channels/c');
        is("$head->{status} $head->{headers}{'content-length'} $head->{body}", '200 19 ', 'HEAD counts too');
        done($a, $b);
    },
);

sub chunked {
    my ($text) = @_;
    return join('', map { sprintf("%x\r\n%s\r\n", length, $_) } $text =~ /.{1,10000}/gs) . "0\r\n\r\n";
}

for my $how ([1, 'same'], [2, 'same'], [2, 'other'], [4, 'any']) {
    my ($workers, $at) = @$how;
    $host = HostCalls->start(workers => $workers, at => $at);
    my @left = @clauses;
    while (my ($name, $test) = splice @left, 0, 2) {
        subtest "$name; $workers workers, calls at $at" => $test;
    }
    $host->server->no_alerts("no alerts with $workers workers, calls at $at");
    ok($host->server->stop, 'and it ends');
}

done_testing();
