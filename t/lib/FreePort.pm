# SPDX-License-Identifier: BSD-2-Clause
# A loopback port that no other test will be given while this process lives: test
# files run side by side, and a look at what is free now would be a race.
package FreePort;
use strict;
use warnings;
use Exporter 'import';
use IO::Socket::INET;
use Socket qw(AF_UNIX SOCK_DGRAM pack_sockaddr_un);

our @EXPORT_OK = qw(free_port);

# Below the range from which the kernel takes the ports of outgoing connections.
my ($first, $last) = (20000, 31999);
my @held;    # closed at exit, which gives the ports back

sub free_port {
    for (1 .. 1000) {
        my $port = $first + int rand($last - $first + 1);
        # A name in the abstract namespace vanishes with its socket, however we end.
        socket(my $claim, AF_UNIX, SOCK_DGRAM, 0) or die "socket: $!";
        bind($claim, pack_sockaddr_un("\0durable-test-port-$port")) or next;
        my $probe = IO::Socket::INET->new(
            LocalAddr => '0.0.0.0', LocalPort => $port, Proto => 'tcp', Listen => 1, ReuseAddr => 1)
            or next;
        close $probe;
        push @held, $claim;
        return $port;
    }
    die "no free port from $first to $last\n";
}

1;
