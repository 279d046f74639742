# SPDX-License-Identifier: BSD-2-Clause
# History, clause by clause (H-1 to H-11), with 1, 2 and 4 workers: publishers and subscribers reach
# whichever worker takes them.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient;
use DurableServer;
use SseClient;
use Test::More;

my $server;
my $object = 0;

sub publish {
    my ($path, $text) = @_;
    my $answer = DurableClient::http_request($server->port, 'POST', "$path&o=o$object", body => $text);
    return $answer->{body} =~ /"id":"([^"]+)"/ ? $1 : $answer->{body};
}
sub keep { my ($channel, @texts) = @_; return map { publish("/keep?c=$channel", $_) } @texts }
sub open_stream {
    my ($query, @headers) = @_;
    return SseClient->open(port => $server->port, path => "/sub?o=o$object&$query", headers => [@headers]);
}
# What comes at once: `data` of each event, a gap as `gap ASKED NEXT`.
sub come {
    my ($stream, $count) = @_;
    return map {
        my $event = $stream->next_event(5);
        !defined $event ? 'nothing'
            : $event->{event} eq 'durable-gap' ? do {
                my ($asked, $next) = $event->{data} =~ /^\{"asked":"(.*)","next":(.*)\}$/;
                'gap ' . $asked . ' ' . $next;
            } : $event->{data};
    } 1 .. $count;
}
sub is_quiet { my ($stream) = @_; return !defined $stream->next_event(0.2) }
sub history {
    my ($query) = @_;
    return DurableClient::http_request($server->port, 'GET', "/api/channels/a/messages?o=o$object&$query")->{body};
}

