"""Clients that mean ill: floods, bombs, half handshakes, frames that are none."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import msgpack
import pytest

from gateway.config import Limits
from gateway.errors import Refusal
from gateway.intake import SLICE, Allowance, Intake
from gateway.protocol import decode
from gateway.server import Server

from .house import JSON, MSGPACK, asynchronous, gateway, peer, until

PING = b"\x89\x80\0\0\0\0"


def handshake(server: Server, *more: str) -> bytes:
    lines = [
        *("GET /v1/speech HTTP/1.1", f"Host: 127.0.0.1:{server.port}", "Upgrade: websocket"),
        *("Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
        *("Sec-WebSocket-Version: 13", f"Sec-WebSocket-Protocol: {JSON}", *more),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def frame(opcode: int, body: bytes = b"") -> bytes:
    """Masked with zeros, of less than 64 KiB."""
    size = len(body)
    head = bytes([size | 0x80]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([opcode]) + head + bytes(4) + body


async def exchange(server: Server, data: bytes) -> bytes:
    """All that comes back for `data`, which is sent at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


DEEP = 43_000  # levels that a message has room for


@pytest.mark.parametrize(
    ("data", "subprotocol"),
    [
        (b"\xdd\xff\xff\xff\xff", MSGPACK),  # a list of 2^32
        (b"\xdf\xff\xff\xff\xff", MSGPACK),  # a map
        (b"\xdb\xff\xff\xff\xff", MSGPACK),  # a string
        (b"\xc6\xff\xff\xff\xff", MSGPACK),  # bytes
        (b"\xc9\xff\xff\xff\xff\x05", MSGPACK),  # an extension
        (b"\x81\xa4type\xdd\xff\xff\xff\xff", MSGPACK),
        (b"\x91" * 131_072, MSGPACK),
        (b"\x81\xa1a" * DEEP, MSGPACK),
        (b"\xdc\x00\x40" * DEEP, MSGPACK),
        (b"\x81" * 131_072, MSGPACK),  # maps as keys
        ("[" * 131_072, JSON),
        ('{"a":' * 26_000, JSON),
        ("[" + "[]," * 43_000 + "[]]", JSON),
        ("[" + "0," * 65_000 + "0]", JSON),
        ("9" * 131_072, JSON),
        ('{"type":' + "1" * 100_000 + "e" + "9" * 9 + "}", JSON),
        ('"' + "\\ud800" * 20_000 + '"', JSON),
    ],
)
def test_a_bomb_costs_no_more_than_its_own_size(data: bytes | str, subprotocol: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Refusal) as caught:
            decode(data, subprotocol, 131_072)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (caught.value.code, caught.value.close) == ("bad_message", 1007)
    assert peak < 64 * 131_072


@pytest.mark.parametrize(
    ("bytes_", "code"),
    [
        (b"\xc1\x80\0\0\0\0", 1002),  # RSV1: compressed, which was never agreed to
        (b"\x83\x80\0\0\0\0", 1002),  # an opcode that is none
        (b"\x81\x02{}", 1002),  # not masked
        (b"\x80\x80\0\0\0\0", 1002),  # a continuation of nothing
        (b"\x09\x80\0\0\0\0", 1002),  # a ping in pieces
        (b"\x81\xff\x7f" + b"\xff" * 7 + b"\0\0\0\0", 1009),  # 2^63 bytes
        (b"\x81\xfe\xff\xff\0\0\0\0" + b" " * 65_535 + b"\x80", 1007),  # text that is no JSON
    ],
)
@asynchronous
async def test_a_frame_sent_with_the_handshake_gets_its_answer(bytes_: bytes, code: int) -> None:
    async with gateway() as server:
        request = handshake(server, "Sec-WebSocket-Extensions: permessage-deflate")
        head, _, frames = (await exchange(server, request + bytes_)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101")
        assert b"permessage-deflate" not in head
        assert b'"type":"ready"' in frames
        assert b'"fatal":true' in frames
        close = frames[frames.rindex(b"\x88") :]
        assert int.from_bytes(close[2:4], "big") == code


@asynchronous
async def test_requests_behind_one_another_get_one_answer() -> None:
    async with gateway() as server:
        request = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = await exchange(server, request * 50)
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.count(b"HTTP/1.1") == 1
        answer = await exchange(server, request + bytes(100_000))
        assert answer.startswith(b"HTTP/1.1 200")


@asynchronous
async def test_half_handshakes_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.HANDSHAKE_SECONDS", 0.5)
    async with gateway() as server:
        streams = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(50)]
        for _, writer in streams:
            writer.write(b"GET /v1/speech HTTP/1.1\r\n")

        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while not reader.at_eof():
                writer.write(b"X-a: b\r\n")
                try:
                    async with asyncio.timeout(0.1):
                        await reader.read(1)
                except TimeoutError:
                    pass
            writer.close()

        await asyncio.gather(*(drip(*pair) for pair in streams), return_exceptions=True)
        await until(lambda: not server.addresses._open)


