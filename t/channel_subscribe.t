# SPDX-License-Identifier: BSD-2-Clause
# durable_subscribe: what is answered without a stream. The streams themselves are in
# multi/subscribe_stream.t.
use FindBin;
use lib "$FindBin::Bin/lib";
use DurableNginx 'no_plan';

add_block_preprocessor(sub {
    my $block = shift;
    $block->set_value(http_config => "durable_zone main 2m;\n" . ($block->http_config // ''));
    $block->set_value(config => 'location = /sub { durable_object main $arg_object; durable_subscribe $arg_channel; }'
        . "\n" . ($block->config // ''));
    $block->set_value(no_error_log => "[alert]\n[crit]\n[error]\n") if !defined $block->no_error_log;
});
no_long_string();
run_tests();

__DATA__

=== TEST 1: HEAD answers the head alone
--- request
HEAD /sub?object=o&channel=a
--- response_headers
Content-Type: text/event-stream; charset=utf-8
Cache-Control: no-store
X-Accel-Buffering: no
! Content-Length
! Transfer-Encoding
--- response_body chomp


=== TEST 2: another method is refused with those that are allowed
--- request eval
["POST /sub?object=o&channel=a\nx", "PUT /sub?object=o&channel=a\nx", "DELETE /sub?object=o&channel=a",
 "OPTIONS /sub?object=o&channel=a"]
--- error_code eval
[405, 405, 405, 405]
--- response_headers eval
[("Allow: GET, HEAD\nContent-Type: application/json") x 4]
--- response_body eval
[map { qq({"code":"method_not_allowed","message":"this call does not have that method: $_"}) } qw(POST PUT DELETE OPTIONS)]

=== TEST 3: C-1 no name, 65 bytes, and bytes that no name has, for GET and HEAD alike
--- request eval
["GET /sub?object=o", "GET /sub?object=o&channel=", "GET /sub?object=o&channel=" . "a" x 65,
 "GET /sub?object=o&channel=a/b", "GET /sub?object=o&channel=%E6%B1%89"]
--- error_code eval
[(400) x 5]
--- response_headers eval
[("Content-Type: application/json\n! Cache-Control") x 5]
--- response_body_like eval
[('^\{"code":"invalid_channel","message":"持久频道名须为 1 至 64 字节') x 5]

=== TEST 4: one bad name among several
--- config
location = /several { durable_object main o; durable_subscribe a $arg_channel c; }
--- request
GET /several?channel=a/b
--- error_code: 400
--- response_body_like: ^\{"code":"invalid_channel","message":"[^"]*a/b"\}$

=== TEST 5: a bad name by HEAD
--- request
HEAD /sub?object=o&channel=a/b
--- error_code: 400
--- response_headers
Content-Type: application/json
--- response_body chomp


=== TEST 6: an object key of 513 bytes, and none
--- request eval
["GET /sub?channel=a&object=" . "k" x 513, "GET /sub?channel=a&object="]
--- error_code eval
[400, 400]
--- response_body_like eval
[('^\{"code":"invalid_object","message":"[^"]+"\}$') x 2]

=== TEST 7: access control comes first
--- config
location = /denied { deny all; durable_object main ''; durable_subscribe a; }
--- request
GET /denied
--- error_code: 403
--- response_headers
Content-Type: text/html
--- no_error_log
[alert]
[crit]

=== TEST 8: error_page does not replace a refusal
--- config
error_page 400 405 /other;
location = /other { return 200 other; }
--- request eval
["GET /sub?object=o&channel=", "POST /sub?object=o&channel=a"]
--- error_code eval
[400, 405]
--- response_body_like eval
['"invalid_channel"', '"method_not_allowed"']

=== TEST 9: a subrequest is not a client that could stay
--- config
location = /guarded { auth_request /sub; root html; }
--- request
GET /guarded
--- error_code: 500
--- error_log
"durable_subscribe" does not answer subrequests
--- no_error_log
[alert]
