# SPDX-License-Identifier: BSD-2-Clause
# C-2 and C-3: how many channels an object and how many subscriptions a channel may have, and
# that a refusal uses nothing up (C-7). Both limits can be configured upward.
use strict;
use warnings;
use utf8;
use Encode qw(encode_utf8);
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use DurableServer;
use SseClient;
use Test::More;
use Time::HiRes qw(time);

my $server = DurableServer->start(
    workers => 2,
    http => 'durable_zone main 8m; durable_zone more 8m channels=66 subscriptions=258; durable_ping 0;',
    server => join '', map {
        "location = /sub-$_ { durable_object $_ \$arg_object; durable_subscribe \$arg_channel; }"
        . "location = /two-$_ { durable_object $_ \$arg_object; durable_subscribe \$arg_channel \$arg_other; }"
        . "location = /pub-$_ { durable_object $_ \$arg_object; durable_publish \$arg_channel; }"
    } qw(main more));
my $port = $server->port;

sub subscribe {
    my ($path) = @_;
    return SseClient->open(port => $port, path => $path);
}

sub refusal_is {
    my ($path, $body, $name) = @_;
    my $response = http_request($port, 'GET', $path);
    is("$response->{status} $response->{body}", encode_utf8("429 $body"), $name);
}

sub delivered {
    my ($zone, $object, $channel) = @_;
    return http_request($port, 'POST', "/pub-$zone?object=$object&channel=$channel", body => 'x')->{body} =~ /(\d+)/ ? $1 : undef;
}

# Polls, since nginx has to notice first that a client has left.
sub comes_down_to {
    my ($count, @where) = @_;
    return NginxProcess::wait_until(5, sub { delivered(@where) == $count });
}

for my $case (['main', 64, 256], ['more', 66, 258]) {
    my ($zone, $channels, $subscriptions) = @$case;

    my @streams = map { subscribe("/sub-$zone?object=o&channel=c$_") } 1 .. $channels;
    is(scalar(grep { $_->status == 200 } @streams), $channels, "$zone: C-2 $channels channels of one object");
    my $message = "the object already has as many channels as it may: $channels";
    refusal_is("/sub-$zone?object=o&channel=one-more", qq({"code":"channel_limit","message":"$message"}),
               "$zone: C-2 the next one is refused");
    refusal_is("/two-$zone?object=o&channel=c1&other=one-more", qq({"code":"channel_limit","message":"$message"}),
               "$zone: C-7 also as the second channel of a stream");
    is(delivered($zone, 'o', 'c1'), 1, "$zone: C-7 which leaves nothing of the first");
    is(delivered($zone, 'o', 'one-more'), 0, "$zone: C-8 and makes no channel");
    my $again = subscribe("/sub-$zone?object=o&channel=c1");
    is($again->status, 200, "$zone: a channel that exists takes more subscriptions");
    is(subscribe("/sub-$zone?object=p&channel=one-more")->status, 200, "$zone: C-9 another object has channels of its own");
    (shift @streams)->client->close;
    ok(comes_down_to(1, $zone, 'o', 'c1'), "$zone: one of two leaves");
    refusal_is("/sub-$zone?object=o&channel=one-more", qq({"code":"channel_limit","message":"$message"}), "$zone: its channel is still there");
    $again->client->close;
    ok(comes_down_to(0, $zone, 'o', 'c1'), "$zone: the last one leaves");
    is(subscribe("/sub-$zone?object=o&channel=one-more")->status, 200, "$zone: C-8 its channel is gone, another one fits");
    @streams = ();

    @streams = map { subscribe("/sub-$zone?object=q&channel=c") } 1 .. $subscriptions;
    is(scalar(grep { $_->status == 200 } @streams), $subscriptions, "$zone: C-3 $subscriptions subscriptions of one channel");
    $message = "持久频道订阅数已达上限 $subscriptions";
    refusal_is("/sub-$zone?object=q&channel=c", qq({"code":"subscription_limit","message":"$message"}), "$zone: C-3 the next one is refused");
    refusal_is("/two-$zone?object=q&channel=a&other=c", qq({"code":"subscription_limit","message":"$message"}), "$zone: C-7 also as the second channel of a stream");
    is(delivered($zone, 'q', 'a'), 0, "$zone: C-7 which leaves nothing of the first");
    is(delivered($zone, 'q', 'c'), $subscriptions, "$zone: C-7 and none was used up");
    is(scalar(grep { ($_->next_event(5) // {data => ''})->{data} eq 'x' } @streams), $subscriptions, "$zone: all of them get the message");
    (shift @streams)->client->close;
    ok(comes_down_to($subscriptions - 1, $zone, 'q', 'c'), "$zone: one leaves");
    is(subscribe("/sub-$zone?object=q&channel=c")->status, 200, "$zone: another one fits");
}

$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');
done_testing();
