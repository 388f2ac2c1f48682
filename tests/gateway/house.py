"""A real gateway with a fake engine process, and a client that says what it expects."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from gateway.config import EngineArguments, GatewayConfig, Limits
from gateway.server import Server

MSGPACK = "vivavoce.v1.msgpack"
JSON = "vivavoce.v1.json"
FAKE = ("-m", "tests.gateway.fake_engine")
VOICE = {"design": "a calm voice"}
PATIENCE = 20.0  # seconds until a test that waits for something has failed


def asynchronous(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test to its end, or fail it where it waits for what does not come."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


@asynccontextmanager
async def gateway(
    *, limits: Limits | None = None, step: float = 0.002, slots: int = 64, **config: Any
) -> AsyncIterator[Server]:
    config.setdefault("drain_seconds", 0.0)
    server = Server(
        GatewayConfig(
            port=0,
            worker=(*FAKE, "--step", str(step)),
            engine=EngineArguments(slots=slots),
            limits=limits or Limits(),
            **config,
        )
    )
    server.bind()
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


class Peer:
    """One client connection in either subprotocol."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.json = socket.subprotocol != MSGPACK

    async def send(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message) if self.json else msgpack.packb(message))

    async def speak(self, utterance: str, text: str = "", **more: Any) -> None:
        message = {"voice": VOICE, "text": text} | more
        await self.send(type="speak", utterance=utterance, **message)

    async def next(self) -> dict[str, Any]:
        data = await self.socket.recv()
        return dict(json.loads(data) if self.json else msgpack.unpackb(data))

    async def until(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """All messages up to the first of `kind` with these fields."""
        seen = []
        while True:
            seen.append(await self.next())
            if seen[-1]["type"] == kind and fields.items() <= seen[-1].items():
                return seen

    async def alive(self) -> bool:
        await self.send(type="ping", id="alive")
        await self.until("pong", id="alive")
        return True

    async def closed(self) -> tuple[int | None, list[dict[str, Any]]]:
        """The close code and what was said before."""
        seen = []
        try:
            while True:
                seen.append(await self.next())
        except ConnectionClosed:
            return self.socket.close_code, seen


@asynccontextmanager
async def peer(
    server: Server, subprotocol: str | None = MSGPACK, path: str = "/v1/speech", **options: Any
) -> AsyncIterator[Peer]:
    offered = [subprotocol] if subprotocol else None
    url = f"ws://127.0.0.1:{server.port}{path}"
    options.setdefault("max_size", None)
    async with connect(url, subprotocols=offered, proxy=None, **options) as socket:  # type: ignore[arg-type]
        yield Peer(socket)


async def http(
    server: Server, method: str, path: str, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (lower case) and body of one raw request: nothing tidies the path."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
    lines += [f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    pairs = dict(line.split(": ", 1) for line in rest)
    return int(first.split()[1]), {k.lower(): v for k, v in pairs.items()}, body


def audio_of(messages: list[dict[str, Any]], utterance: str) -> list[dict[str, Any]]:
    return [m for m in messages if m["type"] == "audio" and m["utterance"] == utterance]


async def until(condition: Callable[[], bool]) -> None:
    """Turn the loop until it is so; the test's own patience bounds it."""
    for _ in itertools.count():
        if condition():
            return
        await asyncio.sleep(0)


ROOT = Path(__file__).resolve().parent.parent.parent
