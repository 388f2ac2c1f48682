"""The engine as its own process on one Unix socket. It ends when the socket does.

A reader thread fills the inbox, the main thread steps; a batch of events goes out after each step.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
import time
import traceback
from dataclasses import fields
from types import TracebackType

import torch

from engine import checkpoint
from engine.config import EngineConfig
from engine.engine import Engine
from engine.messages import HEADER, MAX_BATCH, Command, Event, Ready, pack, unpack

IDLE = 0.01  # seconds between looks at the clock while utterances wait for text or time
STATUS = 1.0  # seconds between load reports
FULL = ("allocate memory", "out of memory", "not enough memory")


class Inbox:
    """Commands from the reader thread; None once the socket has closed."""

    def __init__(self) -> None:
        self._commands: list[Command] = []
        self._closed = False
        self._changed = threading.Condition()

    def put(self, commands: list[Command]) -> None:
        with self._changed:
            self._commands += commands
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def take(self, timeout: float | None) -> list[Command] | None:
        """All there is; waits at most `timeout` seconds (None: for ever) when there is nothing."""
        with self._changed:
            if not self._commands and not self._closed:
                self._changed.wait(timeout)
            commands, self._commands = self._commands, []
            return None if self._closed else commands


def read(connection: socket.socket, inbox: Inbox) -> None:
    """Reader thread: framed batches until the peer closes."""
    try:
        with connection.makefile("rb") as stream:
            while header := stream.read(HEADER):
                size = int.from_bytes(header, "big")
                assert size <= MAX_BATCH, f"a batch of {size} bytes"
                inbox.put(unpack(stream.read(size)))  # type: ignore[arg-type]
    finally:  # an engine that hears nothing more must not go on
        inbox.close()


def serve(engine: Engine, connection: socket.socket) -> None:
    """Step until the socket closes."""
    inbox = Inbox()
    threading.Thread(target=read, args=(connection, inbox), name="reader", daemon=True).start()
    reported = 0.0
    timeout: float | None = 0.0
    while (commands := inbox.take(timeout)) is not None:
        events: list[Event] = engine.step(commands)
        timeout = 0.0 if engine.ran else IDLE if engine.busy else None
        now = time.monotonic()
        if commands or now - reported >= STATUS:
            events.append(engine.status())
            reported = now
        if events:
            connection.sendall(pack(events))


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="engine.worker", description=__doc__)
    parser.add_argument("--socket", required=True, help="Unix socket on which the gateway listens")
    parser.add_argument(
        "--model", default="", help="folder in the hub's layout or hub id; default: embedded voice"
    )
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--weights", default="auto", choices=["auto", "full", "int8"])
    for f in fields(EngineConfig):
        if f.name not in ("model", "device", "weights", "graphs"):  # graphs: the bench's, so far
            kind = type(f.default)
            parser.add_argument(f"--{f.name.replace('_', '-')}", type=kind, default=f.default)
    return parser


class Unfit(Exception):
    """This machine cannot run the engine that was asked for."""


def begin(config: EngineConfig) -> tuple[Engine, Ready]:
    """An engine that has spoken. Raises CheckpointError and Unfit."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise Unfit("There is no CUDA device that torch can use. Take --device auto or cpu.")
    try:
        loaded = checkpoint.load(config.model, config.device, say, config.weights)
        engine = Engine(loaded, config, time.monotonic)
        return engine, engine.warm_up()
    except (MemoryError, RuntimeError) as error:  # torch has no type for the CPU's
        if isinstance(error, RuntimeError) and not any(w in str(error) for w in FULL):
            raise
        text = f"The model and {config.slots} slots need more memory than {config.device} has."
        raise Unfit(f"{text} Take fewer --slots.") from error


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def discreet() -> None:
    """From now on what breaks is told by type and place: the message may hold a user's text."""

    def tell(kind: type[BaseException], trace: TracebackType | None) -> None:
        frames = traceback.extract_tb(trace)
        places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
        say(f"{kind.__name__} in {' < '.join(reversed(places))}")

    sys.excepthook = lambda kind, error, trace: tell(kind, trace)
    threading.excepthook = lambda args: tell(args.exc_type, args.exc_traceback)


def main() -> int:
    """0 when the gateway closed the socket, 2 when the engine cannot begin."""
    options = vars(arguments().parse_args())
    path = options.pop("socket")
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C goes to the whole group; the gateway drains and closes
    if options["device"] == "auto":
        options["device"] = "cuda" if torch.cuda.is_available() else "cpu"
    config = EngineConfig(**options)
    if config.device == "cpu":
        torch.set_num_threads(config.threads or max(1, (os.cpu_count() or 1) // 2))
    try:
        engine, ready = begin(config)
    except (checkpoint.CheckpointError, Unfit) as error:
        say(str(error))
        return 2
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(pack([ready]))
        discreet()
        try:
            serve(engine, connection)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the gateway is gone; so are we
    return 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # nothing is left to save, and torch takes seconds to take itself apart
