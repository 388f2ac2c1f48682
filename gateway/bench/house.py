"""A gateway of the bench's own, and what any gateway says about its CPU and memory."""

from __future__ import annotations

import asyncio
import re
import signal
import ssl
import sys
import time
import urllib.request
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

READY = re.compile(rb"ready: open (https?)://[^ ]*:(\d+)/")
LOOK_SECONDS = 1.0
STOP_SECONDS = 10.0
PREFIXES = {"gateway": "process", "engine": "vivavoce_engine_process"}

_VALUE = re.compile(r"^(\w+) (\S+)$", re.MULTILINE)


class NoServer(Exception):
    """It did not come up, or does not answer. The message says what it said."""


@asynccontextmanager
async def own_server(arguments: Sequence[str]) -> AsyncIterator[str]:
    """The speech URL of a `vivavoce serve` with these arguments. Raises NoServer."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "serve", "--port=0", *arguments, stderr=PIPE
    )
    try:
        scheme, port = await _address(process)
        assert process.stderr
        reader = asyncio.create_task(_pass_on(process.stderr))
        yield f"{'wss' if scheme == b'https' else 'ws'}://127.0.0.1:{int(port)}/v1/speech"
        reader.cancel()
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _address(process: Process) -> tuple[bytes, bytes]:
    assert process.stderr
    words: deque[bytes] = deque(maxlen=20)
    while line := await process.stderr.readline():
        words.append(line)
        if found := READY.search(line):
            return found[1], found[2]
    await process.wait()
    raise NoServer(b"".join(words).decode(errors="replace").rstrip())


async def _pass_on(stderr: asyncio.StreamReader) -> None:
    """The server's warnings, while it serves; a pipe that nobody reads would stop it."""
    while line := await stderr.readline():
        if b" W " in line or b" E " in line:
            sys.stderr.write(line.decode(errors="replace"))


class Usage:
    """CPU and memory of the server's processes, by its own /metrics, looked at while it works."""

    def __init__(self, speech_url: str, tls: ssl.SSLContext | None) -> None:
        scheme, place, *_ = urlsplit(speech_url)
        page = "https" if scheme == "wss" else "http"
        self._url = urlunsplit((page, place, "/metrics", "", ""))
        self._tls = tls
        self._first: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._began = self._ended = 0.0
        self._peak: dict[str, float] = {}

    async def watch(self) -> None:
        """Look until cancelled. Raises NoServer when nothing answers at first."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        try:
            values = await asyncio.to_thread(self._read)
        except OSError as error:
            if self._first:
                return
            raise NoServer(f"{self._url} does not answer: {error}") from error
        self._last, self._ended = values, time.monotonic()
        if not self._first:
            self._first, self._began = values, self._ended
        for who, prefix in PREFIXES.items():
            bytes_ = values.get(f"{prefix}_resident_memory_bytes", 0.0)
            self._peak[who] = max(self._peak.get(who, 0.0), bytes_)

    def summary(self) -> dict[str, Any]:
        """Cores used in the mean, memory in MB at the peak and grown since the first look; None
        where the server does not say.
        """
        seconds = self._ended - self._began
        facts: dict[str, Any] = {}
        for who, prefix in PREFIXES.items():
            cpu, memory = f"{prefix}_cpu_seconds_total", f"{prefix}_resident_memory_bytes"
            known = cpu in self._first and cpu in self._last and seconds > 0
            used = self._last[cpu] - self._first[cpu] if known else 0.0
            grown = self._last[memory] - self._first[memory] if known else 0.0
            facts[f"{who}_cores"] = round(used / seconds, 3) if known else None
            facts[f"{who}_mb"] = round(self._peak[who] / 1e6, 1) if known else None
            facts[f"{who}_grown_mb"] = round(grown / 1e6, 1) if known else None
        return facts

    def _read(self) -> dict[str, float]:
        with urllib.request.urlopen(self._url, timeout=10.0, context=self._tls) as answer:
            text = answer.read().decode()
        return {name: float(value) for name, value in _VALUE.findall(text)}
