# SPDX-License-Identifier: BSD-2-Clause
# The runner must fail when it should: for each section a block whose expectation is
# wrong, and for each refusal a file that must not run. nginx runs without our module.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use Test::More;

my $lib = abs_path(dirname(__FILE__)) . '/lib';
my $folder = tempdir('durable-selfcheck-XXXXXX', TMPDIR => 1, CLEANUP => 1);

sub run_file {
    my ($runner, $text, $settings) = @_;
    open my $out, '>', "$folder/case.t" or die $!;
    print $out "use lib '$lib';\nuse DurableNginx 'no_plan';\n", $settings // '', "\nrun_tests();\n__DATA__\n", $text;
    close $out;
    # Each run finds a port and a folder of its own.
    local @ENV{qw(DURABLE_TEST_RUNNER TEST_NGINX_LOAD_MODULES TEST_NGINX_SERVROOT TEST_NGINX_SERVER_PORT)} = ($runner, '');
    delete @ENV{qw(TEST_NGINX_SERVROOT TEST_NGINX_SERVER_PORT)};
    my $output = `cd $folder && $^X case.t 2>&1`;
    return ($?, $output);
}

# Test lines that failed, by block. (Test::Nginx has a line of its own form for timeouts,
# after which its exit status no longer tells of failures.)
sub failures {
    my ($output) = @_;
    my %failed;
    ++$failed{$1} while $output =~ /^not ok \d+ - case\.t (.+?) - /mg;
    ++$failed{$1} while $output =~ /^not ok \d+ - ERROR: client socket timed out - case\.t (.+)/mg;
    return \%failed;
}

my $location = "--- config\nlocation /a { return 200 'hello'; add_header X-A b; }\n";
my $get = $location . "--- request\nGET /a\n";

my %good = (
    'status is 200 by default' => $get,
    'error_code' => $get . "--- error_code: 200\n",
    'error_code_like' => $get . "--- error_code_like: ^2\n",
    'response_body' => $get . "--- response_body chomp\nhello\n",
    'response_body regexp' => $get . "--- response_body eval: qr/hel/\n",
    'response_body_like' => $get . "--- response_body_like: ^hel\n",
    'response_body_unlike' => $get . "--- response_body_unlike: world\n",
    'response_headers' => $get . "--- response_headers\nX-A: b\n! X-B\n",
    'response_headers_like' => $get . "--- response_headers_like\nX-A: [a-c]\n",
    'raw headers' => $get . "--- raw_response_headers_like: X-A: b\\r\\n\n--- raw_response_headers_unlike: chunked\n",
    'error_log' => $get . "--- error_log\nhttp request line\n",
    'no_error_log' => $get . "--- no_error_log\n[alert]\n",
    'grep_error_log' => $get . qq(--- grep_error_log eval: qr/http request line: "GET/\n--- grep_error_log_out\nhttp request line: "GET\n),
    'access_log' => $get . "--- access_log\nGET /a\n--- no_access_log\nGET /b\n",
    'must_die' => "--- config\nnonsense;\n--- must_die\n--- error_log\nunknown directive\n",
    'body' => "--- config\nlocation /a { return 200 '\$content_length'; }\n--- request\nPOST /a\nsix by\n--- response_body chomp\n6\n",
    'several requests' => $location . qq(--- request eval\n["GET /a", "GET /b"]\n--- error_code eval\n[200, 404]\n),
    'pipelined' => $location . qq(--- pipelined_requests eval\n["GET /a", "GET /b"]\n--- error_code eval\n[200, 404]\n),
    'raw_request' => $location . qq(--- raw_request eval\n"GET /a HTTP/1.0\\r\\n\\r\\n"\n),
    'user_files' => "--- config\n--- user_files\n>>> d/x\nfile\n--- request\nGET /d/x\n--- response_body\nfile\n",
    'main and http config' => "--- main_config\nenv X=y;\n--- http_config\nmap \$uri \$m { default z; }\n"
        . "--- config\nlocation /a { return 200 \$m; }\n--- request\nGET /a\n--- response_body chomp\nz\n",
    'abort' => "--- config\nlocation /a { alias \$TEST_NGINX_SERVER_ROOT/html/; limit_rate 10; }\n--- request\nGET /a/index.html\n"
        . "--- timeout: 200ms\n--- abort\n--- ignore_response\n",
    'shutdown' => "--- config\n--- raw_request eval: 'GET / HT'\n--- shutdown: 1\n--- ignore_response\n",
);

