"""Engines killed under live utterances: `python -m tests.soak.kills`. Ends with one JSON line.

A real engine on a tiny checkpoint. Every utterance is spoken twice, the second time while engines
are killed at random moments; its samples must be the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from gateway import engines
from gateway.config import EngineArguments, GatewayConfig, Limits
from gateway.server import Server
from tests.engine.tiny import write_checkpoint
from tests.gateway.house import Peer, audio_of, peer

TEXT = "Hello there, my friend. How are you today? I am well, thank you for asking. "
A_PEER = 10  # utterances


class Kills:
    def __init__(self, server: Server, count: int, seconds: float) -> None:
        self.server, self.count, self.seconds = server, count, seconds
        self.frames = self.wrong = self.failed = self.lost = self.closed = self.kills = (
            self.live
        ) = 0
        self.expected: dict[int, bytes] = {}

    async def speak(self, numbers: range, check: bool) -> None:
        self.live += len(numbers)
        try:
            async with peer(self.server) as client:
                for n in numbers:
                    speak = {"seed": n, "end": True, "pace": "fast", "max_seconds": self.seconds}
                    await client.speak(f"u{n}", TEXT, **speak)
                seen = await self._all(client, len(numbers))
        except OSError:
            self.closed += 1
            return
        for n in numbers:
            audio = audio_of(seen, f"u{n}")
            pcm = b"".join(m["pcm"] for m in audio)
            in_order = [m["seq"] for m in audio] == list(range(len(audio)))
            if not check:
                self.expected[n] = pcm
                self.frames += len(audio)
            elif any(m["type"] == "error" and m["utterance"] == f"u{n}" for m in seen):
                self.failed += 1
            elif not in_order or not pcm:
                self.lost += 1
            elif pcm != self.expected[n]:
                self.wrong += 1

    async def _all(self, client: Peer, count: int) -> list[dict[str, Any]]:
        seen = []
        for _ in range(count):
            seen += await client.until("done")
            self.live -= 1
        return seen

    async def everybody(self, check: bool) -> None:
        async with asyncio.TaskGroup() as group:
            for first in range(0, self.count, A_PEER):
                numbers = range(first, min(self.count, first + A_PEER))
                group.create_task(self.speak(numbers, check))

    @property
    def _revived(self) -> float:
        return float(self.server.metrics.revived._value.get())

    async def kill(self, times: int, most: float) -> None:
        for _ in range(times):
            before = self._revived
            await asyncio.sleep(random.uniform(0.2, most))
            while not self.server.load.ready:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            process = self.server.engines._process._process
            if not self.live or process is None:
                return
            os.kill(process.pid, signal.SIGKILL)
            self.kills += 1
            while self.live and self._revived == before:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def run(options: argparse.Namespace, folder: str) -> dict[str, Any]:
    config = GatewayConfig(
        port=0,
        engine=EngineArguments(model=folder, device="cpu", slots=options.utterances),
        limits=Limits(queue_seconds=600, outbox_high=1 << 28),
        drain_seconds=0,
    )
    server = Server(config)
    server.bind()
    await server.start()
    kills = Kills(server, options.utterances, options.seconds)
    begun = time.monotonic()
    try:
        await kills.everybody(check=False)
        killer = asyncio.create_task(kills.kill(options.kills, options.every))
        await kills.everybody(check=True)
        await killer
    finally:
        await server.stop()
    return {
        "utterances": options.utterances,
        "frames": kills.frames,
        "kills": kills.kills,
        "revived": int(server.metrics.revived._value.get()),
        "wrong": kills.wrong,
        "failed": kills.failed,
        "lost": kills.lost,
        "closed": kills.closed,
        "seconds": round(time.monotonic() - begun, 1),
    }


def main() -> int:
    """0 when nothing was wrong, failed, lost or closed."""
    parser = argparse.ArgumentParser(prog="tests.soak.kills", description=__doc__)
    parser.add_argument("--utterances", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=8.0, help="of speech each")
    parser.add_argument("--every", type=float, default=15.0, help="most between kills")
    options = parser.parse_args()
    engines.BACK_OFF = (0.1,)
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), seed=1)
        result = asyncio.run(run(options, folder))
    print(json.dumps(result), flush=True)
    return int(any(result[name] for name in ("wrong", "failed", "lost", "closed")))


if __name__ == "__main__":
    raise SystemExit(main())
