"""A run: the crowd comes, speaks and leaves; the figures for people and for scripts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

from .caller import Caller, Target
from .house import Usage
from .tally import Tally
from .turns import Habits, arrivals, turns

LAST_SECONDS = 60.0  # for turns that have begun


async def measure(
    target: Target, habits: Habits, *, clients: int, arrive: float, seconds: float, seed: int
) -> dict[str, Any]:
    """Load the server for `seconds`; clients come within the first `arrive`. Raises NoServer."""
    random, tally = Random(seed), Tally()
    usage = Usage(target.url, target.tls)
    await usage.look()
    watch = asyncio.create_task(usage.watch())
    began, cpu = time.monotonic(), time.process_time()
    moments = arrivals(random, clients, arrive)
    callers = [Caller(target, turns(Random(random.random()), habits), tally) for _ in moments]
    came = [
        _come(caller, began + moment, began + seconds)
        for caller, moment in zip(callers, moments, strict=True)
    ]
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds + LAST_SECONDS):
            await asyncio.gather(*came)
    wall = time.monotonic() - began
    watch.cancel()
    await usage.look()
    own = {"generator_cores": round((time.process_time() - cpu) / wall, 3)}
    return {"clients": clients} | tally.summary(wall) | own | {"server": usage.summary()}


async def _come(caller: Caller, at: float, until: float) -> None:
    await asyncio.sleep(min(at, until) - time.monotonic())
    await caller.run(until)


def table(figures: dict[str, Any]) -> Iterator[str]:
    """The figures in lines for people."""
    server, gaps = figures["server"], figures["gaps"]
    speaking = figures["speaking_mean"]
    yield f"{figures['clients']} clients, {figures['seconds']} s, {speaking} speaking in the mean"
    for name, key in (
        ("connect", "connect_ms"),
        ("TTFA, client", "ttfa_ms"),
        ("cancel to done", "cancel_ms"),
        ("text wait", "text_wait_ms"),
    ):
        if values := figures[key]:
            yield f"{name:>16}  " + "  ".join(f"{p} {v:>9.1f} ms" for p, v in values.items())
    yield (
        f"{'gaps':>16}  {gaps['count']} in {gaps['utterances_with']} of {gaps['utterances']} "
        f"utterances, {gaps['seconds']} s in all, longest {gaps['longest_ms']} ms"
    )
    for name in ("turns", "ends", "errors", "wrong"):
        counts = figures[name]
        said = ", ".join(f"{k} {v}" for k, v in counts.items()) or "none"
        yield f"{name:>16}  {said}"
    for who in ("gateway", "engine"):
        if server[f"{who}_cores"] is not None:
            yield (
                f"{who:>16}  {server[f'{who}_cores']} cores, {server[f'{who}_mb']} MB at the peak, "
                f"{server[f'{who}_grown_mb']:+} MB since the start"
            )
    yield f"{'this generator':>16}  {figures['generator_cores']} cores"
    if figures["generator_cores"] > 0.8:
        yield "*** The generator itself was busy: times may be its own. Share the clients out. ***"
