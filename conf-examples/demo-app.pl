#!/usr/bin/perl
# SPDX-License-Identifier: BSD-2-Clause
# The application behind two panels of the demo: a process for each request, and no libraries.
# It knows nothing of other clients or of open connections; for these it has nginx.
#
#   perl demo-app.pl PORT COUNTER_FILE HOST_CALLS
#
# GET /job?channel=C    works for ten seconds and reports progress as an event stream
# POST /counter/...     reads a number, thinks for 30 ms, writes it back plus one
use strict;
use warnings;
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP qw(decode_json);
use Time::HiRes qw(sleep);

my ($port, $counter_file, $api) = @ARGV;
die "usage: demo-app.pl PORT COUNTER_FILE HOST_CALLS\n" if @ARGV != 3;

my $http = HTTP::Tiny->new(timeout => 30);
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 128, ReuseAddr => 1)
    or die "port $port: $!\n";
$SIG{CHLD} = 'IGNORE';
while (my $client = $listener->accept) {
    my $pid = fork // die "fork: $!\n";
    if ($pid == 0) {
        close $listener;
        serve($client);
        exit 0;
    }
    close $client;
}

sub serve {
    my ($client) = @_;
    my $head = do { local $/ = "\r\n\r\n"; <$client> } // return;
    my ($method, $path) = $head =~ /^(\S+) (\S+)/ or return;
    # nginx says which event this is; with it the application may call back.
    my ($token) = $head =~ /^Durable-Event: ([0-9a-f]+)\r$/m;
    if ($method eq 'GET' && $path =~ m{^/job\?(?:.*&)?channel=([\w.:-]+)}) {
        job($token, $1);
        answer($client, 204, '');
    } elsif ($method eq 'POST' && $path =~ m{^/counter/}) {
        answer($client, 200, count_up());
    } else {
        answer($client, 404, "no such page\n");
    }
}

sub answer {
    my ($client, $status, $text) = @_;
    print $client "HTTP/1.1 $status -\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        . 'Content-Length: ' . length($text) . "\r\n\r\n$text";
}

# ---- the long job

# A host call: an HTTP request to nginx with the event's token.
sub call {
    my ($token, $path, $text) = @_;
    my $answer = $http->post("$api/$path", {content => $text, headers => {'Durable-Event' => $token}});
    die "$path: $answer->{content}\n" if !$answer->{success};
    return length $answer->{content} ? decode_json($answer->{content}) : {};
}

sub job {
    my ($token, $channel) = @_;
    # From here on this request is an event stream, which nginx holds.
    my $stream = call($token, 'stream', '')->{stream};
    my $done = 0;
    while ($done < 100) {
        sleep 0.2;
        $done += 2;
        # 1: the client has gone. The application is not cut off, and can tidy up.
        last if call($token, "streams/$stream/text", "event: progress\ndata: $done\n\n")->{result} == 1;
    }
    my $word = $done < 100 ? "cancelled at $done %" : 'done';
    call($token, "streams/$stream/text", "event: done\ndata: $done\n\n");
    call($token, "streams/$stream/end", '');
    call($token, "channels/$channel/messages?event=job", "A job is over: $word.");
}

# ---- the counter

sub count_up {
    my $number = 0;
    if (open my $in, '<', $counter_file) { $number = <$in> // 0 }
    sleep 0.03;    # what a database or another service may take
    open my $out, '>', $counter_file or die "$counter_file: $!\n";
    print $out $number + 1;
    close $out;
    return $number + 1;
}
