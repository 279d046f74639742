# SPDX-License-Identifier: BSD-2-Clause
# A full zone refuses with 503 no_memory, changes nothing and disturbs nobody; when its users have
# left it takes exactly as much again, so nothing of it was lost.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableClient;
use DurableServer;
use SseClient;
use Test::More;

my $no_memory = '503 {"code":"no_memory","message":"the zone is full, nothing was changed"}';
my $server = DurableServer->start(
    workers => 1,
    http => 'durable_zone main 1m backlog=100m; durable_ping 0; keepalive_requests 1000000;'
        . "server { listen 127.0.0.1:{{port_slow}} sndbuf=8k; $ChannelCalls::server }",
    server => $ChannelCalls::server
        . 'location = /key { durable_object main $arg_key; durable_subscribe $arg_channel $arg_other; }',
);

# Texts that a slow client does not read
for my $size (10, 100, 1000, 4000, 10000, 65536) {
    my @accepted;
    for my $round (1, 2, 3) {
        my $slow = SseClient->open(port => $server->port('slow'), path => '/sub?channel=slow', rcvbuf => 4096);
        $slow->wait_comments(1, 5) or die 'no stream';
        my $other = subscribe($server, 'other');
        # What the sockets take is not in the zone: fill those first.
        my $big = 'x' x 60000;
        publish($server, 'slow', $big) for 1 .. 3;
        my $count = 0;
        my $answer = 0;
        ++$count while $count < 100000 && ($answer = publish($server, 'slow', 'y' x $size)) eq '1';
        push @accepted, $count;
        is($answer, $no_memory, "$size bytes: refused once the zone is full") if $round == 1;
        if ($round == 1) {
            my $small = publish($server, 'other', '');
            ok($small eq '1' ? reads($other, '') : $small eq $no_memory, "$size bytes: another channel's is accepted or refused: $small");
        }
        if ($round == 2) {    # it drains instead of leaving
            my @texts = $slow->next_texts($count + 3, 20);
            is(scalar @texts, $count + 3, "$size bytes: the slow one gets all that was accepted");
            is(scalar(grep { $_ ne $big && $_ ne 'y' x $size } @texts), 0, "$size bytes: and nothing else");
            is(publish($server, 'slow', 'z'), 1, "$size bytes: then there is room");
            ok(reads($slow, 'z'), "$size bytes: and it goes on");
        }
        $slow->client->close;
        ok(wait_count($server, 'slow', 0), "$size bytes: it leaves");
        is(publish($server, 'other', "round $round"), 1, "$size bytes: there is room for others");
        while (my $event = $other->next_event(5)) { last if $event->{data} eq "round $round" }
        $other->client->close;
        ok(wait_count($server, 'other', 0), "$size bytes: it leaves too");
    }
    is_deeply(\@accepted, [($accepted[0]) x 3], "$size bytes: as many are accepted each time: @accepted");
}

# Subscriptions
my @accepted;
for my $round (1, 2, 3) {
    my (@streams, $refusal);
    while (@streams < 3000) {
        my $path = '/key?channel=a&other=b&key=' . 'k' x 400 . @streams;
        my $stream = SseClient->open(port => $server->port, path => $path);
        if ($stream->status != 200) { $refusal = $stream; last }
        push @streams, $stream;
    }
    push @accepted, scalar @streams;
    is($refusal && $refusal->status . ' ' . $refusal->client->read_bytes($refusal->header('Content-Length'), 5), $no_memory,
       'a subscription is refused once the zone is full');
    is($streams[0]->client->is_eof ? 'closed' : 'open', 'open', 'those from before stay');
    $_->client->close for @streams;
    ok(NginxProcess::wait_until(10, sub {
        my $stream = SseClient->open(port => $server->port, path => '/key?channel=a&other=b&key=x');
        return $stream->status == 200;
    }), 'when they leave there is room');
    # The last of them may not be noticed yet.
    ok(wait_count($server, 'a', 0), 'nobody is there');
}
cmp_ok($accepted[0], '>', 50, 'many subscriptions fit');
is_deeply(\@accepted, [($accepted[0]) x 3], "as many each time: @accepted");

$server->no_alerts;
unlike($server->error_log, qr/no memory/, 'and a full zone is an answer, nothing for the log');
ok($server->stop, 'nginx ends at QUIT');
done_testing();
