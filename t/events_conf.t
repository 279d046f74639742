# SPDX-License-Identifier: BSD-2-Clause
# What nginx -t says about the directives of the events API: the directive, the value and what is
# allowed; and that it touches no store.
use strict;
use warnings;
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Test::More;

my $nginx = $ENV{TEST_NGINX_BINARY} || 'nginx';
my $load = join "\n", map { "load_module $_;" } split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';
my $prefix = tempdir('durable-conf-XXXXXX', TMPDIR => 1, CLEANUP => 1);
make_path(map { "$prefix/$_" } qw(logs temp));
chmod 0777, $prefix;

# What nginx -t says: empty where it has nothing to say.
sub complaints {
    my ($http, $location, $user) = @_;
    open my $out, '>', "$prefix/nginx.conf" or die $!;
    my $main = $> == 0 ? 'user ' . ($user // 'root') . ';' : '';
    print $out <<"END";
$main pid $prefix/nginx.pid;
$load
events {}
http {
    client_body_temp_path temp/b; proxy_temp_path temp/p; fastcgi_temp_path temp/f; uwsgi_temp_path temp/u; scgi_temp_path temp/s;
    access_log off;
    $http
    server { listen 127.0.0.1:18298; $location }
}
END
    close $out;
    my $said = `$nginx -t -q -p $prefix/ -e $prefix/logs/error.log -c $prefix/nginx.conf 2>&1`;
    return $? ? "status $?: $said" : $said;
}

sub refuses {
    my ($http, $location, $pattern) = @_;
    my $said = complaints($http, $location);
    my $what = $http =~ s/durable_zone main 1m; //r . $location;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    like($said, $pattern, "refused: $what");
}
sub takes { my ($http, $location) = @_; is(complaints($http, $location // ''), '', "taken: $http " . ($location // '')) }

my $zone = 'durable_zone main 1m; ';
my $events = 'location /events/ { durable_events; durable_identity $http_account; }';

takes("$zone durable_store store.db;", $events);
takes("$zone durable_zone other 1m; durable_store $prefix/store.db zone=other retention=1h events=1000;", $events);
takes('', $events);    # 503 events_disabled
takes("$zone durable_store a.db; durable_handler h https://app.example/hook?x=1 secret=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw timeout=500ms;", $events);
takes("$zone durable_store a.db; durable_handler h http://[::1]:8080 secret=anything; durable_handler g http://127.0.0.1/;", $events);
takes("$zone durable_store a.db;", 'location /e/ { durable_events cors=https://a.example cors=http://localhost:3000 account_rows=1 app_rows=1; }');
takes("$zone durable_store a.db;", 'location / { durable_emit fs:$uri $arg_op; durable_identity $remote_user $arg_app; }');

refuses("$zone durable_store;", '', qr/invalid number of arguments in "durable_store"/);
refuses("$zone durable_store a; durable_store b;", '', qr/"durable_store" directive is duplicate/);
refuses("$zone durable_store data/;", '', qr/invalid value "data\/" in "durable_store", it must be the path of a file/);
refuses("$zone durable_store a $_->[0];", '', $_->[1])
    for ['x=1', qr/unknown parameter "x=1" in "durable_store"/], ['zone=', qr/"zone=" in "durable_store", it must be the name of a "durable_zone"/],
        ['zone=none', qr/"durable_store" names the unknown "durable_zone" "none"/],
        (map { ["retention=$_", qr/"retention=$_" in "durable_store", it must be a time from 1s to 3650d/] } '', 0, '10ms', 'x', '3651d'),
        (map { ["events=$_", qr/"events=$_" in "durable_store", it must be a number from 1 to 1000000000/] } '', 0, -1, 'x', '1000000001');
refuses('durable_store a;', '', qr/"durable_store" needs a "durable_zone"/);
refuses("$zone durable_store none/store.db;", '', qr/"durable_store" ".*none\/store\.db": its folder ".*none" must exist and be writable.*No such file/);
refuses("$zone durable_store nginx.conf/store.db;", '', qr/its folder ".*nginx\.conf" must exist.*Not a directory/);

refuses("$zone durable_handler $_->[0];", '', $_->[1])
    for ['h', qr/invalid number of arguments in "durable_handler"/], ['"" http://a/', qr/invalid value "" in "durable_handler", it must be 1 to 128 bytes/],
        ['h' x 129 . ' http://a/', qr/it must be 1 to 128 bytes/],
        (map { ["h '$_'", qr/invalid value "\Q$_\E" in "durable_handler", it must be an http:\/\/ or https:\/\/ URL/] } '', 'a', 'ftp://a/', 'http://', 'http:///x', 'http://u:p@a/', 'http://a:x/', 'http://a:0/', 'http://a:70000/', 'http://a b/'),
        ['h http://a/ x=1', qr/unknown parameter "x=1" in "durable_handler"/],
        (map { ["h http://a/ timeout=$_", qr/"timeout=$_" in "durable_handler", it must be a time from 1ms to 1h/] } '', 0, 'x', '2h');
for my $secret ('', 'whsec_', 'whsec_not*base64', 'whsec_A') {
    my $said = complaints("$zone durable_handler h http://a/ secret=$secret;", '');
    like($said, qr/invalid value "secret=\.\.\." in "durable_handler", it must be a key, or "whsec_" and the base64 of one/, "refused: secret=$secret");
    unlike($said, qr/not\*base64/, 'a secret is not repeated');
}
refuses("$zone durable_handler h http://a/; durable_handler h http://b/;", '', qr/duplicate "durable_handler" "h"/);

refuses("$zone durable_store a;", "location /e/ { durable_events $_->[0]; }", $_->[1])
    for ['x=1', qr/unknown parameter "x=1" in "durable_events"/],
        (map { ["cors=$_", qr/"\Qcors=$_\E" in "durable_events", it must be an origin as browsers send it/] } '', '*', 'a.example', 'https://', 'https://a.example/', 'https://A.example', 'https://*.example'),
        (map { ["account_rows=$_", qr/"account_rows=$_" in "durable_events", it must be a number from 1/] } '', 0, 'x'),
        (map { ["app_rows=$_", qr/"app_rows=$_" in "durable_events", it must be a number from 1/] } '', 0, '1000000001');
refuses($zone, 'location = /e { durable_events; }', qr/"durable_events" needs a location with a prefix/);
refuses($zone, 'location ~ ^/e { durable_events; }', qr/"durable_events" needs a location with a prefix/);
refuses($zone, 'location /e/ { durable_events; durable_events; }', qr/"durable_events" directive is duplicate/);
refuses($zone, 'location /e/ { durable_events; durable_api; }', qr/"durable_api": this location has a content handler already/);
refuses($zone, 'location /e/ { if ($arg_x) { durable_events; } }', qr/"durable_events" directive is not allowed here/);
refuses($zone, 'location /e/ { durable_identity; }', qr/invalid number of arguments in "durable_identity"/);
refuses($zone, 'location /e/ { durable_identity $a_b_c_d; }', qr/unknown "a_b_c_d" variable/);
refuses($zone, 'location /e/ { durable_identity a; durable_identity b; }', qr/"durable_identity" directive is duplicate/);
refuses($zone, 'location /e/ { durable_emit x; }', qr/invalid number of arguments in "durable_emit"/);
refuses($zone, 'location /e/ { durable_emit a b; durable_emit c d; }', qr/"durable_emit" directive is duplicate/);

# ---- the store's folder

SKIP: {
    skip 'needs root', 3 if $> != 0;
    mkdir "$prefix/closed", 0755;
    like(complaints("$zone durable_store closed/store.db;", '', 'nobody nogroup'), qr/must exist and be writable for the workers' user.*Permission denied/,
         'a folder that the workers may not write');
    chown scalar(getpwnam 'nobody'), -1, "$prefix/closed";
    is(complaints("$zone durable_store closed/store.db;", '', 'nobody nogroup'), '', 'one that is theirs');
    is(complaints("$zone durable_store closed/store.db;", '', 'root'), '', 'root may write any');
}
is_deeply([glob "$prefix/*.db* $prefix/*/*.db*"], [], 'nginx -t makes no store');

done_testing;
