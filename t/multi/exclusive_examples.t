# SPDX-License-Identifier: BSD-2-Clause
# conf-examples/serialize-per-account.conf and counter.conf, with Python and PHP.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use DurableClient qw(http_request);
use ExampleServer;
use Test::More;

my ($python) = grep { -x } map { "$_/python3" } split /:/, $ENV{PATH};
plan skip_all => 'Python is not installed' if !$python;

# The answers to as many POSTs at once, sorted.
sub at_once {
    my ($example, $count, $path) = @_;
    my @clients = map { DurableClient->connect(port => $example->port(8080)) } 1 .. $count;
    $_->send_request('POST', $path, body => '') for @clients;
    return join ' ', sort { $a <=> $b } map { $_->read_response(20)->{body} =~ s/\n//r } @clients;
}

sub start {
    my ($conf, $port) = @_;
    my $example = ExampleServer->start($conf);
    $example->run($port, $python, ExampleServer::examples() . '/counter/app.py',
        {PORT => $example->port($port), DURABLE_API => '127.0.0.1:' . $example->port(8080), FOLDER => $example->prefix . '/data'});
    return $example;
}

sub no_alerts {
    my ($example) = @_;
    my @alarms = grep { $_ =~ $NginxProcess::ALARMING } split /^/, $example->nginx->error_log;
    ok(!@alarms, 'no alerts') or diag @alarms;
}

my $account = start('serialize-per-account.conf', 9000);
is(at_once($account, 5, '/free/add?account=ann'), '1 1 1 1 1', 'without a line updates are lost');
is(at_once($account, 5, '/billing/add?account=bob'), '1 2 3 4 5', 'with one none is');
is(http_request($account->port(8080), 'GET', '/balance?account=bob')->{body}, "5\n", 'the balance');
like(NginxProcess::slurp($account->prefix . '/logs/access.log'), qr{/billing/add\S* HTTP/1\.1" 200 \S+ waited=0\.\d{3}$}m, 'the log says who waited');
no_alerts($account);

my $counter = start('counter.conf', 9001);
is(at_once($counter, 5, '/count?key=a'), '1 2 3 4 5', 'sections count right, in Python');
is(at_once($counter, 5, '/free/add?account=b'), '1 1 1 1 1', 'and without they do not');
is(http_request($counter->port(8080), 'POST', '/section', body => '{}')->{status}, 404, 'nobody else enters a section');
no_alerts($counter);

SKIP: {
    my ($fpm) = grep { -x } glob '/usr/sbin/php-fpm*';
    skip 'PHP-FPM is not installed', 2 if !$fpm;
    my $php = ExampleServer->start('counter.conf');
    my $pool = $php->prefix . '/conf/fpm.conf';
    my $text = NginxProcess::slurp(ExampleServer::examples() . '/php/fpm.conf') ;
    $text = $php->with_ports($text);
    $text =~ s/^(?:user|group) = .*\n//mg;
    open my $out, '>', $pool or die $!;
    print $out $text =~ s/^\[www\]\n/$> == 0 ? "[www]\nuser = root\ngroup = root\n" : "[www]\n"/mer, "env[TMPDIR] = $php->{prefix}/data\n";
    close $out;
    $php->run(9000, $fpm, '-F', '-n', ($> == 0 ? '-R' : ()), '-y', $pool);
    is(at_once($php, 3, '/count.php?key=a'), '1 2 3', 'sections count right, in PHP');
    is(at_once($php, 3, '/count.php?key=a'), '4 5 6', 'and go on');
    no_alerts($php);
}
done_testing();
