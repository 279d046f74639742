# SPDX-License-Identifier: BSD-2-Clause
# Reloads with open streams: the zone goes on (C-10), workers that are to quit end their streams
# at a message boundary, and while both generations live they reach each other.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableClient;
use DurableServer;
use Http2Client;
use Test::More;
use Time::HiRes qw(time);

my $server = DurableServer->start(
    workers => 2, server => $ChannelCalls::server . 'location /ssl { return 204; }',
    http => $ChannelCalls::http . 'server { listen 127.0.0.1:{{port_slow}} sndbuf=8k; listen 127.0.0.1:{{port_tls}} ssl http2;'
        . "ssl_certificate {{cert}}; ssl_certificate_key {{key}}; $ChannelCalls::server }",
);

# Streams end whole, and a new one gets what is published from then on.
my @old_workers = $server->worker_pids;
my @streams = map { subscribe($server, 'a', client => $server->connect_to_worker($_)) } @old_workers;
push @streams, subscribe($server, 'a', version => '1.0'), subscribe($server, 'a', port => $server->port('tls'), tls => 1);
my $h2 = Http2Client->connect(port => $server->port('tls'), tls => 1);
my $id = $h2->request(path => '/sub?channel=a');
ok($h2->wait_data($id, qr/: \n\n/, 5), 'an HTTP/2 stream');
# One that has not asked yet, and one in the middle of its request, when the workers are to quit.
my $silent = DurableClient->connect(port => $server->port);
my $half = DurableClient->connect(port => $server->port);
$half->write("GET /sub?channel=a HTTP/1.1\r\nHost: localh");
is(publish($server, 'a', 'before'), 5, 'published before the reload');
ok($server->reload, 'reload');
for my $stream (@streams) {
    ok(reads($stream, 'before'), 'a stream has the message from before');
    is($stream->wait_end(5), 'end', 'and ends whole');
}
ok($h2->wait_end($id, 5) && $h2->is_ended($id), 'so does the HTTP/2 stream');
like($h2->data($id), qr/data: before\n\n\z/, 'with the message');
is(publish($server, 'a', 'nobody'), 0, 'nobody is subscribed now');
my $again = subscribe($server, 'a');
is(publish($server, 'a', 'after'), 1, 'a reconnected client is');
ok(reads($again, 'after'), 'and reads on');

# A request that reaches an old worker when it is already to quit: its stream ends at once.
if ($half->write("ost\r\n\r\n", 2) && (my $head = eval { $half->read_head(5) })) {
    is($head->{status}, 200, 'a request finished after the reload is answered');
    is($half->read_chunks(5), ": \n\n", 'by a stream that ends at once');
} else {
    pass('a request finished after the reload is not answered: the client connects again') for 1, 2;
}
$silent->close;
ok($server->wait_gone($_, 10), 'an old worker leaves') for @old_workers;

# A slow client holds its old worker: publishes through new ones reach what it serves.
ok($server->reload(main => 'worker_shutdown_timeout 30s;'), 'reload');
my $fast = subscribe($server, 'slow');
my $slow = SseClient->open(port => $server->port('slow'), path => '/sub?channel=slow', rcvbuf => 4096);
ok($slow->wait_comments(1, 5), 'a slow client');
my @texts = map { "$_ " . 'x' x 1000 } 1 .. 300;
publish($server, 'slow', $_) for @texts;
is_deeply([$fast->next_texts(300, 10)], \@texts, 'a fast one has got all');
@old_workers = $server->worker_pids;
ok($server->reload, 'a reload while the slow one is behind');
is($fast->wait_end(5), 'end', 'the fast one ends');
my @got = map { $_->{data} } grep { defined } map { $slow->next_event(5) } 1 .. 300;
is($slow->wait_end(5), 'end', 'the slow one ends whole once it reads');
is_deeply(\@got, [@texts[0 .. $#got]], 'with whole messages in order: ' . @got);
ok($server->wait_gone($_, 10), 'then the old worker leaves') for @old_workers;

# worker_shutdown_timeout ends one that does not read at all.
ok($server->reload(main => 'worker_shutdown_timeout 300ms;'), 'reload with a short worker_shutdown_timeout');
$slow = SseClient->open(port => $server->port('slow'), path => '/sub?channel=slow', rcvbuf => 4096);
ok($slow->wait_comments(1, 5), 'a client that does not read');
publish($server, 'slow', $_) for @texts;
@old_workers = $server->worker_pids;
ok($server->reload, 'reload');
ok($server->wait_gone($_, 5), 'an old worker leaves in time') for @old_workers;
is(publish($server, 'slow', 'x'), 0, 'its subscription is gone');

# Other numbers of workers, again and again.
for my $workers (1, 4, 2, 3, 1) {
    my $stream = subscribe($server, 'many');
    ok($server->reload(workers => $workers), "reload with $workers workers");
    is($stream->wait_end(5), 'end', 'the stream ends');
    my @new = map { subscribe($server, 'many', client => $server->connect_to_worker($_)) } $server->worker_pids;
    is(publish($server, 'many', 'x'), $workers, 'all new workers are reached');
    is(scalar(grep { reads($_, 'x') } @new), $workers, 'each of them');
}

$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');
done_testing();