my @clauses = (
    'H-1' => sub {
        my @ids = keep('a', 1 .. 5);
        is_deeply([come(open_stream('c=a&last_event_id=oldest'), 3)], [3, 4, 5], 'H-1: at most N are kept');
        publish('/forget?c=b', 'x');
        ok(is_quiet(open_stream('c=b&last_event_id=oldest')), 'H-1: off keeps none');
        publish('/zero?c=b', 'x');
        ok(is_quiet(open_stream('c=b&last_event_id=oldest')), 'H-1: messages=0 keeps none');
        publish('/brief?c=t', 'old');
        my $is_gone = NginxProcess::wait_until(5, sub { !defined open_stream('c=t&last_event_id=oldest')->next_event(0.05) });
        ok($is_gone, 'H-1: none older than T');
    },
    'H-2' => sub {
        my @ids = (keep('a', 'x'), keep('b', 'y'), keep('a', 'z'));
        my ($epoch) = $ids[0] =~ /^(.*)\./;
        is_deeply(\@ids, ["$epoch.1", "$epoch.2", "$epoch.3"], 'H-2: numbers count over all channels of the object');
        is((grep { length > 64 || /[^A-Za-z0-9_.-]/ } @ids), 0, 'H-2: an id is short and plain');
        my $event = open_stream('c=b&last_event_id=oldest')->next_event(5);
        is($event->{id}, $ids[1], 'H-2: a stream sends it');
        ++$object;
        my ($other) = keep('a', 'x');
        unlike($other, qr/^\Q$epoch\E\./, 'H-2: another object has another epoch');
    },
    'H-3' => sub {
        my @ids = keep('a', 1 .. 3);
        is_deeply([come(open_stream('c=a', 'Last-Event-ID', $ids[0]), 2)], [2, 3], 'H-3: what was missed');
        my $stream = open_stream("c=a&last_event_id=$ids[0]", 'Last-Event-ID', $ids[1]);
        is_deeply([come($stream, 1)], [3], 'H-3: the header wins over the argument');
        keep('a', 4);
        is_deeply([come($stream, 1)], [4], 'H-3: then live messages');
        ok(is_quiet($stream), 'H-3: each once');
        my $last = open_stream('c=a', 'Last-Event-ID', (keep('a', 5))[0]);
        ok(is_quiet($last), 'H-3: nothing missed, nothing sent');
    },
    'H-3 mixed' => sub {
        # A reader that is slow keeps messages alive that were published without history.
        my $slow = SseClient->open(port => $server->port, path => "/sub?o=o$object&c=a", rcvbuf => 4096);
        my ($id) = keep('a', 'kept 1');
        publish('/forget?c=a', 'x' x 60000) for 1 .. 12;
        keep('a', 'kept 2');
        is_deeply([come(open_stream('c=a', 'Last-Event-ID', $id), 1)], ['kept 2'], 'H-3: only what is kept comes again');
        $slow->client->close;
    },
    'H-4' => sub {
        my @ids = keep('a', 1 .. 5);
        my ($epoch) = $ids[0] =~ /^(.*)\./;
        my @bad = ('x', '.', "$epoch", "$epoch.", ".5", "$epoch.05", "$epoch.-1", "$epoch.5x", "0$epoch.5", "$epoch.99", "$epoch.6",
            uc($epoch) . 'A.5', "1.5", $ids[0], '5', "$epoch.18446744073709551616", "$epoch .5", 'z' x 70, "$epoch.5.5");
        for my $bad (@bad) {
            my @got = come(open_stream('c=a', 'Last-Event-ID', $bad), 4);
            is_deeply(\@got, ["gap $bad \"$ids[2]\"", 3, 4, 5], "H-4: $bad");
        }
        is_deeply([come(open_stream('c=a', 'Last-Event-ID', $ids[1]), 3)], [3, 4, 5], 'H-4: nothing after it is gone: no gap');
        is_deeply([come(open_stream('c=none', 'Last-Event-ID', 'x'), 1)], ['gap x null'], 'H-4: nothing is kept');
    },
    'H-5' => sub {
        keep('a', 1, 2);
        my $stream = open_stream('c=a');
        ok(is_quiet($stream), 'H-5: a stream starts with new messages');
        my $oldest = SseClient->open(port => $server->port, path => "/oldest?o=o$object&c=a");
        is_deeply([come($oldest, 2)], [1, 2], 'H-5: durable_subscribe_from oldest');
        is_deeply([come(open_stream('c=a&last_event_id=oldest'), 2)], [1, 2], 'H-5: last_event_id=oldest');
        is_deeply([come(open_stream('c=a&last_event_id=', 'Last-Event-ID', ''), 0)], [], 'H-5: an empty id says nothing');
    },
    'H-6' => sub {
        my @ids = map { keep($_ % 2 ? 'a' : 'b', $_) } 1 .. 6;
        my $stream = SseClient->open(port => $server->port, path => "/both?o=o$object", headers => ['Last-Event-ID', $ids[1]]);
        is_deeply([come($stream, 4)], [3, 4, 5, 6], 'H-6: all channels, in order');
    },
    'H-7' => sub {
        is(DurableClient::http_request($server->port, 'POST', "/keep?c=a&o=o$object", body => 'x')->{body} =~ /"delivered":0/, 1,
            'H-7: a kept message is delivered to nobody');
        is(DurableClient::http_request($server->port, 'GET', "/api/channels/a?o=o$object")->{body}, '{"subscriptions":0}',
            'H-7: and makes no subscription');
    },
    'H-8' => sub {
        my $text = 'x' x 60000;
        my @refused = grep { $_ =~ /no_memory/ } map { publish("/much?c=c$_", $text) } 1 .. 60;
        is(@refused, 0, 'H-8: kept messages make room');
        my $stream = open_stream('c=live');
        is(publish('/forget?c=live', $text), '{"delivered":1}', 'H-8: for those that are not kept too');
        is_deeply([come($stream, 1)], [$text], 'H-8: which arrive');
    },
    'H-9' => sub {
        my @ids = keep('a', 1, 2);
        $server->reload;
        is_deeply([come(open_stream('c=a', 'Last-Event-ID', $ids[0]), 1)], [2], 'H-9: history survives a reload');
        $server->kill_worker(($server->worker_pids)[0]);
        is_deeply([come(open_stream('c=a', 'Last-Event-ID', $ids[0]), 1)], [2], 'H-9: and the death of a worker');
        is((keep('a', 3))[0] =~ s/\.\d+$//r, $ids[0] =~ s/\.\d+$//r, 'H-9: the epoch stays');
    },
    'H-10' => sub {
        is(history('limit=1'), '{"items":[],"head":null,"gap":false}', 'H-10: nothing is kept');
        my @ids = (publish('/keep?c=a&event=greet', "a\n"), keep('a', 'b'), keep('a', 'c'));
        is(history("after=$ids[0]&limit=1"), qq({"items":[{"id":"$ids[1]","event":null,"text":"b"}],"head":"$ids[2]","gap":false}),
            'H-10: after an id, with a limit');
        is(history(''), qq({"items":[{"id":"$ids[0]","event":"greet","text":"a\\n"},{"id":"$ids[1]","event":null,"text":"b"},)
            . qq({"id":"$ids[2]","event":null,"text":"c"}],"head":"$ids[2]","gap":false}), 'H-10: all that is kept');
        like(history('after=x'), qr/"gap":true\}$/, 'H-10: an unknown id');
        like(history('limit=0'), qr/invalid_request/, 'H-10: a bad limit');
        my @many = map { publish('/much?c=a', 'y' x 60000) } 1 .. 12;
        my $body = history("after=$ids[2]&limit=200");
        is(() = $body =~ /"text":"y{60000}"/g, 12, 'H-10: a long page is whole');
    },
    'H-11' => sub {
        my @ids = keep('a', 'first');
        my $slow = SseClient->open(port => $server->port, path => "/sub?o=o$object&c=a", rcvbuf => 4096);
        my @sent = map { publish('/much?c=a', sprintf('%02d', $_) . 'z' x 65000) } 1 .. 60;
        my ($last, @got) = ($ids[0]);
        for (1 .. 60) {
            while (my $event = $slow->next_event(5)) {
                last if $event->{event} eq 'durable-backlog';
                push @got, substr $event->{data}, 0, 2;
                $last = $event->{id};
            }
            last if @got >= 60;
            $slow = SseClient->open(port => $server->port, path => "/sub?o=o$object&c=a", headers => ['Last-Event-ID', $last]);
        }
        is("@got", join(' ', map { sprintf '%02d', $_ } 1 .. 60), 'H-11: dropped for backlog, resumed without a loss');
    },
);

