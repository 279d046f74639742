# SPDX-License-Identifier: BSD-2-Clause
# A client whose socket is full keeps its own position and nobody waits for it (C-17, C-28). Past
# the backlog it is dropped (C-27); one that neither reads nor leaves is ended by send_timeout,
# counted from its last progress. Over HTTP/1.1, TLS and HTTP/2.
use strict;
use warnings;
use utf8;
use Encode qw(encode_utf8);
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableClient;
use DurableServer;
use Http2Client;
use SseClient;
use Test::More;
use Time::HiRes qw(time sleep);

my $locations = $ChannelCalls::server
    . 'location = /timeout { send_timeout 1s; durable_object main o; durable_subscribe $arg_channel; }';
my $server = DurableServer->start(
    workers => 2, server => $locations,
    http => $ChannelCalls::http . 'keepalive_requests 1000000; ssl_certificate {{cert}}; ssl_certificate_key {{key}}; server {'
        . 'listen 127.0.0.1:{{port_plain}} sndbuf=8k; listen 127.0.0.1:{{port_tls}} ssl sndbuf=8k;'
        . "listen 127.0.0.1:{{port_h2}} http2 sndbuf=8k; listen 127.0.0.1:{{port_h2s}} ssl http2 sndbuf=8k; $locations }",
);
my $publisher = DurableClient->connect(port => $server->port);

# Publishes all texts; the answers come while later ones are still being sent.
sub publish_all {
    my ($channel, @texts) = @_;
    my @delivered;
    while (my @some = splice @texts, 0, 100) {
        $publisher->write(join '', map {
            "POST /pub?channel=$channel HTTP/1.1\r\nHost: localhost\r\nContent-Length: " . length($_) . "\r\n\r\n$_" } @some);
        push @delivered, map { $publisher->read_response(10)->{body} =~ /(\d+)\}/ } @some;
    }
    return @delivered;
}

# A client that does not read until it is asked to; its way of reading depends on the protocol.
package Slow {
    sub open {
        my ($class, $how, $path) = @_;
        my $self = bless {}, $class;
        if ($how =~ /^h2/) {
            $self->{h2} = Http2Client->connect(port => $server->port($how), $how eq 'h2s' ? (tls => 1) : (),
                                               window => 2000, grows => 0);
            $self->{id} = $self->{h2}->request(path => $path);
            $self->{h2}->wait_data($self->{id}, qr/: \n\n/, 5) or die 'no stream';
        } else {
            $self->{sse} = SseClient->open(port => $server->port($how), $how eq 'tls' ? (tls => 1, alpn => ['http/1.1']) : (),
                                           rcvbuf => 4096, path => $path);
            $self->{sse}->wait_comments(1, 5) or die 'no stream';
        }
        return $self;
    }

    # Lets some bytes come, so that the server makes progress.
    sub sip {
        my ($self, $bytes) = @_;
        if ($self->{h2}) {
            my $before = length $self->{h2}->data($self->{id});
            $self->{h2}->give_window($_, $bytes) for 0, $self->{id};
            return $self->{h2}->wait_data($self->{id}, $before + $bytes, 5);
        }
        my $client = $self->{sse}{client};
        my $wanted = length($client->{buffer}) + $bytes;
        my $deadline = main::time() + 5;
        while (length $client->{buffer} < $wanted) { $client->fill($deadline) or return 0 }
        return 1;
    }

    # All events up to the one with this text, or up to the end.
    sub read_to {
        my ($self, $last) = @_;
        my @events;
        if ($self->{h2}) {
            my ($h2, $id) = @{$self}{qw(h2 id)};
            $h2->give_window($_, 50_000_000) for 0, $id;
            defined $last ? $h2->wait_data($id, qr/data: \Q$last\E\n\n/, 20) : $h2->wait_end($id, 20);
            my $parser = bless {text => '', events => [], comments => [], last_id => '', data => undef, type => ''}, 'SseClient';
            $parser->parse($h2->data($id));
            @events = @{$parser->{events}};
            $self->{ending} = $h2->is_ended($id) ? 'end' : defined $h2->reset_code($id) ? 'cut' : undef;
            return @events;
        }
        my $deadline = main::time() + 20;
        while (my $event = $self->{sse}->next_event($deadline - main::time())) {
            push @events, $event;
            last if defined $last && $event->{data} eq $last;
        }
        $self->{ending} = $self->{sse}->ending;
        return @events;
    }
}

