# SPDX-License-Identifier: BSD-2-Clause
# The HTTP side of host calls: paths, methods, bodies, refusals, and nginx's own errors, with
# calls that need no event.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DurableNginx 'no_plan';

workers(1);
no_root_location();
run_tests();

__DATA__

=== TEST 1: a call without a token acts on its location's object
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; }
--- request eval
["GET /durable/channels/c", "POST /durable/channels/c/messages\nhello", "POST /durable/channels/c/close\nbye"]
--- response_body eval
['{"subscriptions":0}', '{"delivered":0}', '{"closed":0}']
--- response_headers eval
[("Content-Type: application/json") x 3]

=== TEST 2: an inherited object counts
--- http_config
durable_zone main 1m;
durable_object main o;
--- config
location /durable/ { durable_api; }
--- request
GET /durable/channels/c
--- response_body chomp
{"subscriptions":0}

=== TEST 3: without a token and an object nobody is calling
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_api; }
--- request eval
["GET /durable/channels/c", "POST /durable/channels/c/messages\nhello"]
--- error_code eval
[401, 401]
--- response_body eval
[('{"code":"unknown_event","message":"there is no such running event"}') x 2]

=== TEST 4: what only an event may do
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; }
--- request eval
["POST /durable/channels/c/subscriptions", "GET /durable/subscriptions/0123456789abcdef/message?timeout=0",
 "DELETE /durable/subscriptions/0123456789abcdef"]
--- error_code eval
[401, 401, 401]
--- response_body_like eval
[(qr/^\{"code":"unknown_event"/) x 3]

=== TEST 5: a token that is none, of another zone, or of no running event
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; }
--- request eval
[("GET /durable/channels/c") x 5]
--- more_headers eval
["Durable-Event:", "Durable-Event: x", "Durable-Event: " . 'a' x 52, "Durable-Event: " . 'a' x 32 . '00000000' . '000000000001',
 "durable-event: " . 'A' x 52]
--- error_code eval
[(401) x 5]
--- response_body_like eval
[(qr/^\{"code":"unknown_event"/) x 5]

=== TEST 6: an empty or too long key
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main $arg_key; durable_api; }
--- request eval
["GET /durable/channels/c", "GET /durable/channels/c?key=" . 'x' x 513, "GET /durable/channels/c?key=" . 'x' x 512]
--- error_code eval
[400, 400, 200]
--- response_body_like eval
[qr/"invalid_object"/, qr/"invalid_object"/, qr/"subscriptions":0/]

=== TEST 7: paths that are no call
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; }
--- request eval
[map { "GET /durable/$_" } '', 'x', 'channels', 'channels/c/', 'channels/c/messages/x', 'Channels/c', 'subscriptions/h/x',
 'channels/c//messages', 'a/b/c/d/e/f/g/h/i/j', 'channels%2Fc']
--- error_code eval
[(404) x 10]
--- response_body_like eval
[(qr/^\{"code":"not_found","message":"there is no such call: /) x 10]
--- response_headers eval
[("Content-Type: application/json") x 10]

=== TEST 8: methods that a path does not have
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; }
--- request eval
["PUT /durable/channels/c", "GET /durable/channels/c/close", "POST /durable/subscriptions/h", "HEAD /durable/subscriptions/h/message?timeout=0",
 "OPTIONS /durable/channels/c/subscriptions"]
--- error_code eval
[(405) x 5]
--- response_headers eval
["Allow: GET, HEAD", "Allow: POST", "Allow: DELETE", "Allow: GET", "Allow: POST"]

=== TEST 9: HEAD where GET is
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; }
--- request eval
["HEAD /durable/channels/c", "HEAD /durable/channels/a%20b", "HEAD /durable/nothing"]
--- error_code eval
[200, 400, 404]
--- response_body eval
['', '', '']
--- response_headers eval
["Content-Length: 19", "Content-Type: application/json", "Content-Type: application/json"]

=== TEST 10: a prefix without a slash at its end
--- http_config
durable_zone main 1m;
--- config
location /durable { durable_object main o; durable_api; }
--- request eval
["GET /durable/channels/c", "GET /durablechannels/c", "GET /durable//channels/c", "GET /durable"]
--- error_code eval
[200, 404, 200, 404]

=== TEST 11: a prefix that is written otherwise
--- http_config
durable_zone main 1m;
--- config
location "/a b/durable/" { durable_object main o; durable_api; }
--- request eval
["GET /a%20b/durable/channels/c", "GET /%61%20b/%64urable/channels/c", "GET //a%20b///durable//channels/c", "GET /a%20b/x/../durable/channels/c",
 "GET /a%20b%2Fdurable%2Fchannels/c"]
--- error_code eval
[(200) x 5]

=== TEST 12: names of dots
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; }
--- request eval
["GET /durable/channels/%2E", "GET /durable/channels/%2e%2E", "POST /durable/channels/%2E%2E/messages\nx", "POST /durable/channels/./close\nx"]
--- error_code eval
[(200) x 4]

