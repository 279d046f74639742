# SPDX-License-Identifier: BSD-2-Clause
# What docs/exclusive.md shows is so: its configurations load, its transcript is what curl says.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use HostCalls;
use NginxProcess;
use Test::More;

my $text = NginxProcess::slurp("$FindBin::Bin/../../docs/exclusive.md");
my @blocks = $text =~ /^```nginx\n(.*?)^```/msg;
is(scalar @blocks, 3, 'three pieces of configuration');
my ($whole, $section, $format) = @blocks;
$section =~ s/location \/durable\/ .*\n//;
$section =~ s/location = \/section .*/location = \/section { internal; return 200 '{"number":1}\n'; }/;
s/127\.0\.0\.1:900\d/127.0.0.1:{{port_app}}/ for $whole, $section;
my $host = HostCalls->start(workers => 2, http => "$format access_log logs/lines.log lines;", server => "$whole $section");
my $app = DurableApp->start(sub { $_[1]->respond(200, undef, 'served') }, port => $host->server->port('app'));
is(http_request($host->server->port, 'GET', '/billing/?account=a')->{body}, 'served', 'the whole request');
is(http_request($host->server->port, 'GET', '/billing/')->{status}, 400, 'an empty key');
my $event;
{
    my ($with) = $section =~ /(durable_exclusive_handler \S+;)/;
    my $count = HostCalls->start(workers => 2, location => $with, server => ($section =~ /^(location = \/section .*)/ms)[0]);
    $event = $count->event;
    my $transcripts = 0;
    for my $block ($text =~ /^```console\n(.*?)^```/msg) {
        local $ENV{TOKEN} = $event->token;
        for my $step (split /^\$ /m, $block) {
            my ($command, $wanted) = split /\n/, $step, 2;
            next if !defined $command;
            $command =~ s/127\.0\.0\.1:8080/'127.0.0.1:' . $count->server->port/e;
            is(`$command --noproxy '*' --max-time 20`, $wanted, $command);
            $transcripts++;
        }
    }
    is($transcripts, 1, 'the transcripts are read');
    $event->end;
}
for my $link ($text =~ /\]\((?!http)([^)#]+)/g) { ok(-e "$FindBin::Bin/../../docs/$link", "the link to $link") }
for my $path ($text =~ /`(conf-examples\/[^`]+)`/g) { ok(-e "$FindBin::Bin/../../$path", $path) }
done_testing();
