# SPDX-License-Identifier: BSD-2-Clause
# The transcripts of docs/events.md are what curl shows.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use EventsApi;
use Test::More;

my $text = NginxProcess::slurp("$FindBin::Bin/../../docs/events.md");
my ($http, $server) = $text =~ /^```nginx\nhttp \{\n(.*?)^    server \{\n        listen [^\n]*\n(.*?)^    \}\n\}\n```/ms;
ok($server, 'the configuration is read');
$http =~ s{ data/events}{ {{prefix}}/events};
my $nginx = DurableServer->start(workers => 2, http => $http, server => $server);
my $port = $nginx->port;

my $count = 0;
for my $block ($text =~ /^```console\n(.*?)^```/msg) {
    for my $step (split /^\$ /m, $block) {
        my ($command, $wanted) = split /\n/, $step, 2;
        next if !defined $command;
        my $line = $command =~ s/127\.0\.0\.1:8080/127.0.0.1:$port/r =~ s/^curl /curl -s --noproxy '*' --max-time 30 /r;
        my $got = `$line`;
        $got .= "\n" if $got !~ /\n\z/;
        $got =~ s/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/UUID/g;
        $got =~ s/"(createdAt|ts)":[0-9]+/"$1":TIME/g;
        $got =~ s/ +$//mg;
        is($got, $wanted, $command);
        ++$count;
    }
}
cmp_ok($count, '>=', 15, 'the transcripts are read');
$nginx->no_alerts;
$nginx->stop;

done_testing();
