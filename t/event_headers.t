# SPDX-License-Identifier: BSD-2-Clause
# What the application is told of its event, over each protocol, and that nobody else is and
# nobody can pretend to be.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use DurableApp;
use DurableNginx 'no_plan';
use GatewayApp;

# Applications that answer with what they were told, header by header as it came.
my $http = DurableApp->start(sub {
    my ($request, $connection) = @_;
    my @lines = map { s/\A([^:]*): /\L$1\E=/r } grep { /^durable|^x-durable/i } split /\r\n/, $request->{raw};
    my $type = $request->{path} =~ /ssi/ ? 'text/html' : 'text/plain';
    my $cache = $request->{path} =~ /cached/ ? ['Cache-Control', 'max-age=100'] : [];
    $connection->note("$request->{path} @lines");
    my $body = $request->{path} =~ m{/includes} ? '<!--#include virtual="/part/ssi" -->' : '';
    $connection->respond(200, ['Content-Type', $type, @$cache], $body . join '', map { "$_\n" } sort @lines);
});
my @gateways = map { GatewayApp->start($_, qr/DURABLE/) } qw(fastcgi uwsgi scgi);
($ENV{TEST_NGINX_HTTP_PORT}, @ENV{map { "TEST_NGINX_${_}_PORT" } qw(FASTCGI UWSGI SCGI)}) = ($http->port, map { $_->port } @gateways);