@pytest.mark.parametrize("kind", ["pings", "messages", "fragments"])
@asynchronous
async def test_a_flood_is_taken_in_turns_with_everybody_else(kind: str) -> None:
    """250 kB of small frames, in one piece, take many turns of the loop."""
    body = b'{"type":"ping"}'
    floods = {
        "pings": PING * 40_000,
        "messages": frame(0x81, body) * 11_000,
        "fragments": frame(0x01) + frame(0x00, b" ") * 35_000,
    }
    async with gateway(limits=Limits(messages_per_second=100_000)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(handshake(server))
        await reader.readuntil(b"\r\n\r\n")
        turns, ended, loop = 0, asyncio.Event(), asyncio.get_running_loop()

        def turn() -> None:
            nonlocal turns
            turns += 1
            if not ended.is_set():
                loop.call_soon(turn)

        async def all_of_it() -> None:
            while not ended.is_set() and await reader.read(65_536):
                pass

        rest = asyncio.create_task(all_of_it())
        turn()
        (connection,) = server.connections
        connection.data_received(floods[kind])
        async with peer(server) as other:
            assert await other.alive()  # long before the flood is over
            assert connection._intake._left or connection.protocol.state.name != "OPEN"
        writer.close()
        ended.set()
        rest.cancel()
        assert turns > 20


@asynchronous
async def test_frames_above_the_rate_wait_and_none_is_lost() -> None:
    async with gateway(limits=Limits(messages_per_second=200)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(handshake(server))
        for number in range(600):  # the bucket holds 400
            writer.write(frame(0x89, number.to_bytes(2, "big")))
        await reader.readuntil(b"\r\n\r\n")
        head = await reader.readexactly(4)  # `ready`
        await reader.readexactly(int.from_bytes(head[2:], "big"))
        pongs = await reader.readexactly(600 * 4)
        assert [pongs[i : i + 4] for i in range(0, len(pongs), 4)] == [
            b"\x8a\x02" + number.to_bytes(2, "big") for number in range(600)
        ]
        writer.close()


class Wire(asyncio.Transport):
    """A transport that only knows whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True


@asynchronous
async def test_slices_are_whole_and_in_order_whatever_holds_them_back() -> None:
    taken = bytearray()
    wire = Wire()
    intake = Intake(wire, taken.extend, 1_000_000)
    sent = bytes(range(256)) * 40
    intake.put(sent[:100], head=False)
    assert (bytes(taken), wire.reading) == (sent[:100], True)  # at once
    intake.put(sent[100:5000], head=False)
    assert (len(taken), wire.reading) == (100 + SLICE, False)
    intake.pause()
    intake.put(sent[5000:], head=False)  # was under way
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(taken) == 100 + SLICE
    intake.resume()
    await until(lambda: wire.reading)
    assert bytes(taken) == sent
    intake.put(b"head\r\n\r\nbody", head=True)
    assert taken.endswith(b"head\r\n\r\n")
    intake.put(b"!" * 3000, head=False)
    intake.drain()
    assert taken.endswith(b"body" + b"!" * 3000)
    intake.close()


def test_an_allowance_is_paid_back_with_time() -> None:
    allowance = Allowance(10)
    assert allowance.wait(5.0) == 0.0
    for _ in range(12):
        allowance.take()
    assert allowance.wait(5.0) == pytest.approx(0.2)
    assert allowance.wait(5.1) == pytest.approx(0.1)
    assert allowance.wait(99.0) == 0.0


@pytest.mark.parametrize("subprotocol", [MSGPACK, JSON])
@asynchronous
async def test_a_bomb_ends_one_connection_and_nobody_elses(subprotocol: str) -> None:
    async with gateway() as server, peer(server, subprotocol) as other:
        await other.speak("u", "so it goes on")
        await other.until("audio")
        bombs: list[Any] = [b"\x91" * 131_072, b"\xdd\xff\xff\xff\xff"]
        if subprotocol == JSON:
            bombs = ["[" * 131_072, json.dumps({"type": "ping", "id": [[]] * 30_000})]
        for bomb in bombs:
            async with peer(server, subprotocol) as client:
                await client.next()
                await client.socket.send(bomb)
                code, (error,) = await client.closed()
                assert (code, error["code"], error["fatal"]) == (1007, "bad_message", True)
        assert await other.alive()


def test_the_frames_of_these_tests_are_right() -> None:
    assert frame(0x89) == PING
    assert msgpack.unpackb(b"\x81\xa1a\x91\x05") == {"a": [5]}
