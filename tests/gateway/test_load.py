"""The gateway alone under 1,200 streams: every frame arrives once; the figures are printed.

`pytest -m load -s tests/gateway/test_load.py`. Engine, gateway and clients are three processes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from typing import Any, cast

import msgpack
import pytest
import uvloop

from gateway.config import EngineArguments, GatewayConfig
from gateway.server import Server

from .bulk_engine import STAMP
from .house import MSGPACK, ROOT, VOICE

STREAMS, SECONDS, PER_CONNECTION = 1200, 10, 4
FRAMES = int(SECONDS * 12.5)
PCM = b"\xa3pcm\xc5\x0f\x00"  # msgpack: the key, and 3,840 bytes
HANDSHAKE = (
    "GET /v1/speech HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Protocol: {MSGPACK}\r\n\r\n"
).encode()


@pytest.mark.load
def test_1200_streams_on_one_core() -> None:
    figures = uvloop.run(serve())
    print(json.dumps(figures))
    assert figures["frames"] == STREAMS * FRAMES


async def serve() -> dict[str, Any]:
    worker = ("-m", "tests.gateway.bulk_engine")
    server = Server(GatewayConfig(port=0, worker=worker, engine=EngineArguments(slots=STREAMS)))
    server.bind()
    await server.start()
    began, cpu = time.monotonic(), time.process_time()
    listeners = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.gateway.test_load", str(server.port)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    output, _ = await listeners.communicate()
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    sent = server.metrics.sent_messages
    await server.stop()
    figures: dict[str, Any] = json.loads(output)
    figures |= {"messages_per_second": round(sent / wall), "cores": round(cpu / wall, 2)}
    return figures | {"microseconds_per_message": round(cpu / sent * 1e6, 1)}


class Listener(asyncio.Protocol):
    """A client that reads frames and stamps only: it must leave the gateway its core."""

    def __init__(self, delays: list[int]) -> None:
        self.delays = delays
        self.ended = asyncio.get_running_loop().create_future()
        self._live = PER_CONNECTION
        self._rest = b""
        self._open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._transport.write(HANDSHAKE)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        data = self._rest + data
        at = 0
        if not self._open:
            at = data.find(b"\r\n\r\n") + 4
            if at < 4:
                self._rest = data
                return
            self._open = True
            self._transport.write(b"".join(_masked(message) for message in speaks()))
        while len(data) >= at + 4:
            size, head = data[at + 1], 2
            if size == 126:
                size, head = data[at + 2] << 8 | data[at + 3], 4
            if len(data) < at + head + size:
                break
            at += head
            pcm = data.find(PCM, at, at + size)
            if pcm >= 0:
                stamp = data[pcm + len(PCM) : pcm + len(PCM) + STAMP]
                self.delays.append(now - int.from_bytes(stamp, "little"))
            elif data.find(b"\xa4done", at, at + size) >= 0:
                self._live -= 1
            at += size
        self._rest = data[at:]
        if not self._live:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


def speaks() -> Iterator[bytes]:
    speak = {"type": "speak", "voice": VOICE, "text": "word " * FRAMES, "end": True}
    for number in range(PER_CONNECTION):
        yield msgpack.packb(speak | {"utterance": f"u{number}"})


def _masked(message: bytes) -> bytes:
    """One frame whose mask is zero: the message as it is."""
    assert 126 <= len(message) < 65536
    return bytes((0x82, 0x80 | 126)) + len(message).to_bytes(2, "big") + bytes(4) + message


async def listen(port: int) -> None:
    """Play every client; print how long frames took from the engine to here."""
    delays: list[int] = []
    loop, listeners = asyncio.get_running_loop(), []
    for _ in range(STREAMS // PER_CONNECTION):
        made = await loop.create_connection(lambda: Listener(delays), "127.0.0.1", port)
        listeners.append(made[1].ended)
    await asyncio.gather(*listeners)
    settled = sorted(delays[len(delays) // 4 :])  # beginning is not streaming
    p50, p99 = (settled[int(len(settled) * q)] / 1e6 for q in (0.5, 0.99))
    figures = {"frames": len(delays), "p50_ms": round(p50, 2), "p99_ms": round(p99, 2)}
    print(json.dumps(figures | {"listener_cores": round(time.process_time() / SECONDS, 2)}))


if __name__ == "__main__":
    uvloop.run(listen(int(sys.argv[1])))
