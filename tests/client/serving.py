"""The real gateway on a free port, before the fake engine or another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.config import GatewayConfig
from gateway.server import Server

FAKE = ("-m", "tests.gateway.fake_engine")


@asynccontextmanager
async def serving(worker: tuple[str, ...] = FAKE, **config: Any) -> AsyncIterator[Server]:
    server = Server(GatewayConfig(port=config.pop("port", 0), worker=worker, **config))
    server.bind()
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


def url(server: Server) -> str:
    return f"ws://127.0.0.1:{server.port}/v1/speech"
