# SPDX-License-Identifier: BSD-2-Clause
# The events API with clients of others, unmodified: the npm package whose wire format it speaks, and the
# one that verifies Standard Webhooks. They are installed into build/ when they are missing.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use File::Copy qw(copy);
use File::Path qw(make_path);
use EventsApi;
use Fcntl qw(:flock);
use Test::More;

my $source = "$FindBin::Bin/../npm";
my $target = "$FindBin::Bin/../../build/npm";

# Why the packages are not to be had; empty when they are there.
sub install {
    for my $tool (qw(node npm)) {
        return "$tool is not installed" if system("command -v $tool >/dev/null 2>&1") != 0;
    }
    make_path($target);
    open my $lock, '>', "$target/lock" or return "$target: $!";
    flock $lock, LOCK_EX;
    my $wanted = NginxProcess::slurp("$source/package-lock.json");
    return '' if ($wanted // '') eq (NginxProcess::slurp("$target/package-lock.json") // '') && -e "$target/installed";
    copy("$source/$_", "$target/$_") or return "$_: $!" for qw(package.json package-lock.json);
    my $said = `cd '$target' && npm ci --ignore-scripts --no-audit --no-fund 2>&1`;
    return "npm cannot install the packages: " . (split /\n/, $said)[-1] if $?;
    open my $done, '>', "$target/installed" or return "$target: $!";
    return '';
}

if (my $reason = install()) { plan skip_all => $reason }
$ENV{NODE_MODULES} = "$target/node_modules";

for my $workers (1, 2) {
    # The client's account comes from its token.
    my $api = EventsApi->start(workers => $workers, identity => '$account$http_account',
                               http => 'map $http_authorization $account { default ""; "Bearer sdk-token" sdk; }');
    my $origin = 'http://127.0.0.1:' . $api->port;
    my $said = `node '$source/sdk.cjs' '$origin' sdk-token 2>&1`;
    is($?, 0, "the client's calls, $workers workers") or diag($said);
    like($said, qr/^done$/m, 'all of them');
    note($said);

    my $who = $api->caller('hooked');
    $who->subscribe(subject => 'topic:hooked', delivery => 'single', handlerName => 'h0', targets => ['worker'], context => {a => "\x{4e2d}"});
    $api->publish(subject => 'topic:hooked', data => {n => $_, text => "\x{6587}\n"}) for 1 .. 5;
    my @calls = $api->wait_hooks('h0', 5);
    is(scalar @calls, 5, 'webhooks');
    my $lines = join '', map { EventsApi::json()->encode({headers => $_->{headers}, text => do { utf8::decode(my $text = $_->{text}); $text }}) . "\n" } @calls;
    open my $out, '>', "$api->{folder}/lines" or die $!;
    print $out $lines;
    close $out;
    is(`node '$source/verify.cjs' '$EventsApi::secret' < '$api->{folder}/lines' 2>&1`, "ok\n" x 5, 'their signatures are right');
    is((split /\n/, `node '$source/verify.cjs' 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAA' < '$api->{folder}/lines' 2>&1`)[0], 'No matching signature found', 'and of no other key');
    $api->server->no_alerts;
    $api->server->stop;
}

done_testing;
