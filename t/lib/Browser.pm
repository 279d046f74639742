# SPDX-License-Identifier: BSD-2-Clause
# A headless Chromium, driven over its debugging pipe: JSON messages, each ended by NUL.
#
#     my $browser = Browser->start or plan skip_all => 'no chromium';
#     my $page = $browser->open('http://127.0.0.1:8080/', width => 1280, height => 800);
#     $page->wait_for('document.title === "x"', 10);
#     $page->evaluate('1 + 1');
package Browser;
use strict;
use warnings;
use Fcntl qw(F_DUPFD);
use File::Temp qw(tempdir);
use JSON::PP;
use NginxProcess;
use POSIX ();
use Time::HiRes qw(time);

my $json = JSON::PP->new->utf8->allow_nonref;

sub start {
    my ($class) = @_;
    my ($binary) = grep { -x } map { my $folder = $_; map { "$folder/$_" } qw(chromium chromium-browser) }
        split /:/, $ENV{PATH};
    return undef if !$binary;
    my $profile = tempdir('durable-browser-XXXXXX', TMPDIR => 1, CLEANUP => 1);
    my @command = ($binary, qw(--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
        --disable-background-networking --disable-component-update --disable-sync --disable-dev-shm-usage
        --remote-debugging-pipe), "--user-data-dir=$profile", 'about:blank');
    pipe(my $their_in, my $our_out) or die "pipe: $!";
    pipe(my $our_in, my $their_out) or die "pipe: $!";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>', "$profile/stdout";
        open STDERR, '>', "$profile/stderr";
        # Chromium reads from 3 and writes to 4, which may be in use for another of the pipes.
        my @moved = map { fcntl $_, F_DUPFD, 10 } $their_in, $their_out;
        POSIX::dup2($moved[$_], 3 + $_) for 0, 1;
        exec {$command[0]} @command or POSIX::_exit(127);
    }
    my $self = bless {pid => $pid, owner => $$, in => $our_in, out => $our_out, buffer => '', next_id => 1,
                      profile => $profile}, $class;
    return $self;
}

# Sends a command and returns its result; session: that of a page.
sub call {
    my ($self, $method, $params, $session) = @_;
    my $id = $self->{next_id}++;
    my %message = (id => $id, method => $method, params => $params || {}, $session ? (sessionId => $session) : ());
    syswrite $self->{out}, $json->encode(\%message) . "\0";
    my $deadline = time + 30;
    while (my $answer = $self->read_message($deadline)) {
        next if ($answer->{id} // 0) != $id;
        die "$method: $answer->{error}{message}\n" if $answer->{error};
        return $answer->{result};
    }
    die "$method: no answer of the browser\n" . (NginxProcess::slurp("$self->{profile}/stderr") // '');
}

sub read_message {
    my ($self, $deadline) = @_;
    my $end;
    while (($end = index $self->{buffer}, "\0") < 0) {
        my $seconds = $deadline - time;
        return undef if $seconds <= 0;
        my $ready = '';
        vec($ready, fileno $self->{in}, 1) = 1;
        next if !select $ready, undef, undef, $seconds;
        sysread $self->{in}, $self->{buffer}, 65536, length $self->{buffer} or return undef;
    }
    my $message = substr $self->{buffer}, 0, $end + 1, '';
    return $json->decode(substr $message, 0, $end);
}

# A page in a window of its own; width, height, dark and mobile are what it believes of its device.
sub open {
    my ($self, $url, %device) = @_;
    my $target = $self->call('Target.createTarget', {url => 'about:blank', newWindow => JSON::PP::true})->{targetId};
    my $session = $self->call('Target.attachToTarget', {targetId => $target, flatten => JSON::PP::true})->{sessionId};
    my $page = bless {browser => $self, session => $session}, 'Browser::Page';
    $page->call('Emulation.setDeviceMetricsOverride', {
        width => $device{width} // 1280, height => $device{height} // 800, deviceScaleFactor => 1,
        mobile => $device{mobile} ? JSON::PP::true : JSON::PP::false});
    $page->call('Emulation.setEmulatedMedia', {
        features => [{name => 'prefers-color-scheme', value => $device{dark} ? 'dark' : 'light'}]});
    $page->call('Page.navigate', {url => $url});
    return $page;
}

sub DESTROY {
    my ($self) = @_;
    return if $self->{owner} != $$;
    local ($?, $!, $@);
    eval { local $SIG{PIPE} = 'IGNORE'; $self->call('Browser.close') };
    my $is_gone = sub { waitpid($self->{pid}, POSIX::WNOHANG()) != 0 };
    return if NginxProcess::wait_until(5, $is_gone);
    kill 'KILL', $self->{pid};
    waitpid $self->{pid}, 0;
}

package Browser::Page;
use MIME::Base64 qw(decode_base64);

sub call { $_[0]{browser}->call(@_[1, 2], $_[0]{session}) }

# The value of a JavaScript expression, of what it resolves to if that is a promise.
sub evaluate {
    my ($self, $expression) = @_;
    my $answer = $self->call('Runtime.evaluate', {
        expression => $expression, returnByValue => JSON::PP::true, awaitPromise => JSON::PP::true});
    die "$expression: $answer->{exceptionDetails}{exception}{description}\n" if $answer->{exceptionDetails};
    return $answer->{result}{value};
}

# Waits until the expression is true; what it is at the end.
sub wait_for {
    my ($self, $expression, $seconds) = @_;
    return NginxProcess::wait_until($seconds, sub { $self->evaluate($expression) });
}

# Writes into the focused element, as a keyboard would.
sub type { $_[0]->call('Input.insertText', {text => $_[1]}) }

sub press_enter {
    my ($self) = @_;
    my %key = (key => 'Enter', code => 'Enter', windowsVirtualKeyCode => 13);
    $self->call('Input.dispatchKeyEvent', {type => 'rawKeyDown', %key});
    $self->call('Input.dispatchKeyEvent', {type => 'keyUp', %key});
}

sub screenshot {
    my ($self, $path) = @_;
    my $data = $self->call('Page.captureScreenshot', {format => 'png', captureBeyondViewport => JSON::PP::true})->{data};
    open my $out, '>:raw', $path or die "$path: $!";
    print $out decode_base64($data);
    close $out;
}

1;
