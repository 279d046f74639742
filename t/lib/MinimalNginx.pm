# SPDX-License-Identifier: BSD-2-Clause
# A small stand-in for Test::Nginx::Socket: it runs the same files with the same result,
# but knows only the sections below and dies at any other. See DurableNginx.pm.
package MinimalNginx;
use Test::Base -Base;
use File::Path qw(make_path remove_tree);
use FreePort qw(free_port);
use MinimalNginx::Checks;
use MinimalNginx::Request;
use MinimalNginx::Response;
use NginxProcess;

our @EXPORT = qw(
    run_tests repeat_each workers master_on master_off log_level timeout worker_connections
    no_shuffle no_long_string no_root_location config_preamble add_block_preprocessor
    server_root html_dir server_port server_name bail_out is_str
);

my %known = map { $_ => 1 } qw(
    main_config http_config config user_files log_level
    request more_headers raw_request raw_request_middle_delay pipelined_requests
    timeout abort shutdown wait ignore_response http09
    error_code error_code_like response_body response_body_like response_body_unlike
    response_headers response_headers_like raw_response_headers_like raw_response_headers_unlike
    error_log no_error_log grep_error_log grep_error_log_out access_log no_access_log
    must_die ONLY SKIP LAST
);
# Test::Nginx looks at the first of these only.
my @exclusive = ([qw(response_headers response_headers_like)], [qw(error_code_like error_code)],
                 [qw(response_body response_body_like response_body_unlike)],
                 [qw(raw_request pipelined_requests request)], [qw(must_die request raw_request)]);

my $root = $ENV{TEST_NGINX_SERVROOT};
my $port = $ENV{TEST_NGINX_SERVER_PORT};
my %set = (repeat_each => 1, workers => 1, master => 'off', worker_connections => 64,
           log_level => $ENV{TEST_NGINX_LOG_LEVEL} || 'debug', timeout => $ENV{TEST_NGINX_TIMEOUT} || 3,
           server_name => 'localhost', root_location => 1, config_preamble => '');
my @preprocessors;
my $nginx;

sub setting (@) {
    my $name = shift;
    $set{$name} = shift if @_;
    return $set{$name};
}
sub repeat_each (@) { setting('repeat_each', @_) }
sub workers (@) { setting('workers', @_) }
sub worker_connections (@) { setting('worker_connections', @_) }
sub log_level (@) { setting('log_level', @_) }
sub timeout (@) { setting('timeout', @_) }
sub server_name (@) { setting('server_name', @_) }
sub config_preamble ($) { setting('config_preamble', @_) }
sub master_on () { setting('master', 'on') }
sub master_off () { setting('master', 'off') }
sub no_root_location () { setting('root_location', 0) }
sub no_shuffle () { }    # blocks run in the file's order anyway
sub no_long_string () { $MinimalNginx::Checks::no_long_string = 1 }
sub add_block_preprocessor (&) { unshift @preprocessors, shift }
sub server_root () { $root }
sub html_dir () { "$root/html" }
sub server_port () { $port }
sub bail_out (@) { Test::More::BAIL_OUT(join '', @_) }
sub is_str (@) { MinimalNginx::Checks::is_text(@_) }

sub run_tests () {
    $ENV{TEST_NGINX_SERVER_ROOT} = $root;
    for my $block (Test::Base::blocks()) {
        $_->($block) for @preprocessors;
        $block->set_value(name => $0 . ' ' . $block->name);
        eval { check_sections($block); run_block($block); 1 } and next;
        my $reason = $@;
        chomp $reason;
        undef $nginx;
        bail_out($block->name . " - $reason");
    }
}

sub check_sections ($) {
    my ($block) = @_;
    my %has = map { $_ => 1 } grep { !/^(?:name|description|seq_num|is_filtered|blocks_object|original_values|_\w+)$/ }
        keys %$block;
    my @unknown = sort grep { !$known{$_} } keys %has;
    die "section not supported by the minimal runner: @unknown\n" if @unknown;
    die "no --- config\n" if !$has{config};
    for my $set (@exclusive) {
        my @both = grep { $has{$_} } @$set;
        die "sections that exclude each other: @both\n" if @both > 1;
    }
    die "--- grep_error_log needs --- grep_error_log_out\n" if !$has{grep_error_log} != !$has{grep_error_log_out};
}