=== TEST 13: a prefix of one slash
--- http_config
durable_zone main 1m;
--- config
location / { durable_object main o; durable_api; }
--- request eval
["GET /channels/c", "GET //channels/c"]
--- error_code eval
[200, 200]

=== TEST 14: a rewrite into the location
--- http_config
durable_zone main 1m;
--- config
rewrite ^/count/(.*)$ /durable/channels/$1 last;
location /durable/ { durable_object main o; durable_api; }
location = /redirected { rewrite ^ /durable/channels/c?timeout=1 last; }
location = /again { error_page 404 = /durable/channels/c; return 404; }
--- request eval
["GET /count/c", "GET /count/a%2520b", "GET /redirected", "GET /again"]
--- error_code eval
[200, 400, 200, 200]

=== TEST 15: error pages do not replace refusals
--- http_config
durable_zone main 1m;
error_page 400 401 404 405 = /page;
--- config
location = /page { return 200 'page'; }
location /durable/ { durable_object main o; durable_api; }
--- request eval
["GET /durable/nothing", "GET /durable/channels/a%20b", "PUT /durable/channels/c"]
--- error_code eval
[404, 400, 405]
--- response_body_like eval
[(qr/^\{"code":/) x 3]

=== TEST 16: nginx's own errors are JSON too
--- http_config
durable_zone main 1m;
limit_req_zone $server_name zone=slow:64k rate=1r/m;
--- config
location /denied/ { durable_object main o; durable_api; deny all; }
location /basic/ { durable_object main o; durable_api; auth_basic x; auth_basic_user_file /nowhere; }
location /limited/ { durable_object main o; durable_api; limit_req zone=slow; }
location /return/ { durable_object main o; durable_api; return 410; }
location /html/ { deny all; }
--- request eval
["GET /denied/channels/c", "GET /basic/channels/c", "GET /limited/channels/c", "GET /limited/channels/c", "GET /return/", "GET /html/",
 "HEAD /denied/channels/c"]
--- error_code eval
[403, 401, 200, 503, 410, 403, 403]
--- response_body_like eval
[qr/^\{"code":"forbidden","message":"access is not allowed"\}$/, qr/^\{"code":"unauthorized"/, qr/^\{"subscriptions":0\}$/,
 qr/^\{"code":"unavailable"/, qr/^\{"code":"invalid_request"/, qr/<html>/, qr/^$/]
--- response_headers eval
["Content-Type: application/json", "WWW-Authenticate: Basic realm=\"x\"", "", "", "", "Content-Type: text/html", "Content-Type: application/json"]

=== TEST 17: bodies up to 9m reach the calls, which judge them
--- http_config
durable_zone main 4m;
--- config
location /durable/ { durable_object main o; durable_api; client_max_body_size 1k; }
location /more/ { durable_object main o; durable_api; client_max_body_size 20m; }
--- request eval
["POST /durable/channels/c/messages\n" . 'x' x 65536, "POST /durable/channels/c/messages\n" . 'x' x 65537,
 "POST /durable/channels/c/messages\n" . 'x' x 10000000, "POST /durable/channels/c/close\n" . 'x' x 10000000,
 "POST /more/channels/c/messages\n" . 'x' x 10000000, "GET /durable/channels/c\n" . 'x' x 100000]
--- error_code eval
[200, 413, 413, 413, 413, 200]
--- response_body_like eval
[qr/"delivered":0/, qr/"text_too_large"/, qr/"text_too_large"/, qr/"reason_too_large"/, qr/"text_too_large"/, qr/"subscriptions":0/]

=== TEST 18: a body that was put into a file
--- http_config
durable_zone main 4m;
--- config
location /durable/ { durable_object main o; durable_api; client_body_in_file_only clean; }
--- request eval
["POST /durable/channels/c/messages\n" . 'x' x 65536, "POST /durable/channels/c/messages\n\xff", "POST /durable/channels/c/close\n"]
--- error_code eval
[200, 400, 200]

=== TEST 19: chunked bodies
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; }
--- raw_request eval
["POST /durable/channels/c/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
 "3\r\nabc\r\n", "2\r\nde\r\n0\r\n\r\n"]
--- response_body chomp
{"delivered":0}

=== TEST 20: calls that come at once on one connection
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; }
--- pipelined_requests eval
["POST /durable/channels/c/messages\nhello", "GET /durable/channels/c", "GET /durable/nothing\nbody", "POST /durable/channels/c/close\nbye"]
--- error_code eval
[200, 200, 404, 200]
--- response_body_like eval
[qr/^\{"delivered":0\}$/, qr/^\{"subscriptions":0\}$/, qr/"not_found"/, qr/^\{"closed":0\}$/]

=== TEST 21: a refused call's body is read, and the connection is used again
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; }
--- pipelined_requests eval
["POST /durable/channels/a%20b/messages\nhello", "POST /durable/channels/c/subscriptions\n" . 'x' x 30000, "GET /durable/channels/c"]
--- error_code eval
[400, 401, 200]
--- response_body_like eval
[qr/"invalid_channel"/, qr/"unknown_event"/, qr/^\{"subscriptions":0\}$/]

=== TEST 22: event types
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; }
--- request eval
[map { "POST /durable/channels/c/messages$_\nx" } '?event=tick', '?event=%E6%94%B6', '?event=' . 'x' x 256, '?event=', '?event', '?event=a%0Ab',
 '?event=durable-close', '?event=%ff', '?event=%zz', '?event=' . 'x' x 257]
