"""The gateway alone under 1,200 streams: every frame arrives once; the figures are printed.

`pytest -m load -s tests/gateway/test_load.py`. Engine, gateway and clients are three processes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import msgpack
import pytest
import uvloop
from websockets.asyncio.client import connect

from gateway.config import EngineArguments, GatewayConfig
from gateway.server import Server

from .bulk_engine import STAMP
from .house import MSGPACK, ROOT, VOICE

STREAMS, SECONDS, PER_CONNECTION = 1200, 10, 4
FRAMES = int(SECONDS * 12.5)


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


async def listen(port: int) -> None:
    """Play every client; print how long frames took from the engine to here."""
    delays: list[int] = []
    await asyncio.gather(*(_client(port, delays) for _ in range(STREAMS // PER_CONNECTION)))
    settled = sorted(delays[len(delays) // 10 :])  # connecting is not streaming
    p50, p99 = (settled[int(len(settled) * q)] / 1e6 for q in (0.5, 0.99))
    print(json.dumps({"frames": len(delays), "p50_ms": p50, "p99_ms": p99}))


async def _client(port: int, delays: list[int]) -> None:
    url = f"ws://127.0.0.1:{port}/v1/speech"
    options: dict[str, Any] = {"subprotocols": [MSGPACK], "compression": None, "proxy": None}
    async with connect(url, ping_interval=None, max_queue=64, **options) as socket:
        speak = {"type": "speak", "voice": VOICE, "text": "word " * FRAMES, "end": True}
        for number in range(PER_CONNECTION):
            await socket.send(msgpack.packb(speak | {"utterance": f"u{number}"}))
        live = PER_CONNECTION
        while live:
            message = msgpack.unpackb(await socket.recv())
            if message["type"] == "audio":
                made = int.from_bytes(message["pcm"][:STAMP], "little")
                delays.append(time.monotonic_ns() - made)
            elif message["type"] == "done":
                live -= 1


if __name__ == "__main__":
    uvloop.run(listen(int(sys.argv[1])))