add_block_preprocessor(sub {
    my ($block) = @_;
    $block->set_value(http_config => ($block->http_config // '') . <<'END');
durable_zone main 1m;
fastcgi_param QUERY_STRING $query_string;
server { listen 127.0.0.1:$TEST_NGINX_RAND_PORT_1 http2; location / { proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; } }
underscores_in_headers on;
END
    $block->set_value(no_error_log => '[error]') if !defined $block->error_log;
});

workers(1);
no_root_location();
run_tests();

__DATA__

=== TEST 1: proxy
--- config
location / { durable_object main "a key"; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
--- request
GET /x
--- response_body_like
^durable-event-kind=fetch
durable-event=[0-9a-f]{52}
durable-object=a key$

=== TEST 2: FastCGI
--- config
location / { durable_object main $arg_k; fastcgi_pass 127.0.0.1:$TEST_NGINX_FASTCGI_PORT; }
--- request
GET /x?k=key
--- response_body_like
^HTTP_DURABLE_EVENT=[0-9a-f]{52}
HTTP_DURABLE_EVENT_KIND=fetch
HTTP_DURABLE_OBJECT=key$

=== TEST 3: uwsgi
--- config
location / { durable_object main $arg_k; uwsgi_pass 127.0.0.1:$TEST_NGINX_UWSGI_PORT; }
--- request
GET /x?k=key
--- response_body_like
^HTTP_DURABLE_EVENT=[0-9a-f]{52}
HTTP_DURABLE_EVENT_KIND=fetch
HTTP_DURABLE_OBJECT=key$

=== TEST 4: SCGI
--- config
location / { durable_object main $arg_k; scgi_pass 127.0.0.1:$TEST_NGINX_SCGI_PORT; }
--- request
GET /x?k=key
--- response_body_like
^HTTP_DURABLE_EVENT=[0-9a-f]{52}
HTTP_DURABLE_EVENT_KIND=fetch
HTTP_DURABLE_OBJECT=key$

=== TEST 5: gRPC
--- config
location / { durable_object main $arg_k; grpc_pass grpc://127.0.0.1:$TEST_NGINX_RAND_PORT_1; }
--- request
GET /x?k=key
--- response_body_like
^durable-event-kind=fetch
durable-event=[0-9a-f]{52}
durable-object=key$

=== TEST 6: a client's own headers of these names are removed
--- config
location / { durable_object main key; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
location /fastcgi { durable_object main key; fastcgi_pass 127.0.0.1:$TEST_NGINX_FASTCGI_PORT; }
location /grpc { durable_object main key; grpc_pass grpc://127.0.0.1:$TEST_NGINX_RAND_PORT_1; }
location /uwsgi { durable_object main key; uwsgi_pass 127.0.0.1:$TEST_NGINX_UWSGI_PORT; }
location /scgi { durable_object main key; scgi_pass 127.0.0.1:$TEST_NGINX_SCGI_PORT; }
--- request eval
["GET /x", "GET /fastcgi", "GET /grpc", "GET /uwsgi", "GET /scgi"]
--- more_headers
Durable-Event: forged
durable-event: forged
DURABLE-EVENT: forged
durable_event: forged
Durable_Event_Kind: forged
Durable-Event-Kind: forged
dUrAbLe-ObJeCt: forged
Durable_Object: forged
Durable-Object: forged
DURABLE-OPERATION: forged
durable_operation: forged
X-Durable-Event: mine
--- response_body_like eval
my $plain = qr/^durable-event-kind=fetch\ndurable-event=[0-9a-f]{52}\ndurable-object=key\nx-durable-event=mine\n$/;
my $params = qr/^HTTP_DURABLE_EVENT=[0-9a-f]{52}\nHTTP_DURABLE_EVENT_KIND=fetch\nHTTP_DURABLE_OBJECT=key\nHTTP_X_DURABLE_EVENT=mine\n$/;
[$plain, $params, $plain, $params, $params]

=== TEST 7: many headers, before and behind them
--- config
location / { durable_object main key; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
--- request
GET /x
--- more_headers eval
join "\n", (map { "X-Durable-$_: $_\nDurable-Event: forged$_" } 10 .. 59)
--- response_body_like eval
my $all = join '', map { "x-durable-$_=$_\n" } 10 .. 59;
qr/^durable-event-kind=fetch\ndurable-event=[0-9a-f]{52}\ndurable-object=key\n$all$/

=== TEST 8: variables, where a protocol passes no headers on
--- config
location / {
    durable_object main key; proxy_pass_request_headers off;
    proxy_set_header X-Durable-Token "$durable_event $durable_event_kind $durable_object";
    proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT;
}
location /fastcgi {
    durable_object main key; fastcgi_pass_request_headers off; fastcgi_param X_DURABLE "$durable_event $durable_event_kind $durable_object";
    fastcgi_pass 127.0.0.1:$TEST_NGINX_FASTCGI_PORT;
}
--- request eval
["GET /x", "GET /fastcgi"]
--- response_body_like eval
[qr/^x-durable-token=[0-9a-f]{52} fetch key\n$/, qr/^X_DURABLE=[0-9a-f]{52} fetch key\n$/]

=== TEST 9: variables without an event
--- config
location / { return 200 "[$durable_event][$durable_event_kind][$durable_object]"; }
--- request
GET /x
--- more_headers
Durable-Event: forged
--- response_body chomp
[][][]

=== TEST 10: the variables and the headers say the same
--- config
location / { durable_object main key; add_header X-Token "$durable_event"; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT;
    proxy_set_header X-Durable-Token $durable_event; }
--- request
GET /x
--- response_body_like
^durable-event-kind=fetch
durable-event=([0-9a-f]{52})
durable-object=key
x-durable-token=\1$

=== TEST 11: auth_request sees neither an event nor a forged one
--- config
location / { durable_object main key; auth_request /auth; auth_request_set $seen $upstream_http_content_length;
    proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; add_header X-Seen $seen; }
location = /auth { internal; proxy_pass_request_body off; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
--- request
GET /x
--- more_headers
Durable-Event: forged
Durable-Object: forged
--- response_headers
X-Seen: 0
--- response_body_like
^durable-event-kind=fetch
durable-event=[0-9a-f]{52}
durable-object=key$

=== TEST 12: mirror does not see it either
--- config
location / { durable_object main key; mirror /mirrored; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
location = /mirrored { internal; log_subrequest on; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; access_log logs/access.log told; }
--- http_config
log_format told "mirrored length=$upstream_response_length";
--- request
GET /x
--- more_headers
Durable-Event: forged
--- wait: 0.1
--- access_log
mirrored length=0
--- response_body_like
^durable-event-kind=fetch

=== TEST 13: nor do SSI's parts
--- config
location /includes { durable_object main key; ssi on; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
location /part/ { proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
--- request
GET /includes/ssi
--- more_headers
Durable-Event: forged
--- response_body_like
^durable-event-kind=fetch
durable-event=[0-9a-f]{52}
durable-object=key$

=== TEST 14: nor where an inherited object would bind it
--- config
durable_object main key;
location /includes { ssi on; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
location /part/ { proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
--- request
GET /includes/ssi
--- response_body_like
^durable-event-kind=fetch
durable-event=[0-9a-f]{52}
durable-object=key$

=== TEST 15: an internal redirect keeps the event
--- config
location / { durable_object main key; error_page 404 = /other; add_header X-Token $durable_event; return 404; }
location /other { durable_object main other; proxy_set_header X-Durable-Token $durable_event; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
location /first { durable_object main key; error_page 502 = @second; proxy_pass http://127.0.0.1:1; }
location @second { proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
location /try { durable_object main key; try_files /nothing /other; }
--- request eval
["GET /x", "GET /first", "GET /try"]
--- error_log eval
[qr/./, qr/./, qr/./]
--- response_body_like eval
[qr/^durable-event-kind=fetch\ndurable-event=([0-9a-f]{52})\ndurable-object=other\nx-durable-token=\1\n$/,
 qr/^durable-event-kind=fetch\ndurable-event=[0-9a-f]{52}\ndurable-object=key\n$/,
 qr/^durable-event-kind=fetch\ndurable-event=([0-9a-f]{52})\ndurable-object=key\nx-durable-token=\1\n$/]

=== TEST 16: a cached answer makes no call of the application
--- http_config
proxy_cache_path cache keys_zone=cache:1m;
--- config
location / { durable_object main key; proxy_cache cache; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
--- request eval
["GET /cached", "GET /cached"]
--- response_headers eval
["X-Cache: MISS", "X-Cache: HIT"]

=== TEST 17: what access control refuses has no event
--- config
location / { durable_object main key; deny all; add_header X-Token "[$durable_event]" always; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
--- request
GET /x
--- error_log
access forbidden by rule
--- error_code: 403
--- response_headers
X-Token: []

=== TEST 18: a key with a line break
--- config
location ~ ^/key/(?<key>(?s).*)$ { durable_object main $key; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
--- request
GET /key/a%0d%0aDurable-Event:%20b%7f%c3%a9%25
--- response_body_like eval
qr/^durable-event-kind=fetch\ndurable-event=[0-9a-f]{52}\ndurable-object=a%0D%0ADurable-Event: b%7F\xc3\xa9%\n$/

=== TEST 19: HTTP/1.0 and HEAD
--- config
location / { durable_object main key; proxy_pass http://127.0.0.1:$TEST_NGINX_HTTP_PORT; }
--- request eval
["GET /x HTTP/1.0", "HEAD /x"]
--- response_body_like eval
[qr/^durable-event-kind=fetch/, qr/^$/]
