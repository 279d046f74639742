# SPDX-License-Identifier: BSD-2-Clause
# The demo's page in a real browser: what one window writes, the other shows.
use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Browser;
use DurableClient qw(http_request);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FreePort qw(free_port);
use IO::Socket::INET;
use NginxProcess;
use Test::More;

binmode Test::More->builder->$_, ':utf8' for qw(output failure_output);

my $browser = Browser->start or plan skip_all => 'there is no chromium';

# The demo as run-demo serves it, on ports of this test's own.
my ($port, $app_port) = (free_port(), free_port());
my $prefix = tempdir('durable-demo-XXXXXX', TMPDIR => 1, CLEANUP => 1);
make_path(map { "$prefix/$_" } qw(conf logs temp));
my $examples = "$FindBin::Bin/../../conf-examples";
symlink $examples, "$prefix/conf-examples" or die "symlink: $!";
my $conf = NginxProcess::slurp("$examples/demo.conf");
$conf =~ s/127\.0\.0\.1:8080/127.0.0.1:$port/g;
$conf =~ s/127\.0\.0\.1:8081/127.0.0.1:$app_port/g;
my ($user, $group) = map { defined $_ ? $_ : 'root' }
    (getpwuid((stat $examples)[4]))[0], (getgrgid((stat $examples)[5]))[0];
my $globals = join "\n", "pid $prefix/nginx.pid;", ($> == 0 ? "user $user $group;" : ()),
    map { "load_module $_;" } split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
open my $out, '>', "$prefix/conf/nginx.conf" or die $!;
print $out "$globals\n$conf";
close $out;
chmod 0755, $prefix;
my $nginx = NginxProcess->start(binary => $ENV{TEST_NGINX_BINARY} || 'nginx', prefix => $prefix);
$nginx->wait_ready($port) or BAIL_OUT('nginx did not start: ' . $nginx->error_log);

my $app = fork // die "fork: $!";
exec $^X, "$examples/demo-app.pl", $app_port, "$prefix/counter", "http://127.0.0.1:$port/durable" or die if $app == 0;
END { kill 'TERM', $app if $app }
NginxProcess::wait_until(10, sub { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $app_port) })
    or BAIL_OUT('the application did not start');

my $url = "http://127.0.0.1:$port/";
my $is_live = 'document.getElementById("room-state")?.dataset.state === "live"';
my $log = 'document.getElementById("room-log").innerText';
my $one = $browser->open($url);
ok($one->wait_for($is_live, 20), 'the page is connected');
my $two = $browser->open($url, width => 390, height => 844, mobile => 1, dark => 1);
ok($two->wait_for($is_live, 20), 'and in a second window');
ok($one->wait_for("$log.includes('came in')", 10), 'the first window sees the second come in');
ok($_->wait_for('document.getElementById("room-count").innerText === "2 here"', 10), 'the number of subscribers') for $one, $two;

my @talk = ([$one, $two, "hello, c'est l'été <b>&amp;"], [$two, $one, '收到了 👍']);
for my $step (@talk) {
    my ($from, $to, $text) = @$step;
    $from->evaluate('document.getElementById("room-text").focus()');
    $from->type($text);
    $from->press_enter;
    my $shows = "$log.includes(" . JSON::PP->new->allow_nonref->encode($text) . ')';
    ok($to->wait_for($shows, 10), "what one writes the other sees: $text");
    ok($from->wait_for($shows, 10), 'and the writer too');
}
ok($one->wait_for('document.getElementById("room-note").innerText.startsWith("Back from")', 10),
   'the way there and back is timed');

is(http_request($port, 'POST', '/pub?channel=lobby', body => 'by hand')->{body}, '{"delivered":2}', 'a text from elsewhere');
ok($_->wait_for("$log.includes('by hand')", 10), 'reaches both windows') for $one, $two;

my $of = sub { "document.getElementById('$_[0]')" };
$one->evaluate($of->('job-button') . '.click()');
ok($one->wait_for($of->('job-progress') . '.value >= 6', 15), 'a long job reports its progress');
$one->evaluate($of->('job-button') . '.click()');
ok($two->wait_for("$log.includes('A job is over: cancelled at')", 10), 'the application notices that it was cancelled');

$one->evaluate($of->('counter-exclusive') . '.click()');
ok($one->wait_for($of->('counter-note') . ".innerText === 'All 20 were counted.'", 20), 'one at a time nothing is lost');
$one->evaluate($of->('counter-free') . '.click()');
ok($one->wait_for($of->('counter-note') . ".innerText.includes('were lost')", 20), 'all at once something is');

is($two->evaluate('document.documentElement.scrollWidth'), 390, 'nothing is wider than a phone');
$two->call('Page.navigate', {url => 'about:blank'});
ok($one->wait_for("$log.includes('left')", 10), 'the first window sees the second leave');
ok($one->wait_for($of->('room-count') . ".innerText === 'only you'", 10), 'and is alone');
$two->call('Page.navigate', {url => $url});
ok($two->wait_for($is_live, 20), 'it comes back');

# The lost state may be gone again before it is asked for.
$one->evaluate('new MutationObserver(() => window.was_lost ||= document.getElementById("room-state").dataset.state'
             . ' === "lost").observe(document.getElementById("room-state"), {attributes: true}); 1');
kill 'KILL', $_ for $nginx->workers;
ok($one->wait_for('window.was_lost === true', 10), 'a lost connection shows');
ok($_->wait_for($is_live, 20), 'and comes back by itself') for $one, $two;

ok($nginx->stop('QUIT'), 'the server ends though both windows are open');
my @alarms = grep { $_ =~ $NginxProcess::ALARMING && !/exited on signal 9/ } split /^/, $nginx->error_log;
is("@alarms", '', 'no alerts');

done_testing;
