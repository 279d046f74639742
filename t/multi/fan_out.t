# SPDX-License-Identifier: BSD-2-Clause
# Many subscribers of one channel in several workers get every message exactly once and in order,
# while others come and go. (bench/ does the same with 10,000.)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableServer;
use Test::More;

my ($readers, $messages) = (400, 100);
my $server = DurableServer->start(
    workers => 2, http => 'durable_zone main 8m subscriptions=10000; durable_ping 0;', server => $ChannelCalls::server);
my @streams = map { subscribe($server, 'a') } 1 .. $readers;
my (@delivered, @late);
for my $i (1 .. $messages) {
    push @delivered, publish($server, 'a', "$i " . 'x' x ($i * 7 % 200));
    push @late, subscribe($server, 'a') if $i % 10 == 5;
    if ($i % 20 == 0) { (shift @late)->client->close }
}
my @expected = map { "$_ " . 'x' x ($_ * 7 % 200) } 1 .. $messages;
my $exact = grep { join("\n", $_->next_texts($messages, 20)) eq join("\n", @expected) } @streams;
is($exact, $readers, 'each got each message once, in order');
is(scalar(grep { $_ < $readers || $_ > $readers + 10 } @delivered), 0, 'each publish counted them');
for my $stream (@late) {
    my @got;
    while (my $event = $stream->next_event(5)) {
        push @got, $event->{data};
        last if $event->{data} eq $expected[-1];
    }
    is_deeply(\@got, [@expected[$messages - @got .. $messages - 1]], 'a late one got all from then on: ' . @got);
}
ok($_->client->is_quiet(0), 'and nothing more') for $streams[0], $streams[-1];
$_->client->close for @late;
my $left = $#streams / 2;
$_->client->close for splice @streams, $left;
ok(wait_count($server, 'a', scalar @streams), 'half of them leave');

$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');
is(scalar(grep { $_->wait_end(5) eq 'end' } @streams), scalar @streams, 'and the others end whole');
done_testing();