my %bad = (
    'status is 200 by default' => "--- config\n--- request\nGET /nothing\n",
    'error_code' => $get . "--- error_code: 201\n",
    'error_code_like' => $get . "--- error_code_like: ^3\n",
    'response_body' => $get . "--- response_body\nhello\n",
    'response_body regexp' => $get . "--- response_body eval: qr/world/\n",
    'response_body_like' => $get . "--- response_body_like: world\n",
    'response_body_unlike' => $get . "--- response_body_unlike: hel\n",
    'response_headers' => $get . "--- response_headers\nX-A: c\n",
    'response_headers absent' => $get . "--- response_headers\n! X-A\n",
    'response_headers missing' => $get . "--- response_headers\nX-B: b\n",
    'response_headers_like' => $get . "--- response_headers_like\nX-A: [d-f]\n",
    'raw headers like' => $get . "--- raw_response_headers_like: X-B\n",
    'raw headers unlike' => $get . "--- raw_response_headers_unlike: X-A\n",
    'error_log' => $get . "--- error_log\nno such line\n",
    'error_log regexp' => $get . "--- error_log eval: qr/no such line/\n",
    'no_error_log' => $get . "--- no_error_log\nhttp request line\n",
    'grep_error_log' => $get . qq(--- grep_error_log eval: qr/http request line: "GET/\n--- grep_error_log_out\nnothing\n),
    'access_log' => $get . "--- access_log\nGET /b\n",
    'no_access_log' => $get . "--- no_access_log\nGET /a\n",
    'must_die' => $location . "--- must_die\n",
    'must_die with a code' => "--- config\nnonsense;\n--- must_die: 7\n",
    'body' => "--- config\nlocation /a { return 200 '\$content_length'; }\n--- request\nPOST /a\nsix by\n--- response_body chomp\n7\n",
    'several requests' => $location . qq(--- request eval\n["GET /a", "GET /b"]\n--- error_code eval\n[200, 200]\n),
    'pipelined' => $location . qq(--- pipelined_requests eval\n["GET /a", "GET /b"]\n--- error_code eval\n[404, 404]\n),
    'timeout' => "--- config\nlocation /a { alias \$TEST_NGINX_SERVER_ROOT/html/; limit_rate 10; }\n--- request\nGET /a/index.html\n--- timeout: 200ms\n",
    'chunked cut short' => chunked('5\r\nhel'),
    'no last chunk' => chunked('5\r\nhello\r\n'),
    'bad chunk size' => chunked('zz\r\nhello\r\n0\r\n\r\n'),
);

# A head that says chunked over bytes of our choice: nginx does not chunk for HTTP/1.0.
sub chunked {
    my ($bytes) = @_;
    return qq(--- config\nlocation /a { add_header Transfer-Encoding chunked; return 200 "$bytes"; }\n)
        . "--- request\nGET /a HTTP/1.0\n";
}

# Files that must not run to their end, and what the runner says of them.
my %refused = (
    'an unknown section' => [$get . "--- respone_body\nhello\n", qr/not supported by the minimal runner: respone_body/],
    'no config' => ["--- request\nGET /a\n", qr/no --- config/],
    'no request' => [$location, qr/no --- request/],
    'a section that the other hides' =>
        [$get . "--- response_headers\nX-A: b\n--- response_headers_like\nX-A: b\n", qr/exclude each other/],
    'one expectation for two requests' => [$location . qq(--- request eval\n["GET /a", "GET /b"]\n), qr/not an array/, 'error_code: 200'],
    'a bad request line' => [$location . "--- request\nGET /a b c d\n", qr/request line is not/],
    'a configuration that fails' => ["--- config\nnonsense;\n--- request\nGET /a\n", qr/nginx did not start.*unknown directive/s],
    'grep_error_log alone' => [$get . "--- grep_error_log: a\n", qr/needs --- grep_error_log_out/],
    'an unknown variable' => ["--- config\nlocation /\$TEST_NGINX_NO_SUCH { }\n--- request\nGET /a\n", qr/no environment variable/],
);
$_->[0] .= "--- $_->[2]\n" for grep { $_->[2] } values %refused;

sub file_of {
    my (%blocks) = @_;
    return join "\n", map { "=== $_\n$blocks{$_}" } sort keys %blocks;
}

my @runners = ('minimal');
push @runners, 'real' if grep { -e "$_/Test/Nginx/Socket.pm" } @INC;

for my $runner (@runners) {
    for my $settings ('', "master_on();\nworkers(2);\nrepeat_each(2);\n") {
        my ($status, $output) = run_file($runner, file_of(%good), $settings);
        is($status, 0, "$runner: what is right passes") or diag($output);
    }
    my ($status, $output) = run_file($runner, file_of(%bad));
    isnt($status, 0, "$runner: what is wrong fails") if $runner eq 'minimal';
    unlike($output, qr/Bail ?out/i, "$runner: but runs to its end") or diag($output);
    my $failed = failures($output);
    for my $block (sort keys %bad) {
        ok($failed->{$block}, "$runner: wrong $block is seen") or diag($output);
    }
}

for my $case (sort keys %refused) {
    my ($text, $reason) = @{$refused{$case}};
    my ($status, $output) = run_file('minimal', "=== refused\n$text");
    isnt($status, 0, "$case is refused");
    like($output, $reason, "$case is refused with a reason");
}

# Lines that are alarming fail a block that looks for something else.
for my $line ('[alert] 1#1: x', '[crit] 1#1: x', '[emerg] 1#1: x', '[notice] worker process 1 exited on signal 11',
              'ERROR: AddressSanitizer: heap-use-after-free', 'a.cpp:1:2: runtime error: x') {
    my ($status, $output) = run_file('minimal', "=== alarm\n$get", logs_at_once($line));
    isnt($status, 0, "\"$line\" in the log fails a block");
    $output =~ s/\\#/#/g;    # as TAP has it
    like($output, qr/not ok .*unexpected in error\.log: .*\Q$line\E/, "\"$line\" is shown");
}

# Writes the line to nginx's log while nginx runs.
sub logs_at_once {
    my ($line) = @_;
    return <<"END";
no warnings 'redefine';
my \$parse = \\&MinimalNginx::Response::parse;
*MinimalNginx::Response::parse = sub {
    open my \$log, '>>', server_root() . '/logs/error.log' or die;
    print \$log q($line), "\\n";
    close \$log;
    goto &\$parse;
};
END
}

done_testing();