--- error_code eval
[200, 200, 200, (400) x 7]
--- response_body_like eval
[(qr/"delivered":0/) x 3, (qr/"invalid_request"/) x 7]

=== TEST 23: access by method
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; limit_except GET { deny all; } }
location /open/ { durable_object main o; durable_api; limit_except GET { allow all; } }
--- request eval
["GET /durable/channels/c", "POST /durable/channels/c/messages\nx", "GET /open/channels/c", "POST /open/channels/c/messages\nx"]
--- error_code eval
[200, 403, 200, 200]
--- response_body_like eval
[qr/"subscriptions":0/, qr/"forbidden"/, qr/"subscriptions":0/, qr/"delivered":0/]

=== TEST 24: an if beside it
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; if ($arg_x) { set $y 1; } }
--- request eval
["GET /durable/channels/c?x=1", "GET /durable/channels/c", "POST /durable/channels/c/messages?x=1\n" . 'x' x 65537]
--- error_code eval
[200, 200, 413]
--- response_body_like eval
[(qr/"subscriptions":0/) x 2, qr/"text_too_large"/]

=== TEST 25: a location that has no prefix
--- http_config
durable_zone main 1m;
--- config
location ~ ^/durable/ { durable_api; }
--- must_die
--- error_log
"durable_api" needs a location with a prefix, which "^/durable/" is not

=== TEST 26: nor has an exact one
--- http_config
durable_zone main 1m;
--- config
location = /durable { durable_api; }
--- must_die
--- error_log
"durable_api" needs a location with a prefix, which "/durable" is not

=== TEST 27: nor a named one
--- http_config
durable_zone main 1m;
--- config
location @durable { durable_api; }
--- must_die
--- error_log
"durable_api" needs a location with a prefix, which "@durable" is not

=== TEST 28: a second content handler
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_api; durable_publish x; durable_object main o; }
--- must_die
--- error_log
"durable_publish": this location has a content handler already

=== TEST 29: inside if
--- http_config
durable_zone main 1m;
--- config
location /durable/ { if ($arg_x) { durable_api; } }
--- must_die
--- error_log
"durable_api" directive is not allowed here

=== TEST 30: arguments
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_api on; }
--- must_die
--- error_log
invalid number of arguments in "durable_api" directive

=== TEST 31: a subrequest is no call
--- http_config
durable_zone main 1m;
--- config
location = /page { mirror /durable/channels/c; mirror_request_body off; return 200 'page'; }
location = /auth { auth_request /durable/channels/c; }
location /durable/ { durable_object main o; durable_api; }
--- request eval
["GET /page", "GET /auth"]
--- error_code eval
[200, 403]

=== TEST 32: a body that does not come
--- http_config
durable_zone main 1m;
--- config
location /durable/ { durable_object main o; durable_api; client_body_timeout 100ms; }
--- raw_request eval
"POST /durable/channels/c/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab"
--- timeout: 2s
--- ignore_response
--- no_error_log
[alert]
