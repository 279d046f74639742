# SPDX-License-Identifier: BSD-2-Clause
# What the configuration refuses, and with which words: the directive, the value, the range.
use FindBin;
use lib "$FindBin::Bin/lib";
use DurableNginx 'no_plan';

add_block_preprocessor(sub {
    my $block = shift;
    $block->set_value(config => '') if !defined $block->config;
    $block->set_value(no_error_log => "[alert]\n") if !defined $block->no_error_log;
});
no_long_string();
run_tests();

__DATA__

=== TEST 1: durable_zone needs a size
--- http_config
durable_zone main;
--- must_die
--- error_log
invalid number of arguments in "durable_zone" directive

=== TEST 2: durable_zone below 1m
--- http_config
durable_zone main 1048575;
--- must_die
--- error_log
invalid value "1048575" in "durable_zone", it must be a size of at least 1m

=== TEST 3: durable_zone with a size that is none
--- http_config
durable_zone main huge;
--- must_die
--- error_log
invalid value "huge" in "durable_zone", it must be a size of at least 1m

=== TEST 4: durable_zone with an empty name
--- http_config
durable_zone "" 1m;
--- must_die
--- error_log
invalid value "" in "durable_zone", it must be a name

=== TEST 5: durable_zone with an unknown parameter
--- http_config
durable_zone main 1m chanels=100;
--- must_die
--- error_log
unknown parameter "chanels=100" in "durable_zone"

=== TEST 6: C-2 is a floor
--- http_config
durable_zone main 1m channels=63;
--- must_die
--- error_log
invalid value "channels=63" in "durable_zone", it must be a number from 64

=== TEST 7: channels= without a number
--- http_config
durable_zone main 1m channels=;
--- must_die
--- error_log
invalid value "channels=" in "durable_zone", it must be a number from 64

=== TEST 8: C-3 is a floor
--- http_config
durable_zone main 1m subscriptions=255;
--- must_die
--- error_log
invalid value "subscriptions=255" in "durable_zone", it must be a number from 256

=== TEST 9: C-27 is a floor
--- http_config
durable_zone main 1m backlog=1048575;
--- must_die
--- error_log
invalid value "backlog=1048575" in "durable_zone", it must be a size from 1m

=== TEST 10: a number that overflows
--- http_config
durable_zone main 1m channels=99999999999999999999;
--- must_die
--- error_log
invalid value "channels=99999999999999999999" in "durable_zone"

=== TEST 11: a zone declared twice
--- http_config
durable_zone main 1m;
durable_zone main 1m;
--- must_die
--- error_log
duplicate "durable_zone" "main"

=== TEST 12: a zone declared twice with different sizes
--- http_config
durable_zone main 1m;
durable_zone main 2m;
--- must_die
--- error_log
"main"

=== TEST 13: durable_zone belongs into http
--- config
durable_zone main 1m;
--- must_die
--- error_log
"durable_zone" directive is not allowed here

=== TEST 14: durable_object with an unknown zone
--- http_config
durable_zone main 1m;
--- config
durable_object other a;
--- must_die
--- error_log
"durable_object" names the unknown "durable_zone" "other"

=== TEST 15: durable_object without a key
--- http_config
durable_zone main 1m;
--- config
durable_object main;
--- must_die
--- error_log
invalid value "main" in "durable_object", it must be "off", or a zone and a key

=== TEST 16: durable_object twice
--- http_config
durable_zone main 1m;
--- config
durable_object main a;
durable_object main b;
--- must_die
--- error_log
"durable_object" directive is duplicate

=== TEST 17: durable_object with queue= out of range
--- http_config
durable_zone main 1m;
--- config
durable_object main a queue=-1;
--- must_die
--- error_log
invalid value "queue=-1" in "durable_object", it must be a number from 0 to 1000000

=== TEST 18: durable_object with wait= out of range
--- http_config
durable_zone main 1m;
--- config
durable_object main a wait=25h;
--- must_die
--- error_log
invalid value "wait=25h" in "durable_object", it must be a time from 1ms to 24h

=== TEST 19: durable_object with an unknown parameter
--- http_config
durable_zone main 1m;
--- config
durable_object main a line=3;
--- must_die
--- error_log
unknown parameter "line=3" in "durable_object"

=== TEST 20: durable_object with a key of an unknown variable
--- http_config
durable_zone main 1m;
--- config
durable_object main $no_such_variable;
--- must_die
--- error_log
unknown "no_such_variable" variable

=== TEST 21: durable_subscribe without a durable_object
--- http_config
durable_zone main 1m;
--- config
location = /sub { durable_subscribe a; }
--- must_die
--- error_log
"durable_subscribe" needs a "durable_object" here or on a level above

=== TEST 22: durable_publish where the durable_object is off
--- http_config
durable_zone main 1m;
--- config
durable_object main a;
location = /pub { durable_object off; durable_publish a; }
--- must_die
--- error_log
"durable_publish" needs a "durable_object" here or on a level above