my %name = (plain => 'HTTP/1.1', tls => 'TLS', h2 => 'HTTP/2', h2s => 'HTTP/2 over TLS');
for my $how (qw(plain tls h2 h2s)) {
    my $name = $name{$how};

    # Below the backlog
    my $fast = subscribe($server, "full-$how");
    my $slow = Slow->open($how, "/sub?channel=full-$how");
    my @texts = map { "$_ " . 'x' x 1000 } 1 .. 600;
    is_deeply([publish_all("full-$how", @texts)], [(2) x 600], "$name: a full socket is still counted");
    is_deeply([$fast->next_texts(600, 10)], \@texts, "$name: nobody waits for it");
    is_deeply([map { $_->{data} } $slow->read_to($texts[-1])], \@texts, "$name: it gets all once it reads");
    is_deeply([publish_all("full-$how", 'a', 'b')], [2, 2], "$name: and goes on");
    is_deeply([map { $_->{data} } grep { length $_->{data} == 1 } $slow->read_to('b')], ['a', 'b'], "$name: at once");

    # Small events, so that a socket is full in the middle and at the end of one
    my $small = Slow->open($how, "/sub?channel=small-$how");
    my @all;
    for my $round (1 .. 15) {
        my @some = map { sprintf '%03x', $_ } map { int rand 4096 } 1 .. 700;
        push @all, @some;
        publish_all("small-$how", @some);
        $small->sip(500 + int rand 1000);
    }
    publish_all("small-$how", 'last');
    is_deeply([map { $_->{data} } $small->read_to('last')], [@all, 'last'], "$name: no event is lost where the socket fills up");

    # Past the backlog
    $slow = Slow->open($how, "/sub?channel=drop-$how");
    $fast = subscribe($server, "drop-$how");
    @texts = map { sprintf('%05d', $_) . 'x' x 995 } 1 .. 1300;
    my @delivered = publish_all("drop-$how", @texts);
    my $dropped_at = grep { $_ == 2 } @delivered;
    cmp_ok($dropped_at, '>=', 1048, "$name: C-27 1 MiB may be unread");
    is_deeply(\@delivered, [(2) x $dropped_at, (1) x (1300 - $dropped_at)], "$name: C-27 then it is not counted any more");
    isnt($dropped_at, 1300, "$name: C-27 it was dropped");
    is_deeply([$fast->next_texts(1300, 10)], \@texts, "$name: C-28 the others notice nothing");
    my @events = $slow->read_to(undef);
    my $last = pop @events;
    is($last->{event}, 'durable-backlog', "$name: C-27 it is told so");
    is($last->{data}, encode_utf8('订阅积压超过 1 MiB，已被断开'), "$name: C-27 with the reason");
    is($slow->{ending}, 'end', "$name: and the response ends whole");
    is_deeply([map { $_->{data} } @events], [@texts[0 .. $#events]], "$name: what had gone out before was whole and in order");

    # Neither reads nor leaves
    $slow = Slow->open($how, "/timeout?channel=dead-$how");
    my $sips = Slow->open($how, "/timeout?channel=dead-$how");
    my $last_text;
    publish_all("dead-$how", map { $last_text = "$_ " . 'y' x 500 } 1 .. 200);
    my $start = time;
    my ($gone_after, $count);
    while (time - $start < 2.6) {
        sleep 0.2;
        $sips->sip(1500);
        ($count) = publish_all("dead-$how", $last_text = 'again ' . time);
        $gone_after //= time - $start if $count == 1;
    }
    cmp_ok($gone_after // 99, '<', 2, "$name: send_timeout is not armed again by each publish");
    cmp_ok($gone_after // 0, '>', 0.7, "$name: and not earlier");
    is($count, 1, "$name: who makes progress stays");
    my @all_of_it = $sips->read_to($last_text);
    is($all_of_it[-1]{data}, $last_text, "$name: and gets all in the end");
}

$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');
done_testing();