# $TEST_NGINX_NAME is from the environment; RAND_PORT_N is a port of its own in each block.
sub expander () {
    my %ports;
    return sub {
        my ($text) = @_;
        $text =~ s{\$(TEST_NGINX_[_A-Z0-9]+)}{
            $1 =~ /^TEST_NGINX_RAND_PORT_\d+$/ ? ($ports{$1} //= free_port())
                                               : $ENV{$1} // die "no environment variable $1\n" }ge;
        return $text;
    };
}

sub run_block ($) {
    my ($block) = @_;
    my $expand = expander();
    remove_tree($root);
    make_path("$root/conf", "$root/html", "$root/logs");
    write_file("$root/html/index.html", '<html><head><title>It works!</title></head><body>It works!</body></html>');
    write_user_files($block, $expand);
    write_file("$root/conf/nginx.conf", nginx_conf($block, $expand));
    my @logs = map { {path => "$root/logs/$_.log", offset => 0} } qw(error access);
    if (defined $block->must_die) {
        expect_death($block, @logs) for 1 .. $set{repeat_each};
        return;
    }
    start_nginx();
    $nginx->wait_ready($port) or die "nginx did not start:\n" . $nginx->error_log . "\n";
    run_exchanges($block, $expand, @logs) for 1 .. $set{repeat_each};
    $nginx->stop('QUIT', 10) or Test::More::fail($block->name . ' - nginx did not end at QUIT');
    undef $nginx;
    MinimalNginx::Checks::whole_log($block, $logs[0]{path});
}

sub start_nginx () {
    $nginx = NginxProcess->start(binary => $ENV{TEST_NGINX_BINARY} || 'nginx', prefix => $root);
}

sub expect_death ($@) {
    my ($block, @logs) = @_;
    start_nginx();
    my $status = $nginx->wait_exit(5);
    my $wanted = $block->must_die;
    my $name = $block->name . ' - nginx does not start';
    if (!defined $status || $status & 127) { Test::More::fail($name) }
    elsif ($wanted =~ /^\d+$/) { Test::More::is($status >> 8, $wanted, $name) }
    else { Test::More::isnt($status, 0, $name) }
    undef $nginx;
    MinimalNginx::Checks::logs($block, @logs);
}

sub run_exchanges ($$@) {
    my ($block, $expand, @logs) = @_;
    my @exchanges = MinimalNginx::Request::exchanges($block, $set{server_name}, $expand);
    my $total = 0;
    $total += $_->{answers} for @exchanges;
    my $i = 0;
    for my $exchange (@exchanges) {
        my $bytes = send_and_read($block, $exchange);
        my $is_head = $exchange->{packets}[0] =~ /\A\s*HEAD\s/;
        for (1 .. $exchange->{answers}) {
            if (!defined $block->ignore_response) {
                (my $response, $bytes) = parse($block, $bytes, $is_head);
                MinimalNginx::Checks::response($block, $response, $i, $total > 1, $expand);
            }
            Time::HiRes::sleep($block->wait) if $block->wait;
            MinimalNginx::Checks::logs($block, @logs);
            ++$i;
        }
        next if defined $block->ignore_response || $bytes eq '';
        Test::More::fail($block->name . " - unexpected bytes after the response: \"$bytes\"");
    }
}

sub send_and_read ($$) {
    my ($block, $exchange) = @_;
    my $shutdown = $block->shutdown;
    $shutdown = 1 if defined $shutdown && $shutdown !~ /\S/;
    my ($bytes, $has_timed_out) = MinimalNginx::Request::exchange(
        $port, $exchange->{packets}, timeout => seconds($block->timeout // $set{timeout}),
        shutdown => $shutdown, middle_delay => scalar $block->raw_request_middle_delay);
    Test::More::fail($block->name . ' - client socket timed out') if $has_timed_out && !defined $block->abort;
    return $bytes;
}

sub parse ($$$) {
    my ($block, $bytes, $is_head) = @_;
    return (MinimalNginx::Response->plain($bytes), '') if defined $block->http09;
    my ($response, $rest) = eval { MinimalNginx::Response::parse($bytes, $is_head) };
    return ($response, $rest) if $response;
    Test::More::fail($block->name . " - $@");
    return (undef, '');
}

sub seconds ($) {
    my ($time) = @_;
    return $time =~ s/ms$// ? $time / 1000 : $time =~ s/s$//r;
}

sub write_file ($$) {
    my ($path, $text) = @_;
    open my $out, '>', $path or die "$path: $!\n";
    print $out $text;
    close $out or die "$path: $!\n";
}

# ">>> name" begins a file below html/, or anywhere if the name is absolute.
sub write_user_files ($$) {
    my ($block, $expand) = @_;
    my $files = $block->user_files // return;
    if (!ref $files) {
        my (undef, @parts) = split /^>>> (\S+)[^\n]*\n/m, $files;
        $files = [];
        push @$files, [splice @parts, 0, 2] while @parts;
    }
    for my $file (@$files) {
        my $path = $file->[0] =~ m{^/} ? $file->[0] : "$root/html/$file->[0]";
        make_path($path =~ s{/[^/]*$}{}r);
        write_file($path, $expand->($file->[1] // ''));
    }
}

sub nginx_conf ($$) {
    my ($block, $expand) = @_;
    my %text = map { $_ => $expand->($block->$_ // '') } qw(main_config http_config config);
    my $modules = join ' ', map { "load_module $_;" } split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
    my $level = $block->log_level // $set{log_level};
    my $user = $> == 0 ? 'user root;' : '';
    my $temps = join ' ', map { "${_}_temp_path $root/${_}_temp;" } qw(client_body proxy fastcgi scgi uwsgi);
    my $root_location = $set{root_location} ? "location / { root $root/html; index index.html; }" : '';
    return <<"CONF";
worker_processes $set{workers};
master_process $set{master};
error_log $root/logs/error.log $level;
pid $root/logs/nginx.pid;
$user
env ASAN_OPTIONS;
$modules $text{main_config}
http {
    access_log $root/logs/access.log;
    $temps
    default_type text/plain;
    keepalive_timeout 68000ms;
$text{http_config}
    server {
        listen 127.0.0.1:$port;
        server_name '$set{server_name}';
        client_max_body_size 30M;
$set{config_preamble}
$text{config}
        $root_location
    }
}
events { accept_mutex off; worker_connections $set{worker_connections}; }
CONF
}

1;
