# SPDX-License-Identifier: BSD-2-Clause
# The transcripts of docs/host-calls.md are what curl shows.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use HostCalls;
use Test::More;

my $text = NginxProcess::slurp("$FindBin::Bin/../../docs/host-calls.md");
my ($conf) = $text =~ /^```nginx\n(.*?)^```/ms;
my ($api) = $conf =~ /(location \/durable\/ \{.*?\n        \})/s;
my ($internal) = $conf =~ /(location \/internal\/durable\/ \{.*?\n        \})/s;
ok($api && $internal, 'the locations are read');
my $host = HostCalls->start(workers => 2, server => $internal);
my ($event, $other) = map { $host->event(object => '127.0.0.1') } 1 .. 2;
my $port = $host->server->port;
local @ENV{qw(TOKEN OTHER SUBSCRIPTION)} = ($event->token, $other->token, 'none');

my $count = 0;
for my $block ($text =~ /^```console\n(.*?)^```/msg) {
    next if $block !~ m{/channels/|/subscriptions/|/chanels/};    # the other calls have their own tests
    for my $step (split /^\$ /m, $block) {
        my ($command, $wanted) = split /\n/, $step, 2;
        next if !defined $command;
        my $line = $command =~ s/127\.0\.0\.1:8080/127.0.0.1:$port/r =~ s/^curl /curl -s --noproxy '*' --max-time 30 /r;
        my $got = `$line`;
        $got .= "\n" if $got !~ /\n\z/;
        $ENV{SUBSCRIPTION} = $1 if $got =~ /"subscription":"([0-9a-f]{16})"/;
        s/"subscription":"[0-9a-f]{16}"/"subscription":"HANDLE"/ for $got, $wanted;
        is($got, $wanted, $command);
        ++$count;
    }
}
cmp_ok($count, '>=', 20, 'the transcripts are read');
$_->end for $event, $other;

done_testing();
