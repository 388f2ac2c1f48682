"""An engine of a thousand streams and no speech: silence stamped with the time it was made.

The streams are spread over `PHASES` steps of each 80 ms, as the steps of many groups would be.
"""

from __future__ import annotations

import argparse
import asyncio
import time

import uvloop

from engine import messages as engine

from .fake_engine import FakeEngine

PHASES = 16
STAMP = 8  # bytes: nanoseconds of the monotonic clock, which all processes of a host share
REST = bytes(3840 - STAMP)
CODES = bytes(32)


async def run(path: str, slots: int) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(engine.pack([FakeEngine(writer, slots, 0.08).ready()]))
    left: dict[int, list[int]] = {}  # utterance -> frames made, frames due
    speaking = asyncio.create_task(speak(writer, left))
    try:
        while True:
            size = int.from_bytes(await reader.readexactly(engine.HEADER), "big")
            for command in engine.unpack(await reader.readexactly(size)):
                if isinstance(command, engine.Speak):
                    left[command.utterance] = [0, len(command.text.split())]
                    begun = engine.Segment(command.utterance, 0, 0, -1, "full", 0)
                    writer.write(engine.pack([engine.Started(command.utterance, 0, 0.0), begun]))
                elif isinstance(command, engine.Cancel):
                    left.pop(command.utterance, None)
            writer.write(engine.pack([engine.Status(len(left), 0, slots, 0, 0.08, 0, 0)]))
    except asyncio.IncompleteReadError:
        speaking.cancel()


async def speak(writer: asyncio.StreamWriter, left: dict[int, list[int]]) -> None:
    due = time.monotonic()
    phase = 0
    while True:
        due += 0.08 / PHASES
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        events: list[engine.Message] = []
        for ident in [i for i in left if i % PHASES == phase]:
            made, words = left[ident]
            if made == words:
                del left[ident]
                events.append(engine.Finished(ident, "eos", made, 1, 0.0, 0.0))
            else:
                left[ident][0] += 1
                stamp = time.monotonic_ns().to_bytes(STAMP, "little")
                events.append(engine.Audio(ident, made, stamp + REST, CODES))
        phase = (phase + 1) % PHASES
        if events:
            writer.write(engine.pack(events))
            await writer.drain()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--slots", type=int, default=1200)
    parser.add_argument("--device")
    options = parser.parse_args()
    uvloop.run(run(options.socket, options.slots))
