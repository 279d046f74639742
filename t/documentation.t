# SPDX-License-Identifier: BSD-2-Clause
# The README names every directive and variable, in the form it promises, and none that is not
# there; every example, and the README's own, is a configuration that nginx takes.
use strict;
use warnings;
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use FindBin;
use lib "$FindBin::Bin/lib";
use FreePort qw(free_port);
use Test::More;

my $root = "$FindBin::Bin/..";

sub slurp {
    my ($path) = @_;
    open my $in, '<', $path or die "$path: $!";
    local $/;
    return scalar <$in>;
}

my $readme = slurp("$root/README.md");

# ---- directives and variables

my $sources = slurp("$root/ngx_module/directives.cpp");
my ($table) = $sources =~ /^ngx_command_t durable_commands\[\] = \{(.*?)^\s*ngx_null_command/ms;
my %directive = map { $_ => 1 } $table =~ /ngx_string\("(durable_\w+)"\)/g;
ok(keys %directive > 5, 'the table of directives is read');

my %section = $readme =~ /^### (durable_\w+)\n(.*?)(?=^##|\z)/msg;
is_deeply([sort keys %section], [sort keys %directive], 'one heading for each directive, and no other');

for my $name (sort keys %section) {
    like($section{$name}, qr/\A\n```\nSyntax:  $name\b.*?;\nDefault: (?:-|$name .*;)\nContext: \S.*\nSince:   \d+\.\d+\.\d+\n```\n/s,
         "$name: syntax, default, context, since");
    like($section{$name}, qr/^Inherited: /m, "$name: inherited");
}

my %variable = map { $_ => 1 } slurp("$root/ngx_module/variables.cpp") =~ /ngx_string\("(durable_\w+)"\)/g;
my ($variables) = $readme =~ /^## Variables\n(.*?)^## /ms;
is_deeply([sort $variables =~ /^\| `\$(\w+)`/mg], [sort keys %variable], 'one row for each variable, and no other');

# ---- links

for my $page ('README.md', map { "docs/$_" } map { s{.*/}{}r } glob "$root/docs/*.md") {
    my $text = slurp("$root/$page");
    my ($folder) = $page =~ m{^(.*/)?};
    my @dead = grep { !-e "$root/" . ($folder // '') . $_ } $text =~ /\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g;
    is("@dead", '', "$page: every file it links to exists");
}
my %anchor = map { (lc =~ s/[^\w\s-]//gr =~ s/ /-/gr) => 1 } $readme =~ /^#+ (.*)$/mg;
is(join(' ', grep { !$anchor{$_} } $readme =~ /\]\(#([^)]+)\)/g), '', 'README.md: every heading it links to exists');

# ---- configurations

my $nginx = $ENV{TEST_NGINX_BINARY} || 'nginx';
my $load = join "\n", map { "load_module $_;" } split ' ', $ENV{TEST_NGINX_LOAD_MODULES} // '';

# What nginx -t says about a configuration; empty when it has nothing to say.
sub complaints {
    my ($conf) = @_;
    my $prefix = tempdir('durable-conf-XXXXXX', TMPDIR => 1, CLEANUP => 1);
    make_path(map { "$prefix/$_" } qw(logs temp data));
    # The workers' user must get at a store there.
    chmod 0755, $prefix;
    chmod 0777, "$prefix/data";
    symlink "$root/conf-examples", "$prefix/conf-examples" or die "symlink: $!";
    # The module is where the build has left it; the pid file and the ports of an nginx that runs,
    # say of the demo, are its own.
    $conf =~ s/^load_module [^;]*ngx_http_durable_module\.so;//m;
    $conf =~ s/\b(listen 127\.0\.0\.1:)\d+/$1 . free_port()/ge;
    open my $out, '>', "$prefix/nginx.conf" or die $!;
    print $out "pid $prefix/nginx.pid;\n$load\n$conf";
    close $out;
    my $said = `$nginx -t -q -p $prefix/ -e $prefix/logs/error.log -c $prefix/nginx.conf 2>&1`;
    return $? ? "status $?: $said" : $said;
}

for my $path (sort glob "$root/conf-examples/*.conf") {
    my $name = $path =~ s{.*/}{}r;
    is(complaints(slurp($path)), '', "nginx takes $name");
}

my @blocks = $readme =~ /^```nginx\n(.*?)^```/msg;
my ($first, @others) = @blocks;
like($first, qr/^load_module/, 'the README begins with a whole configuration');
SKIP: {
    # It has no paths of its own: nginx takes its default ones, which only root may write.
    skip 'needs root', 1 if $> != 0;
    is(complaints($first), '', 'nginx takes it');
}
my $server = 'events {} http { client_body_temp_path temp/b; proxy_temp_path temp/p; fastcgi_temp_path temp/f;'
    . ' uwsgi_temp_path temp/u; scgi_temp_path temp/s; access_log off; durable_zone main 1m; durable_object main one;'
    . ' upstream app { server 127.0.0.1:1; } server { listen 127.0.0.1:18299; %s } }';
is(complaints(sprintf $server, $_), '', 'nginx takes: ' . ((split /\n/)[0])) for @others;

like(complaints('nonsense;'), qr/unknown directive "nonsense"/, 'a configuration that is wrong is seen');

done_testing;
