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
my $host = HostCalls->start(
    workers => 2, location => 'durable_exclusive_handler /section;',
    server => "$internal\nlocation = /section { internal; return 200 '{\"balance\":93}'; }");
my ($event, $other) = map { $host->event(object => '127.0.0.1') } 1 .. 2;
my $port = $host->server->port;
local @ENV{qw(TOKEN OTHER SUBSCRIPTION STREAM)} = ($event->token, $other->token, 'none', 'none');

my $count = 0;
for my $block ($text =~ /^```console\n(.*?)^```/msg) {
    next if $block =~ /\$SECTION/;    # a section's own calls have their own tests
    for my $step (split /^\$ /m, $block) {
        my ($command, $wanted) = split /\n/, $step, 2;
        next if !defined $command;
        my $line = $command =~ s/127\.0\.0\.1:8080/127.0.0.1:$port/r =~ s/(?:^|\| )\Kcurl /curl -s --noproxy '*' --max-time 30 /r;
        my $got = `$line`;
        $got .= "\n" if $got !~ /\n\z/;
        $ENV{uc $1} = $2 if $got =~ /"(subscription|stream)":"([0-9a-f]{16})"/;
        for ($got, $wanted) {
            s/"(subscription|stream)":"[0-9a-f]{16}"/"$1":"HANDLE"/;
            s/：[0-9a-f]{16}"/：HANDLE"/;
            s/"[0-9a-f]{1,16}(\.\d+)"/"EPOCH$1"/g;
        }
        is($got, $wanted, $command);
        ++$count;
    }
}
cmp_ok($count, '>=', 35, 'the transcripts are read');
$_->end for $event, $other;

done_testing();
