"""A gateway from its start to its end: what signals do, what is logged, the exit status."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import Any

from .config import GatewayConfig
from .logs import place
from .process import EngineFailed
from .reload import Sources
from .server import Server

log = logging.getLogger("vivavoce")


async def run(config: GatewayConfig, sources: Sources) -> int:
    """Serve until a signal; returns the exit status. A second signal cuts the drain short."""
    stopping, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_mistake)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: (hurry if stopping.is_set() else stopping).set())
    server = Server(config)
    terminal = os.isatty(0)

    def hung_up() -> None:
        if terminal and not os.isatty(0):  # its terminal is gone
            stopping.set()
        else:
            sources.reload(server.keys, config.tls)

    loop.add_signal_handler(signal.SIGHUP, hung_up)
    try:
        server.bind()
    except (OSError, UnicodeError) as error:
        code = getattr(error, "errno", None) or 0  # below 0: the resolver's own
        words = os.strerror(code) if code > 0 else getattr(error, "strerror", "no host's name")
        log.error("cannot listen on %s port %d: %s", config.host, config.port, words)
        return 1
    if not config.loopback and not config.keys:
        log.warning(
            "listening on %s without keys: whoever reaches this port may speak", config.host
        )
    try:
        started = await _until(stopping, server.start())
        if started:
            scheme = "https" if config.tls else "http"
            log.info("ready: open %s://%s:%d/", scheme, _shown(config.host), server.port)
            await stopping.wait()
            await _until(hurry, server.drain())
    except EngineFailed as failure:
        log.error("%s", failure.text)
        return 2
    finally:
        await server.stop()
    return 0


async def _until(event: asyncio.Event, work: object) -> bool:
    """Do `work` unless `event` comes first; returns whether it was done."""
    task = asyncio.ensure_future(work)  # type: ignore[call-overload]
    waiter = asyncio.ensure_future(event.wait())
    await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        return False
    await task
    return True


def _mistake(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio would print holds arguments and messages: a user's text, perhaps."""
    error = context.get("exception")
    log.error("mistake of ours: %s", place(error) if error else "without an exception")


def _shown(host: str) -> str:
    """The host as a browser on this machine takes it."""
    name = {"0.0.0.0": "localhost", "::": "localhost", "127.0.0.1": "localhost"}.get(host, host)
    return f"[{name}]" if ":" in name else name