for my $workers (1, 2, 4) {
    my @todo = @clauses;
    while (my ($name, $clause) = splice @todo, 0, 2) {
        next if $name eq 'H-1' && $workers == 4;    # it waits for the time to pass
        my $is_new = !$server || $name =~ /^H-(?:8|9|10|11)$/;
        $server = undef if $is_new;
        $server //= DurableServer->start(
            workers => $workers,
            http => 'durable_zone main ' . ($name eq 'H-8' ? '2m;' : '16m;'),
            server => <<'END');
location = /sub { durable_object main $arg_o; durable_subscribe $arg_c; }
location = /oldest { durable_object main $arg_o; durable_subscribe $arg_c; durable_subscribe_from oldest; }
location = /both { durable_object main $arg_o; durable_subscribe a b; }
location = /keep { durable_object main $arg_o; durable_publish $arg_c; durable_history messages=3 time=1h; }
location = /much { durable_object main $arg_o; durable_publish $arg_c; durable_history messages=100; }
location = /brief { durable_object main $arg_o; durable_publish $arg_c; durable_history messages=9 time=100ms; }
location = /zero { durable_object main $arg_o; durable_publish $arg_c; durable_history messages=0; }
location = /forget { durable_object main $arg_o; durable_publish $arg_c; durable_history off; }
location /api/ { durable_object main $arg_o; durable_api; }
END
        ++$object;
        subtest "$name, $workers workers" => $clause;
        $server->no_alerts("$name: no alerts", $name eq 'H-9' ? (qr/exited on signal 9/) : ());
    }
    $server = undef;
}
done_testing;
