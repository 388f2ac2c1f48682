"""Limits by address: connections, handshakes, and whom a proxy speaks for."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest
from websockets.exceptions import InvalidStatus

from gateway.addresses import Addresses
from gateway.config import LOOPBACK, Limits

from .house import asynchronous, gateway, http, peer, until

PROXY = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("10.0.0.0/8"))
LIMITS = Limits(address_connections=3, address_handshakes_per_minute=5)


@pytest.mark.parametrize(
    ("peer_", "forwarded", "address"),
    [
        ("203.0.113.7", "", "203.0.113.7"),
        ("203.0.113.7", "198.51.100.1", "203.0.113.7"),  # no proxy of ours: not believed
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "6.6.6.6, 198.51.100.1", "198.51.100.1"),  # the first may be invented
        ("127.0.0.1", "6.6.6.6, 198.51.100.1, 10.1.2.3", "198.51.100.1"),  # two proxies of ours
        ("127.0.0.1", "10.1.2.3, 10.9.9.9", "10.1.2.3"),
        ("127.0.0.1", "6.6.6.6, unknown", "127.0.0.1"),
        ("127.0.0.1", "6.6.6.6,", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("127.0.0.1", "[2001:db8:1:2:3::4]:4711", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.7", "", "203.0.113.7"),
        ("fe80::1%eth0", "", "fe80::/64"),
        ("::1", "", "::1"),
    ],
)
def test_the_address_that_counts(peer_: str, forwarded: str, address: str) -> None:
    assert Addresses(Limits(), PROXY, ()).of(peer_, forwarded) == address


def test_handshakes_come_back_with_time() -> None:
    addresses = Addresses(Limits(address_handshakes_per_minute=60), (), ())
    for _ in range(60):
        assert addresses.patience("a", 10.0, handshake=True) == 0
    assert addresses.patience("a", 10.0, handshake=True) == 1
    assert addresses.patience("a", 10.0, handshake=False) == 0  # the page still comes
    assert addresses.patience("b", 10.0, handshake=True) == 0
    assert addresses.patience("a", 11.0, handshake=True) == 0
    assert addresses.patience("a", 11.0, handshake=True) == 1


def test_nobody_is_remembered_for_ever() -> None:
    addresses = Addresses(Limits(address_handshakes_per_minute=60), (), ())
    for number in range(50_000):
        addresses.patience(str(number), number / 100, handshake=True)
    assert len(addresses._buckets) <= 10_001


def test_this_machine_is_spared() -> None:
    addresses = Addresses(Limits(address_connections=1), (), LOOPBACK)
    for address in ("127.0.0.1", "::1"):
        assert addresses.spares(address), address
        for _ in range(5):
            addresses.enter(address)
        assert addresses.patience(address, 0.0, handshake=True) == 0
        assert not addresses.flooding(address)
    assert not addresses.spares("203.0.113.7")


@asynchronous
async def test_too_many_connections_from_an_address_are_turned_away() -> None:
    async with gateway(limits=LIMITS, proxies=PROXY) as server:
        one = {"additional_headers": {"X-Forwarded-For": "198.51.100.1"}}
        two = {"additional_headers": {"X-Forwarded-For": "198.51.100.2"}}
        async with peer(server, **one) as a, peer(server, **one), peer(server, **one):
            with pytest.raises(InvalidStatus) as caught:
                async with peer(server, **one):
                    pass
            response = caught.value.response
            assert (response.status_code, response.headers["Retry-After"]) == (429, "5")
            assert await a.alive()
            async with peer(server, **two) as b:
                assert await b.alive()
            status, _, body = await http(
                server, "GET", "/health/live", X_Forwarded_For="198.51.100.1"
            )
            assert (status, b"from your address" in body) == (429, True)
        await until(lambda: not server.addresses._open)
        async with peer(server, **one) as a:
            assert await a.alive()
        assert (
            b'vivavoce_http_refused_total{status="429"} 2.0'
            in (await http(server, "GET", "/metrics"))[2]
        )


@asynchronous
async def test_handshakes_above_the_rate_are_turned_away_before_any_work() -> None:
    async with gateway(limits=LIMITS, proxies=PROXY) as server:
        one = {"additional_headers": {"X-Forwarded-For": "198.51.100.1"}}
        for _ in range(5):
            async with peer(server, **one) as client:
                assert await client.alive()
        with pytest.raises(InvalidStatus) as caught:
            async with peer(server, **one):
                pass
        response = caught.value.response
        assert (response.status_code, response.headers["Retry-After"]) == (429, "12")
        assert (await http(server, "GET", "/", X_Forwarded_For="198.51.100.1"))[0] == 200
        async with peer(server) as client:  # the proxy itself
            assert await client.alive()


@asynchronous
async def test_sockets_beyond_twice_the_limit_are_closed_unread() -> None:
    async with gateway(limits=LIMITS, spared=()) as server:
        streams = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(12)]
        await until(lambda: server.addresses._open["127.0.0.1"] <= 6)
        closed = 0
        for reader, _ in streams[6:]:
            try:
                closed += await reader.read(1) == b""
            except ConnectionError:
                closed += 1
        assert closed == 6
        for _, writer in streams:
            writer.close()
        await until(lambda: not server.addresses._open)
        async with peer(server) as client:
            assert await client.alive()
