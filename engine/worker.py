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
from dataclasses import fields

import torch

from engine import checkpoint
from engine.config import EngineConfig
from engine.engine import Engine
from engine.messages import HEADER, MAX_BATCH, Command, Event, pack, unpack

IDLE = 0.01  # seconds between looks at the clock while utterances wait for text or time
STATUS = 1.0  # seconds between load reports


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
    with connection.makefile("rb") as stream:
        while header := stream.read(HEADER):
            size = int.from_bytes(header, "big")
            assert size <= MAX_BATCH, f"a batch of {size} bytes"
            inbox.put(unpack(stream.read(size)))  # type: ignore[arg-type]
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
    for f in fields(EngineConfig):
        if f.name not in ("model", "device"):
            kind = type(f.default)
            parser.add_argument(f"--{f.name.replace('_', '-')}", type=kind, default=f.default)
    return parser


def main() -> int:
    """0 when the gateway closed the socket, 2 when the model cannot be loaded."""
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
        loaded = checkpoint.load(
            config.model, config.device, lambda line: print(line, file=sys.stderr, flush=True)
        )
    except checkpoint.CheckpointError as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    engine = Engine(loaded, config, time.monotonic)
    ready = engine.warm_up()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(pack([ready]))
        try:
            serve(engine, connection)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the gateway is gone; so are we
    return 0


if __name__ == "__main__":
    sys.exit(main())
