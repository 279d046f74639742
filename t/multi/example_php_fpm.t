# SPDX-License-Identifier: BSD-2-Clause
# conf-examples/php-fpm.conf: PHP pages that wait and publish.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use ExampleServer;
use Test::More;

my ($fpm) = grep { -x } glob '/usr/sbin/php-fpm*';
plan skip_all => 'PHP-FPM is not installed' if !$fpm;

my $example = ExampleServer->start('php-fpm.conf');
my $pool = "$example->{prefix}/conf/fpm.conf";
my $text = $example->with_ports(NginxProcess::slurp(ExampleServer::examples() . '/php/fpm.conf'));
# Only root can change users, and then that user must reach the pages.
$text =~ s/^(?:user|group) = .*\n//mg;
open my $out, '>', $pool or die $!;
print $out $text =~ s/^\[www\]\n/$> == 0 ? "[www]\nuser = root\ngroup = root\n" : "[www]\n"/mer;
close $out;
$example->run(9000, $fpm, '-F', '-n', ($> == 0 ? '-R' : ()), '-y', $pool);
my $port = $example->port(8080);

is(http_request($port, 'POST', '/publish.php?room=kitchen', body => 'nobody')->{body}, "delivered to 0\n", 'nobody waits yet');
my @waiting = map { my $client = DurableClient->connect(port => $port);
                    $client->send_request('GET', "/wait.php?room=$_"); $client } qw(kitchen kitchen bath);
NginxProcess::wait_until(10, sub {
    3 == (() = NginxProcess::slurp($example->prefix . '/logs/access.log') =~ m{^.*"POST /durable/channels/\S+/subscriptions HTTP/1\.1" 201}mg) });
my $delivered = http_request($port, 'POST', '/publish.php?room=kitchen', body => "dinner\0\xe6\x94\xb6")->{body};
is($delivered, "delivered to 2\n", 'two pages wait in one room');
is($_->read_response(10)->{body}, "dinner\0\xe6\x94\xb6\n", 'each gets the message') for @waiting[0, 1];
ok($waiting[2]->is_quiet(0.05), 'the other room hears nothing');
is(http_request($port, 'POST', '/publish.php?room=bath', body => '')->{body}, "delivered to 1\n", 'until it is meant');
is($waiting[2]->read_response(10)->{body}, "\n", 'an empty message is one too');
is(http_request($port, 'POST', '/publish.php?room=kitchen', body => 'x')->{body}, "delivered to 0\n",
   'the subscriptions have ended with their pages');
is(http_request($port, 'POST', '/publish.php?room=kitchen', body => 'x' x 65537)->{status}, 500, 'a refusal is an exception');
is(http_request($port, 'GET', '/host_call.php')->{status}, 404, 'nothing else is served');
my @alarms = grep { $_ =~ $NginxProcess::ALARMING } split /^/, $example->nginx->error_log;
is("@alarms", '', 'no alerts');

done_testing();
