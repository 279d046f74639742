# SPDX-License-Identifier: BSD-2-Clause
# durable_publish: what it takes, what it refuses and how. Nobody subscribes here, so what
# is published is delivered to 0.
use FindBin;
use lib "$FindBin::Bin/lib";
use DurableNginx 'no_plan';

add_block_preprocessor(sub {
    my $block = shift;
    $block->set_value(http_config => "durable_zone main 2m;\n" . ($block->http_config // ''));
    $block->set_value(config => 'location = /pub { durable_object main $arg_object; durable_publish $arg_channel; }'
        . "\n" . ($block->config // ''));
    $block->set_value(no_error_log => "[alert]\n[crit]\n[error]\n") if !defined $block->no_error_log;
});
no_long_string();
run_tests();

__DATA__

=== TEST 1: POST publishes
--- request
POST /pub?object=o&channel=a
hello
--- response_headers
Content-Type: application/json
Content-Length: 15
--- response_body chomp
{"delivered":0}

=== TEST 2: PUT publishes
--- request
PUT /pub?object=o&channel=a
hello
--- response_body chomp
{"delivered":0}

=== TEST 3: another method is refused with those that are allowed
--- request eval
["GET /pub?object=o&channel=a", "DELETE /pub?object=o&channel=a", "OPTIONS /pub?object=o&channel=a",
 "PATCH /pub?object=o&channel=a"]
--- error_code eval
[405, 405, 405, 405]
--- response_headers eval
[("Allow: POST, PUT\nContent-Type: application/json") x 4]
--- response_body eval
[map { qq({"code":"method_not_allowed","message":"this call does not have that method: $_"}) } qw(GET DELETE OPTIONS PATCH)]

=== TEST 4: HEAD is refused by its head alone
--- request
HEAD /pub?object=o&channel=a
--- error_code: 405
--- response_headers
Allow: POST, PUT
Content-Type: application/json
--- response_body chomp


=== TEST 5: C-4 an empty text is legal: no body, one of length 0, a chunked one, and one in a file
--- config
location = /only { client_body_in_file_only clean; durable_object main o; durable_publish a; }
--- request eval
["PUT /pub?object=o&channel=a", "POST /pub?object=o&channel=a", "POST /only",
 "POST /pub?object=o&channel=a\n0\r\n\r\n"]
--- more_headers eval
["", "Content-Length: 0", "Content-Length: 0", "Transfer-Encoding: chunked"]
--- response_body eval
[('{"delivered":0}') x 4]
--- error_code eval
[(200) x 4]

=== TEST 6: C-4 65536 bytes, in one buffer, in several, and in a file
--- config
location = /file { client_body_buffer_size 1k; durable_object main o; durable_publish a; }
location = /only { client_body_in_file_only clean; durable_object main o; durable_publish a; }
location = /memory { client_body_buffer_size 128k; durable_object main o; durable_publish a; }
--- request eval
[map { "POST $_\n" . "x" x 65536 } "/pub?object=o&channel=a", "/file", "/only", "/memory"]
--- error_code eval
[(200) x 4]
--- response_body eval
[('{"delivered":0}') x 4]
--- no_error_log
[alert]
[crit]
[error]

=== TEST 7: C-4 65537 bytes are refused, however they come
--- config
location = /memory { client_body_buffer_size 128k; durable_object main o; durable_publish a; }
--- request eval
[(map { "POST $_\n" . "x" x 65537 } "/pub?object=o&channel=a", "/memory"),
 "POST /pub?object=o&channel=a\n" . "10001\r\n" . "x" x 65537 . "\r\n0\r\n\r\n"]
--- more_headers eval
["", "", "Transfer-Encoding: chunked"]
--- error_code eval
[(413) x 3]
--- response_headers eval
[("Content-Type: application/json") x 3]
--- response_body eval
[('{"code":"text_too_large","message":"持久频道文字超过 65536 字节"}') x 3]

=== TEST 8: C-4 a text that begins with 0xFF
--- request eval
["POST /pub?object=o&channel=a\n\xFFabc", "POST /pub?object=o&channel=a\n\xFF"]
--- error_code eval
[400, 400]
--- response_body eval
[('{"code":"invalid_text","message":"持久频道文字不得以字节 0xFF 起首"}') x 2]

=== TEST 9: C-4 bad UTF-8: a stray byte, cut short, overlong, a surrogate, beyond U+10FFFF
--- request eval
[map { "POST /pub?object=o&channel=a\nab$_" } "\x80", "\xE6\xB1", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80"]
--- error_code eval
[(400) x 5]
--- response_body_like eval
[('^\{"code":"invalid_text","message":"[^"]+"\}$') x 5]

=== TEST 10: C-4 bad UTF-8 in a body that is in a file
--- config
location = /file { client_body_buffer_size 1k; durable_object main o; durable_publish a; }
--- request eval
"POST /file\n" . "x" x 30000 . "\xE6\xB1" . "y" x 30000
--- error_code: 400
--- response_body_like: ^\{"code":"invalid_text"

=== TEST 11: C-27a NUL and any UTF-8 are text, also across buffers
--- config
location = /file { client_body_buffer_size 1k; durable_object main o; durable_publish a; }
--- request eval
["POST /pub?object=o&channel=a\na\0b", "POST /pub?object=o&channel=a\n\0",
 "POST /file\na" . "汉" x 20000]
--- error_code eval
[200, 200, 200]

=== TEST 12: a chunked body
--- request eval
"POST /pub?object=o&channel=a\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
--- more_headers
Transfer-Encoding: chunked
--- response_body chomp
{"delivered":0}

=== TEST 13: C-1 names of 1 and of 64 bytes, and all that may be in one
--- request eval
["POST /pub?object=o&channel=a\nx", "POST /pub?object=o&channel=" . "a" x 64 . "\nx",
 "POST /pub?object=o&channel=AZaz09._:-\nx", "POST /pub?object=o&channel=..\nx"]
--- error_code eval
[200, 200, 200, 200]

=== TEST 14: C-1 no name, 65 bytes, and bytes that no name has
--- request eval
["POST /pub?object=o\nx", "POST /pub?object=o&channel=\nx", "POST /pub?object=o&channel=" . "a" x 65 . "\nx",
 "POST /pub?object=o&channel=a/b\nx", "POST /pub?object=o&channel=a%20b\nx", "POST /pub?object=o&channel=a+b\nx"]
--- error_code eval
[(400) x 6]
--- response_body_like eval
[('^\{"code":"invalid_channel","message":"持久频道名须为 1 至 64 字节') x 6]

=== TEST 15: C-1 a bad name is told back as JSON
--- config
location ~ "(?s)^/name/(.*)$" { durable_object main o; durable_publish $1; }
--- request eval
["POST /name/a%22%5C%0Ab\nx", "POST /name/a%FFb\nx"]
--- error_code eval
[400, 400]
--- response_body_like eval
[qr/^\{"code":"invalid_channel","message":"[^"]*a\\"\\\\\\(?:n|u000[aA])b"\}$/,
 qr/^\{"code":"invalid_channel","message":"[^"\xFF]*"\}$/]

=== TEST 16: an object key of 512 bytes, of 513, and none
--- request eval
[map { "POST /pub?object=$_&channel=a\nx" } "k" x 512, "k" x 513, ""]
--- error_code eval
[200, 400, 400]
--- response_body_like eval
['^\{"delivered":0\}$', ('^\{"code":"invalid_object","message":"[^"]+"\}$') x 2]

=== TEST 17: an event type of 1 and of 256 bytes, and of more than ASCII
--- request eval
[map { "POST /pub?object=o&channel=a&event=$_\nx" } "e", "e" x 256, "%E6%B1%89", "a%20b", "Durable-x", "durable"]
--- error_code eval
[(200) x 6]

=== TEST 18: an event type that is empty, too long, a control character, bad UTF-8, ours, or a bad escape
--- request eval
[map { "POST /pub?object=o&channel=a&event=$_\nx" } "", "e" x 257, "a%0Ab", "a%00", "%7F", "%C2%85", "%FF",
 "durable-close", "durable-", "a%2", "a%zz"]
--- error_code eval
[(400) x 11]
--- response_body_like eval
[('^\{"code":"invalid_request","message":"[^"]+"\}$') x 11]

=== TEST 19: C-7 C-8 a refusal and a publish without subscribers make nothing: a hundred channels are no limit
--- request eval
[map { "POST /pub?object=o&channel=c$_\nx" } 1 .. 100]
--- error_code eval
[(200) x 100]
--- response_body eval
[('{"delivered":0}') x 100]

=== TEST 20: error_page does not replace a refusal, nginx's own errors stay HTML
--- config
error_page 400 405 413 429 /other;
location = /other { return 200 other; }
location = /small { client_max_body_size 4; durable_object main o; durable_publish a; }
--- request eval
["POST /pub?object=o&channel=\nx", "POST /pub?object=o&channel=a\n" . "x" x 65537, "GET /pub?object=o&channel=a"]
--- error_code eval
[400, 413, 405]
--- response_body_like eval
['"invalid_channel"', '"text_too_large"', '"method_not_allowed"']

=== TEST 21: client_max_body_size is nginx's own refusal
--- config
location = /small { client_max_body_size 4; durable_object main o; durable_publish a; }
--- request
POST /small
12345
--- error_code: 413
--- response_headers
Content-Type: text/html
--- no_error_log
[alert]
[crit]

=== TEST 22: access control comes first
--- config
location = /denied { deny all; durable_object main ''; durable_publish ''; }
--- request
POST /denied
x
--- error_code: 403
--- response_headers
Content-Type: text/html
--- no_error_log
[alert]
[crit]

=== TEST 23: a kept-alive connection goes on after an answer, a refusal, and an unread body
--- pipelined_requests eval
["POST /pub?object=o&channel=a\nx", "POST /pub?object=o&channel=\nx", "GET /pub?object=o&channel=a\nunread",
 "POST /pub?object=o&channel=a\n" . "x" x 65537, "PUT /pub?object=o&channel=a\ny"]
--- error_code eval
[200, 400, 405, 413, 200]

=== TEST 24: Expect: 100-continue
--- raw_request eval
"POST /pub?object=o&channel=a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx"
--- ignore_response

=== TEST 25: variables make the name, and the request is logged like any other
--- config
location ~ ^/(?<what>\w+)/pub$ { durable_object main $host:$what; durable_publish room:$what; }
--- request
POST /kitchen/pub
hello
--- access_log eval
qr{"POST /kitchen/pub HTTP/1.1" 200 15 }
--- response_body chomp
{"delivered":0}