=== TEST 23: durable_subscribe with 65 channels
--- http_config
durable_zone main 1m;
durable_object main a;
--- config eval
"location = /sub { durable_subscribe @{[map { \"c$_\" } 1 .. 65]}; }"
--- must_die
--- error_log
"durable_subscribe" takes 1 to 64 channels, not 65

=== TEST 24: durable_subscribe without a channel
--- http_config
durable_zone main 1m;
durable_object main a;
--- config
location = /sub { durable_subscribe; }
--- must_die
--- error_log
invalid number of arguments in "durable_subscribe" directive

=== TEST 25: durable_publish with two channels
--- http_config
durable_zone main 1m;
durable_object main a;
--- config
location = /pub { durable_publish a b; }
--- must_die
--- error_log
invalid number of arguments in "durable_publish" directive

=== TEST 26: durable_publish twice
--- http_config
durable_zone main 1m;
durable_object main a;
--- config
location = /pub { durable_publish a; durable_publish b; }
--- must_die
--- error_log
"durable_publish" directive is duplicate

=== TEST 27: two content handlers of the module
--- http_config
durable_zone main 1m;
durable_object main a;
--- config
location = /pub { durable_publish a; durable_subscribe a; }
--- must_die
--- error_log
"durable_subscribe": this location has a content handler already

=== TEST 28: a content handler of nginx's before it
--- http_config
durable_zone main 1m;
durable_object main a;
--- config
location = /pub { proxy_pass http://127.0.0.1:1; durable_publish a; }
--- must_die
--- error_log
"durable_publish": this location has a content handler already

=== TEST 29: a content handler of nginx's behind it
--- http_config
durable_zone main 1m;
durable_object main a;
--- config
location = /pub { durable_publish a; proxy_pass http://127.0.0.1:1; }
--- must_die
--- error_log
"durable_publish": this location has another content handler too

=== TEST 30: durable_publish inside if
--- http_config
durable_zone main 1m;
durable_object main a;
--- config
location = /pub { if ($request_method = POST) { durable_publish a; } }
--- must_die
--- error_log
"durable_publish" directive is not allowed here

=== TEST 31: durable_subscribe inside if
--- http_config
durable_zone main 1m;
durable_object main a;
--- config
location = /sub { if ($request_method = GET) { durable_subscribe a; } }
--- must_die
--- error_log
"durable_subscribe" directive is not allowed here

=== TEST 32: durable_subscribe inside limit_except
--- http_config
durable_zone main 1m;
durable_object main a;
--- config
location = /sub { limit_except GET { durable_subscribe a; } }
--- must_die
--- error_log
"durable_subscribe" directive is not allowed here

=== TEST 33: durable_subscribe in the server
--- http_config
durable_zone main 1m;
durable_object main a;
--- config
durable_subscribe a;
--- must_die
--- error_log
"durable_subscribe" directive is not allowed here

=== TEST 34: durable_subscribe_format of another kind
--- config
durable_subscribe_format xml;
--- must_die
--- error_log
invalid value "xml" in "durable_subscribe_format", it must be "text" or "json"

=== TEST 35: durable_ping of a negative time
--- config
durable_ping -1s;
--- must_die
--- error_log
invalid value "-1s" in "durable_ping", it must be a time from 0 to 365d

=== TEST 36: durable_ping of too long a time
--- config
durable_ping 366d;
--- must_die
--- error_log
invalid value "366d" in "durable_ping", it must be a time from 0 to 365d

=== TEST 37: durable_ping twice
--- config
durable_ping 1s;
durable_ping 2s;
--- must_die
--- error_log
"durable_ping" directive is duplicate

=== TEST 38: durable_retry of no time
--- config
durable_retry soon;
--- must_die
--- error_log
invalid value "soon" in "durable_retry", it must be a time from 0 to 365d

=== TEST 39: durable_stream_buffer of 0
--- config
durable_stream_buffer 0;
--- must_die
--- error_log
invalid value "0" in "durable_stream_buffer", it must be a size from 1 to 1024m

=== TEST 40: durable_stream_buffer of more than 1024m
--- config
durable_stream_buffer 1025m;
--- must_die
--- error_log
invalid value "1025m" in "durable_stream_buffer", it must be a size from 1 to 1024m

=== TEST 41: the highest and lowest of each are accepted
--- http_config
durable_zone main 1m channels=64 subscriptions=256 backlog=1m;
durable_zone big 2048k subscriptions=1000000000 channels=1000000000 backlog=1000000000;
durable_object main $host queue=0 wait=1ms;
--- config eval
"durable_object big 'a b' queue=1000000 wait=24h; durable_ping 0; durable_retry 365d; durable_stream_buffer 1;
location = /sub { durable_subscribe_format json; durable_subscribe @{[map { \"c$_\" } 1 .. 64]}; }
location = /off { durable_object off; return 200 ok; durable_ping 365d; durable_retry 0; durable_stream_buffer 1024m; }"
--- request
GET /off
--- response_body chomp
ok
