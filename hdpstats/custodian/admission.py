"""Which connections a site takes: so many in all, of one certificate, and without a finished handshake."""

import ipaddress
import resource
from collections import Counter
from typing import final

from hdpstats._base.errors import ArgumentError
from hdpstats.custodian.settings import Limits

RESERVE = 128
"""File descriptors that connections never take: for the ledger, the rows, and whatever else the process opens."""


@final
class Admission:
    """Counts connections; to be used from one event loop alone."""

    def __init__(self, limits: Limits, most: int) -> None:
        self._limits, self._most = limits, most
        self._connections = 0
        self._handshakes: Counter[str] = Counter()
        self._admitted: Counter[str | None] = Counter()

    @property
    def handshakes(self) -> int:
        """Connections that have not finished their handshake."""
        return self._handshakes.total()

    @property
    def connections(self) -> int:
        """All connections."""
        return self._connections

    def arrive(self, host: str) -> bool:
        """Whether a connection from an address may begin its handshake; then it counts until `leave`."""
        network = network_of(host)
        if (
            self._connections >= self._most
            or self.handshakes >= self._limits.handshakes
            or self._handshakes[network] >= self._limits.handshakes_each
        ):
            return False
        self._connections += 1
        self._handshakes[network] += 1
        return True

    def end_handshake(self, host: str) -> None:
        """Count a handshake as ended, well or badly."""
        network = network_of(host)
        self._handshakes[network] -= 1
        if not self._handshakes[network]:
            del self._handshakes[network]

    def admit(self, fingerprint: str | None) -> bool:
        """Whether the certificate of a connection may have one more; then it counts until `dismiss`."""
        if self._admitted[fingerprint] >= self._limits.connections_each:
            return False
        self._admitted[fingerprint] += 1
        return True

    def dismiss(self, fingerprint: str | None) -> None:
        """Count a connection of a certificate as ended."""
        self._admitted[fingerprint] -= 1
        if not self._admitted[fingerprint]:
            del self._admitted[fingerprint]

    def leave(self) -> None:
        """Count a connection that arrived as ended."""
        self._connections -= 1


def network_of(host: str) -> str:
    """Return what counts as one address: an address of IPv4, a network of 64 bits of IPv6.

    >>> network_of("192.0.2.7"), network_of("2001:db8::7"), network_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8::/64', '192.0.2.7')
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((int(address), 64), strict=False))


def descriptors(limits: Limits) -> int:
    """Return how many connections there may be at once, having raised the limit of open files as far as is permitted.

    Raises
    ------
    ArgumentError
        The process may not open the files that it needs besides.
    """
    wanted = limits.connections + RESERVE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    room = wanted if soft == resource.RLIM_INFINITY else soft
    if room < RESERVE + 2:
        raise ArgumentError(
            f"the process may open {soft} files, and needs {RESERVE + 2} or more: raise that limit (LimitNOFILE)",
            argument="limits",
        )
    return min(limits.connections, room - RESERVE)
