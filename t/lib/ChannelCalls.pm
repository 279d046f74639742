# SPDX-License-Identifier: BSD-2-Clause
# Calls that tests of channels make over and over, on a DurableServer with the locations below.
#
#     my $server = DurableServer->start(http => $ChannelCalls::http, server => $ChannelCalls::server);
#     publish($server, 'a', 'text');             # how many it was delivered to, or the refusal
#     my $stream = subscribe($server, 'a');      # an SseClient; more as in its open()
#     wait_count($server, 'a', 0);               # true once a publish is delivered to so many
package ChannelCalls;
use strict;
use warnings;
use DurableClient;
use Exporter 'import';
use NginxProcess;
use SseClient;

our @EXPORT = qw(publish publish_through subscribe wait_count reads);

our $http = 'durable_zone main 8m; durable_ping 0;';
our $server = 'location = /sub { durable_object main o; durable_subscribe $arg_channel; }'
    . 'location = /pub { durable_object main o; durable_publish $arg_channel; }';

sub path { return "/$_[0]?channel=$_[1]" }

# On one kept-alive connection for each server, or on the one given.
my %connections;

sub publish {
    my ($server, $channel, $text) = @_;
    my $key = $server->port;
    for my $try (1, 2) {
        my $client = $connections{$key} //= DurableClient->connect(port => $server->port);
        my $answer = eval { publish_through($client, $channel, $text) };
        return $answer if defined $answer;
        delete $connections{$key};    # closed by a reload or with its worker
    }
    die "publish: $@";
}

sub publish_through {
    my ($client, $channel, $text) = @_;
    my $response = $client->request('POST', path('pub', $channel), body => $text);
    return $response->{body} =~ /^\{"delivered":(\d+)\}$/ ? $1 : "$response->{status} $response->{body}";
}

sub subscribe {
    my ($server, $channel, %how) = @_;
    return SseClient->open(port => $server->port, path => path('sub', $channel), %how);
}

# Publishes empty texts until they are delivered to so many; each subscriber gets them too.
sub wait_count {
    my ($server, $channel, $count, $seconds) = @_;
    return NginxProcess::wait_until($seconds // 5, sub { publish($server, $channel, '') eq $count });
}

# True if the stream's next event has this text.
sub reads {
    my ($stream, $text, $seconds) = @_;
    my $event = $stream->next_event($seconds // 5);
    return defined $event && $event->{data} eq $text;
}

1;
