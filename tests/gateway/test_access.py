"""Who gets in: keys, origins, the state of the house."""

from __future__ import annotations

import hashlib

import pytest
from websockets.exceptions import InvalidStatus

from gateway.admission import Keys, digests, origin_allowed

from .house import MSGPACK, asynchronous, gateway, http, peer

KEYS = digests(["# the page's", "", "first", "sha256:" + hashlib.sha256(b"second").hexdigest()])


@asynchronous
async def test_a_key_in_the_header_opens_the_door() -> None:
    async with gateway(keys=KEYS) as server:
        for key in ("first", "second"):
            headers = {"Authorization": f"Bearer {key}"}
            async with peer(server, additional_headers=headers) as client:
                assert (await client.next())["type"] == "ready"
        for key in ("third", "", "sha256:" + hashlib.sha256(b"second").hexdigest()):
            headers = {"Authorization": f"Bearer {key}"}
            async with peer(server, additional_headers=headers) as client:
                code, (error,) = await client.closed()
                assert (code, error["code"], error["fatal"]) == (4401, "unauthorized", True)


@asynchronous
async def test_hello_carries_the_key_where_headers_cannot() -> None:
    async with gateway(keys=KEYS) as server:
        async with peer(server) as client:
            await client.send(type="hello", token="first", client="test/1")
            assert (await client.next())["type"] == "ready"
            await client.speak("u", "Hi", end=True)
            assert (await client.until("done"))[-1]["reason"] == "eos"
        for message in ({"type": "hello", "token": "x"}, {"type": "hello"}, {"type": "ping"}):
            async with peer(server) as client:
                await client.send(**message)
                code, (error,) = await client.closed()
                assert (code, error["code"]) == (4401, "unauthorized")


@asynchronous
async def test_hello_without_keys_is_a_greeting() -> None:
    async with gateway() as server, peer(server) as client:
        await client.send(type="hello", client="test/1")
        assert await client.alive()


@pytest.mark.parametrize("name", ["token", "key", "API_KEY", "access_token"])
@asynchronous
async def test_a_key_in_the_url_is_refused(name: str) -> None:
    async with gateway(keys=KEYS) as server:
        status, _, body = await http(server, "GET", f"/v1/speech?{name}=first")
        assert status == 400
        assert b"hello" in body
        assert b"first" not in body


@asynchronous
async def test_pages_from_elsewhere_are_refused() -> None:
    async with gateway(origins=("https://friend.example",)) as server:
        here = f"127.0.0.1:{server.port}"
        for origin in (f"http://{here}", "https://friend.example"):
            async with peer(server, MSGPACK, origin=origin) as client:
                assert (await client.next())["type"] == "ready"
        twice = [("Origin", f"http://{here}")]
        with pytest.raises(InvalidStatus, match="400"):
            async with peer(server, MSGPACK, origin="http://x", additional_headers=twice):
                pass
        for origin in ("http://evil.example", f"http://localhost:{server.port}", "null", "file://"):
            async with peer(server, MSGPACK, origin=origin) as client:
                code, (error,) = await client.closed()
                assert (code, error["code"]) == (4403, "forbidden_origin"), origin


@pytest.mark.parametrize(
    ("origin", "host", "loopback", "allowed"),
    [
        (None, "anything", True, True),
        ("http://localhost:8000", "localhost:8000", True, True),
        ("http://LOCALHOST:8000", "localhost:8000", True, True),
        ("http://[::1]:8000", "[::1]:8000", True, True),
        ("http://localhost:8000", "localhost:8001", True, False),
        ("http://evil.example:8000", "evil.example:8000", True, False),  # DNS rebinding
        ("https://voice.example", "voice.example", False, True),
        ("https://voice.example.evil", "voice.example", False, False),
        ("ws://localhost:8000", "localhost:8000", True, False),
        ("http://", "", True, False),
        ("http://[", "[", True, False),
        ("", "", False, False),
    ],
)
def test_origins(origin: str | None, host: str, loopback: bool, allowed: bool) -> None:
    assert origin_allowed(origin, host, (), loopback) is allowed


def test_keys_are_compared_as_digests() -> None:
    keys = Keys(KEYS)
    assert [keys.accept(k) for k in ("first", "second", "firs", "", "# the page's")] == [
        *(True, True),
        *(False, False, False),
    ]
    assert not Keys([]).needed


def test_a_half_digest_is_refused() -> None:
    with pytest.raises(ValueError):
        digests(["sha256:abcd"])
