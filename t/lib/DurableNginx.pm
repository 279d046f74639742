# SPDX-License-Identifier: BSD-2-Clause
# What the t/*.t files use: Test::Nginx::Socket where it is installed, else the minimal
# runner beside this file, which knows the sections and functions that our files use.
#
#     use DurableNginx 'no_plan';
#     run_tests();
#     __DATA__
#     === TEST 1: …
#
# Each test file has a port and a server root of its own, so that they can run side by
# side. TEST_NGINX_BINARY and TEST_NGINX_LOAD_MODULES are as in Test::Nginx;
# DURABLE_TEST_RUNNER=minimal uses the minimal runner even where the other is installed.
package DurableNginx;
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use lib dirname(__FILE__);
use FreePort qw(free_port);

my $runner;

BEGIN {
    my $keep = $ENV{TEST_NGINX_NO_CLEAN} ? 0 : 1;
    $ENV{TEST_NGINX_SERVROOT} ||= tempdir('durable-t-XXXXXX', TMPDIR => 1, CLEANUP => $keep) . '/root';
    $ENV{TEST_NGINX_SERVER_PORT} ||= free_port();

    my $wanted = $ENV{DURABLE_TEST_RUNNER} // '';
    my $real = $wanted ne 'minimal' && grep { !ref && -e "$_/Test/Nginx/Socket.pm" } @INC;
    die "Test::Nginx is not installed\n" if $wanted eq 'real' && !$real;
    $runner = $real ? 'Test::Nginx::Socket' : 'MinimalNginx';
    eval "require $runner; 1" or die $@;
}

sub import {
    shift;
    unshift @_, $runner;
    goto &{$runner->can('import')};
}

1;
