"""Who gets in: keys, origins, the state of the house."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress

import pytest
from websockets.exceptions import InvalidStatus

from gateway.admission import origin_allowed
from gateway.keys import Keys, grants
from gateway.server import Server

from .house import MSGPACK, asynchronous, gateway, http, peer

KEYS = grants(["# the page's", "", "first", "sha256:" + hashlib.sha256(b"second").hexdigest()])


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
    ("origin", "host", "strict", "allowed"),
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
        ("null", "null", False, False),
        ("file://", "", False, False),
        ("file://localhost", "localhost", True, False),
        ("http://localhost:8001", "localhost:8000", True, False),  # another port
        ("http://voice.example", "voice.example:80", False, True),  # the same, said twice
        ("https://voice.example", "voice.example:443", False, True),
        ("https://voice.example", "voice.example:80", False, False),
        ("http://[::1]", "[::1]:80", True, True),
        ("http://[::1]:8000", "[::2]:8000", True, False),
        ("http://192.168.1.5:8000", "192.168.1.5:8000", True, True),  # nobody can rebind it
        ("http://192.168.1.5:8000", "192.168.1.6:8000", True, False),
        ("http://box:8000", "box:8000", True, True),
        ("http://box.local:8000", "box.local:8000", True, True),
        ("http://local.evil.example:8000", "local.evil.example:8000", True, False),
        ("http://evil.example.:8000", "evil.example.:8000", True, False),
        ("http://evil@localhost:8000", "localhost:8000", True, False),
        ("http://localhost:8000/", "localhost:8000", True, False),
        ("http://localhost:port", "localhost:port", True, False),
        ("http://localhost:99999", "localhost:99999", True, False),
        ("moz-extension://abc", "abc", False, False),
    ],
)
def test_origins(origin: str | None, host: str, strict: bool, allowed: bool) -> None:
    assert origin_allowed(origin, host, (), strict) is allowed


def test_an_origin_of_another_scheme_is_another_origin() -> None:
    name = "voice.example"
    assert origin_allowed(f"https://{name}", name, (), False, "https")
    assert not origin_allowed(f"http://{name}", name, (), False, "https")
    assert not origin_allowed(f"https://{name}", name, (), False, "http")


@asynchronous
async def test_without_keys_a_public_name_must_be_named() -> None:
    """A page that gives its own name our address (DNS rebinding) is a foreign page."""

    async def opens(server: Server, **headers: str) -> bool:
        name = {"Host": f"voice.example:{server.port}"} | headers
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        name |= {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        name |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        lines = [f"{key}: {value}" for key, value in name.items()]
        first = "GET /v1/speech?format=json HTTP/1.1"
        writer.write("\r\n".join([first, *lines, "", ""]).encode())
        await reader.readuntil(b"\r\n\r\n")
        said = await reader.readuntil(b"}")
        writer.close()
        return b'"ready"' in said

    async with gateway(host="0.0.0.0") as server:
        page = f"http://voice.example:{server.port}"
        assert not await opens(server, Origin=page)
        assert await opens(server)
    async with gateway(host="0.0.0.0", origins=("https://voice.example",)) as server:
        assert await opens(server, Origin="https://voice.example")
    async with gateway(host="0.0.0.0", keys=KEYS) as server:  # such a page has no key
        page = f"http://voice.example:{server.port}"
        assert await opens(server, Origin=page, Authorization="Bearer first")
    proxies = (ipaddress.ip_network("127.0.0.1"),)
    async with gateway(host="0.0.0.0", keys=KEYS, proxies=proxies) as server:
        key, page = "Bearer first", f"http://voice.example:{server.port}"
        for scheme, allowed in (("http", True), ("https", False)):
            said = {"X-Forwarded-Proto": scheme}
            assert await opens(server, Origin=page, Authorization=key, **said) is allowed


def test_keys_are_compared_as_digests() -> None:
    keys = Keys(KEYS)
    known = [hashlib.sha256(key).digest() for key in (b"first", b"second")]
    assert [keys.digest(k) for k in ("first", "second")] == known
    assert [keys.digest(k) for k in ("firs", "", "# the page's")] == [None] * 3
    assert not Keys([]).needed
