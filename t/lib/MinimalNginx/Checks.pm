# SPDX-License-Identifier: BSD-2-Clause
# Compares a response and the logs with a block's sections: the same assertions, in the
# same number, as Test::Nginx makes of them.
package MinimalNginx::Checks;
use strict;
use warnings;
use NginxProcess;
use Test::LongString ();
use Test::More ();
use Time::HiRes qw(sleep);

# How long a log line may come after the response: a request is logged when it is done.
my $log_delay = 0.05;
my $log_patience = 2;

our $no_long_string = 0;

sub is_text {
    my ($got, $expected, $name) = @_;
    return Test::More::like($got, $expected, $name) if ref $expected eq 'Regexp';
    return Test::More::is($got, $expected, $name) if $no_long_string;
    return Test::LongString::is_string($got, $expected, $name);
}

# With several requests in a block every expectation is an array.
sub at {
    my ($value, $i, $is_many) = @_;
    return $value->[$i] if ref $value eq 'ARRAY';
    die "several requests, but an expectation is not an array\n" if $is_many;
    return $value;
}

sub with_port {
    my ($text) = @_;
    return ref $text ? $text : $text =~ s/\$ServerPort(?:ForClient)?\b/$ENV{TEST_NGINX_SERVER_PORT}/gr;
}

sub response {
    my ($block, $response, $i, $is_many, $expand) = @_;
    my $name = $block->name;
    my $expected = sub { at($block->${\$_[0]}, $i, $is_many) };
    my $code = $response ? $response->code : '';
    if (defined $block->error_code_like) {
        my $pattern = $expected->('error_code_like');
        Test::More::like($code, qr/$pattern/sm, "$name - status code ok");
    } else {
        my $wanted = defined $block->error_code ? $expected->('error_code') : 200;
        Test::More::is($code, $wanted, "$name - status code ok");
    }
    my $raw = $response ? $response->raw_headers : '';
    if (defined $block->raw_response_headers_like) {
        my $pattern = $expected->('raw_response_headers_like');
        Test::More::like($raw, qr/$pattern/s, "$name - raw headers like");
    }
    if (defined $block->raw_response_headers_unlike) {
        my $pattern = $expected->('raw_response_headers_unlike');
        Test::More::unlike($raw, qr/$pattern/s, "$name - raw headers unlike");
    }
    headers($block, $response, $raw, $expected);
    body($block, $response, $expected, $expand);
}

sub headers {
    my ($block, $response, $raw, $expected) = @_;
    my $is_like = defined $block->response_headers_like;
    return if !$is_like && !defined $block->response_headers;
    for my $line (split /\n/, $expected->($is_like ? 'response_headers_like' : 'response_headers')) {
        $line =~ s/^\s+|\s+$//g;
        next if $line eq '';
        if ($line =~ s/^!\s*//) {
            Test::More::unlike($raw, qr/^\s*\Q$line\E\s*:/ms, $block->name . " - no header $line");
            next;
        }
        my ($header, $value) = split /\s*:\s*/, $line, 2;
        my $got = $response ? $response->header($header) // '' : '';
        my $name = $block->name . " - header $header ok";
        if ($is_like) { Test::More::like($got, qr/^$value$/, $name) }
        else { Test::More::is($got, with_port($value), $name) }
    }
}

sub body {
    my ($block, $response, $expected, $expand) = @_;
    my $got = $response ? $response->content : undef;
    my $name = $block->name . ' - response body';
    if (defined $block->response_body) {
        my $wanted = $expected->('response_body');
        is_text($got, ref $wanted ? $wanted : $expand->(with_port($wanted)), $name);
    }
    for my $section (grep { defined $block->$_ } qw(response_body_like response_body_unlike)) {
        my $pattern = with_port($expected->($section));
        my $compare = $section eq 'response_body_like' ? \&Test::More::like : \&Test::More::unlike;
        $compare->($got, qr/$pattern/s, "$name, $section");
    }
}

# A section of patterns: a line is a plain text to find, `eval` gives a regexp or an array.
sub patterns {
    my ($value) = @_;
    my @patterns = ref $value eq 'ARRAY' ? grep { defined } @$value
                 : ref $value            ? $value
                 :                         grep { $_ ne '' } split /\n+/, $value;
    return map { ref ? $_ : qr/\Q$_\E/ } @patterns;
}

# The log's text from where the last look ended. Waits for the patterns that must come.
sub new_log_text {
    my ($log, @awaited) = @_;
    sleep $log_delay;
    my $text;
    NginxProcess::wait_until($log_patience, sub {
        $text = substr(NginxProcess::slurp($log->{path}) // '', $log->{offset});
        return !grep { $text !~ $_ } @awaited;
    });
    $log->{offset} += length $text;
    return $text;
}

sub has_and_lacks {
    my ($block, $text, $wanted, $unwanted) = @_;
    for my $pattern (defined $block->$wanted ? patterns($block->$wanted) : ()) {
        Test::More::ok($text =~ $pattern, $block->name . " - $wanted has $pattern");
    }
    for my $pattern (defined $block->$unwanted ? patterns($block->$unwanted) : ()) {
        my ($line) = grep { $_ =~ $pattern } split /^/, $text;
        Test::More::ok(!defined $line, $block->name . " - $wanted lacks $pattern") or Test::More::diag($line);
    }
}

sub logs {
    my ($block, $error_log, $access_log) = @_;
    if (grep { defined $block->$_ } qw(error_log no_error_log grep_error_log)) {
        my $text = new_log_text($error_log, defined $block->error_log ? patterns($block->error_log) : ());
        if (defined $block->grep_error_log) {
            my ($pattern) = patterns($block->grep_error_log);
            my $found = join '', map { /$pattern/ ? "$&\n" : () } split /^/, $text;
            is_text($found, $block->grep_error_log_out, $block->name . ' - grep_error_log_out');
        }
        has_and_lacks($block, $text, 'error_log', 'no_error_log');
    }
    return if defined $block->ignore_response;
    if (grep { defined $block->$_ } qw(access_log no_access_log)) {
        # Test::Nginx looks at all of this log each time.
        my $text = new_log_text({path => $access_log->{path}, offset => 0},
                                defined $block->access_log ? patterns($block->access_log) : ());
        has_and_lacks($block, $text, 'access_log', 'no_access_log');
    }
}

# Beyond Test::Nginx, which only warns: what is alarming anywhere in the log, up to nginx's
# end, fails the block unless error_log says that it is expected.
sub whole_log {
    my ($block, $path) = @_;
    my @expected = defined $block->error_log ? patterns($block->error_log) : ();
    for my $line (split /^/, NginxProcess::slurp($path) // '') {
        next if $line !~ $NginxProcess::ALARMING || grep { $line =~ $_ } @expected;
        Test::More::fail($block->name . " - unexpected in error.log: $line");
    }
}

1;
