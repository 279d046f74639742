# SPDX-License-Identifier: BSD-2-Clause
# A client that leaves is noticed at once, however it leaves: its subscription is gone before the
# next publish, and the others of its channel notice nothing.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use ChannelCalls;
use DurableServer;
use Http2Client;
use SseClient;
use Test::More;

my $server = DurableServer->start(
    workers => 2, server => $ChannelCalls::server,
    http => $ChannelCalls::http . 'server { listen 127.0.0.1:{{port_tls}} ssl http2; listen 127.0.0.1:{{port_h2}} http2;'
        . "ssl_certificate {{cert}}; ssl_certificate_key {{key}}; $ChannelCalls::server }",
);
my $stays = subscribe($server, 'a');
my $messages = 0;

sub opens {
    my ($client) = @_;
    $client->send_request('GET', '/sub?channel=a');
    return defined $client->read_until(qr/: \n\n/, 5) ? $client : die 'no stream';
}

sub is_noticed {
    my ($name, $leave) = @_;
    is(publish($server, 'a', ++$messages), 2, "$name: it is there");
    $leave->();
    ok(NginxProcess::wait_until(5, sub { publish($server, 'a', ++$messages) == 1 }), "$name: it is gone");
}

for my $how ({port => $server->port}, {port => $server->port('tls'), tls => 1, alpn => ['http/1.1']}) {
    my $name = $how->{tls} ? 'TLS' : 'HTTP/1.1';
    my $client = opens(DurableClient->connect(%$how));
    is_noticed("$name, FIN", sub { $client->close });
    $client = opens(DurableClient->connect(%$how));
    is_noticed("$name, FIN, half", sub { $client->shutdown_write });
    $client = opens(DurableClient->connect(%$how));
    is_noticed("$name, RST", sub { $client->reset });
    $client = opens(DurableClient->connect(%$how));
    is_noticed("$name, RST with unread messages", sub {
        publish($server, 'a', ++$messages) for 1 .. 50;
        $client->reset;
    });
    $client = opens(DurableClient->connect(%$how));
    is_noticed("$name, a FIN behind bytes that nobody reads", sub { $client->write('GET /'); $client->close });
}

for my $how ({port => $server->port('h2')}, {port => $server->port('tls'), tls => 1}) {
    my $name = $how->{tls} ? 'HTTP/2 over TLS' : 'HTTP/2';
    my $h2 = Http2Client->connect(%$how);
    my ($one, $two) = map { $h2->request(path => '/sub?channel=a') } 1 .. 2;
    ok($h2->wait_data($_, qr/: \n\n/, 5), "$name: a stream") for $one, $two;
    is(publish($server, 'a', ++$messages), 3, "$name: two streams of one connection");
    $h2->rst($one);
    ok(NginxProcess::wait_until(5, sub { publish($server, 'a', ++$messages) == 2 }), "$name, reset: one is gone");
    ok($h2->wait_data($two, qr/data: $messages\n\n/, 5), "$name, reset: the other goes on");
    is_noticed("$name, the connection", sub { $h2->client->close });
    $h2 = Http2Client->connect(%$how);
    $one = $h2->request(path => '/sub?channel=a');
    $h2->wait_data($one, qr/: \n\n/, 5);
    is_noticed("$name, RST", sub { $h2->client->reset });
}

# What they left costs nothing: the one that stayed got all, and is the only connection.
is_deeply([$stays->next_texts($messages, 20)], [1 .. $messages], 'the one that stayed got every message, in order');
$server->no_alerts;
ok($server->stop, 'nginx ends at QUIT');
done_testing();
