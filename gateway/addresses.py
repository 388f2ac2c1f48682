"""Who comes from which address, how many at once and how often. PURE.

An address is what the socket says, or, from a proxy that is trusted, what its X-Forwarded-For says.
IPv6 counts by /64, of which one line has a whole.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable
from math import ceil

from .config import Limits, Network

_V6_PREFIX = 64
CONNECTION_SECONDS = 5  # to the next try where too many are open
_MOST_BUCKETS = 10_000  # then those that are full again are forgotten


class Addresses:
    def __init__(
        self, limits: Limits, proxies: Iterable[Network], spared: Iterable[Network]
    ) -> None:
        """`proxies` are trusted to say for whom they speak; nobody of `spared` is limited."""
        self._connections = limits.address_connections
        self._rate = limits.address_handshakes_per_minute
        self._proxies = tuple(proxies)
        self._spared = tuple(spared)
        self._open: Counter[str] = Counter()
        self._buckets: dict[str, tuple[float, float]] = {}  # handshakes made, at what time

    def proxied(self, peer: str) -> bool:
        """Whether `peer` is a proxy of ours, whose client only its request tells."""
        return _within(peer, self._proxies)

    def of(self, peer: str, forwarded: str = "") -> str:
        """The address that counts: the last one in `forwarded` that is no proxy of ours.

        A proxy appends whom it heard; what stands before may be the client's invention.
        """
        hops = [hop.strip() for hop in forwarded.split(",")] if forwarded else []
        while hops and _within(peer, self._proxies):
            address = _bare(hops.pop())
            if _parsed(address) is None:
                break
            peer = address
        return _group(peer)

    def spares(self, address: str) -> bool:
        return _within(address.partition("/")[0], self._spared)

    def enter(self, address: str) -> None:
        self._open[address] += 1

    def leave(self, address: str) -> None:
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def flooding(self, address: str) -> bool:
        """Whether its sockets are closed unread: twice as many as it may have are open."""
        return not self.spares(address) and self._open[address] > 2 * self._connections

    def patience(self, address: str, now: float, *, handshake: bool) -> int:
        """Seconds after which the address may come again; 0: come in. Counts the handshake."""
        if self.spares(address):
            return 0
        if self._open[address] > self._connections:
            return CONNECTION_SECONDS
        if not handshake:
            return 0
        made = self._made(address, now)
        if made + 1 > self._rate:
            return ceil((made + 1 - self._rate) * 60 / self._rate)
        if len(self._buckets) >= _MOST_BUCKETS:
            self._buckets = {a: b for a, b in self._buckets.items() if self._made(a, now) > 0}
        self._buckets[address] = (made + 1, now)
        return 0

    def _made(self, address: str, now: float) -> float:
        """Handshakes that the minute has not forgotten."""
        made, at = self._buckets.get(address, (0.0, now))
        return max(0.0, made - (now - at) * self._rate / 60)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _within(address: str, networks: Iterable[Network]) -> bool:
    found = _parsed(address)
    return found is not None and any(found in network for network in networks)


def _group(address: str) -> str:
    found = _parsed(address)
    if isinstance(found, ipaddress.IPv6Address) and not found.is_loopback:
        return str(ipaddress.ip_network((found, _V6_PREFIX), strict=False))
    return str(found or address)


def _bare(hop: str) -> str:
    """Without a port: some proxies write one."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
