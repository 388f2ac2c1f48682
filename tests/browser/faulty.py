"""A server of protocol v1 with faults, for what the page does when the real one is not at its best.

It serves the page under a strict content security policy and speaks a hum, one 80-ms frame for
every 1.2 characters, at most two seconds ahead. `Faults` says what goes wrong.
"""

from __future__ import annotations

import asyncio
import mimetypes
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

WEB = Path(__file__).parents[2] / "web"
RATE = 24000
FRAME = 1920
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'"
)
READY: dict[str, Any] = {
    "type": "ready",
    "protocol": 1,
    "session": "s",
    "model": "hum",
    "kind": "voice_design",
    "languages": ["english", "german", "japanese"],
    "rate": RATE,
    "frame_samples": FRAME,
    "formats": ["pcm_s16le"],
    "limits": {},
}


@dataclass
class Faults:
    refuse: str = ""  # error code for the next `speak`
    retry_ms: int | None = None
    drop_after: int = 0  # frames, then the socket breaks; 0: never
    stall_after: int = 0  # frames, then silence until `resume` is set; 0: never
    deaf: bool = False  # after a cancel, audio of that utterance goes on
    token: str = ""  # wanted in `hello`
    starting: bool = False  # the engine is, and the socket is refused
    resume: threading.Event = field(default_factory=threading.Event)


def hum(frame: int) -> bytes:
    """One frame of a glottal-like tone with a syllable's rise and fall: s16le, FRAME samples."""
    at = (np.arange(FRAME) + frame * FRAME) / RATE
    pitch = 110 + 12 * np.sin(2 * np.pi * 0.4 * at)
    envelope = 0.55 + 0.45 * np.sin(2 * np.pi * 3.3 * at) * np.sin(2 * np.pi * 0.37 * at)
    tone = sum(np.sin(2 * np.pi * k * pitch * at) / k for k in range(1, 9))
    return (6000 * envelope * tone).astype("<i2").tobytes()


class Utterance:
    def __init__(self, speak: dict[str, Any]) -> None:
        self.name: str = speak["utterance"]
        self.seed: int = speak["seed"]
        self.chars = len(speak.get("text", ""))
        self.ended: bool = speak.get("end", False)
        self.cancelled = False
        self.changed = asyncio.Event()

    def feed(self, kind: str, message: dict[str, Any]) -> None:
        self.chars += len(message.get("text", ""))
        self.ended |= kind == "end"
        self.cancelled |= kind == "cancel"
        self.changed.set()


class FaultyServer:
    """Runs in its own thread; `url` is the page's address. Use as a context manager."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.log: list[dict[str, Any]] = []  # every message of every client
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.server: Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def __enter__(self) -> FaultyServer:
        self.thread.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.faults.resume.set()
        self.stop()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.loop.close()

    def start(self) -> None:
        asyncio.run_coroutine_threadsafe(self._start(), self.loop).result(5)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self.loop).result(5)

    async def _start(self) -> None:
        self.server = await serve(
            self.converse, "127.0.0.1", self.port, process_request=respond,
            subprotocols=["vivavoce.v1.msgpack"], compression=None,
        )  # fmt: skip
        self.port = self.server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        if self.server is not None:
            self.server.close(code=1012)
            await self.server.wait_closed()
            self.server = None

    def types(self) -> list[str]:
        return [message["type"] for message in self.log]

    async def converse(self, socket: ServerConnection) -> None:
        utterances: dict[str, Utterance] = {}
        tasks: set[asyncio.Task[None]] = set()
        if self.faults.starting:
            await refuse(socket, "busy", retry_ms=300, fatal=True)
            return await socket.close(1013, "busy")
        try:
            async for data in socket:
                message = msgpack.unpackb(data)
                self.log.append(message)
                match message["type"]:
                    case "hello":
                        if message.get("token", "") != self.faults.token:
                            await refuse(socket, "unauthorized")
                            return await socket.close(4401)
                        await tell(socket, READY)
                    case "speak":
                        utterance = Utterance(message)
                        utterances[utterance.name] = utterance
                        tasks.add(asyncio.create_task(self.speak(socket, utterance)))
                    case kind:
                        utterances[message["utterance"]].feed(kind, message)
        except ConnectionClosed:
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def speak(self, socket: ServerConnection, utterance: Utterance) -> None:
        name, faults = utterance.name, self.faults
        if faults.refuse:
            await refuse(socket, faults.refuse, name, faults.retry_ms)
            return
        await tell(socket, {"type": "started", "utterance": name, "seed": utterance.seed})
        frames = await self.sound(socket, utterance)
        reason = "cancelled" if utterance.cancelled else "eos" if frames else "empty"
        samples = frames * FRAME
        done = {"type": "done", "utterance": name, "reason": reason, "samples": samples}
        await tell(socket, done)

    async def sound(self, socket: ServerConnection, utterance: Utterance) -> int:
        frame = 0
        begun = self.loop.time()
        while self.faults.deaf or not utterance.cancelled:
            if frame >= utterance.chars / 1.2:
                if utterance.ended:
                    break
                utterance.changed.clear()
                await utterance.changed.wait()
                continue
            if self.faults.drop_after and frame >= self.faults.drop_after:
                socket.transport.abort()
                return frame
            if self.faults.stall_after and frame >= self.faults.stall_after:
                await asyncio.to_thread(self.faults.resume.wait, 20)
                self.faults.stall_after = 0
            await tell(socket, {
                "type": "audio", "utterance": utterance.name, "seq": frame,
                "start": frame * FRAME, "samples": FRAME, "pcm": hum(frame),
            })  # fmt: skip
            frame += 1
            ahead = frame * FRAME / RATE - (self.loop.time() - begun)
            await asyncio.sleep(0.02 if ahead < 2 else ahead - 2)
        return frame


async def tell(socket: ServerConnection, message: dict[str, Any]) -> None:
    await socket.send(msgpack.packb(message))


async def refuse(
    socket: ServerConnection,
    code: str,
    utterance: str = "",
    retry_ms: int | None = None,
    fatal: bool = False,
) -> None:
    message: dict[str, Any] = {"type": "error", "code": code, "message": code, "fatal": fatal}
    if utterance:
        message["utterance"] = utterance
    if retry_ms is not None:
        message["retry_ms"] = retry_ms
    await tell(socket, message)


def respond(_: ServerConnection, request: Request) -> Response | None:
    """The page's files; None lets the WebSocket handshake go on."""
    if request.path.startswith("/v1/speech"):
        return None
    file = WEB / (request.path.split("?")[0].lstrip("/") or "index.html")
    if not file.is_file():
        return Response(HTTPStatus.NOT_FOUND, "Not Found", Headers(), b"")
    kind = "text/javascript" if file.suffix == ".js" else mimetypes.guess_type(file.name)[0]
    body = file.read_bytes()
    headers = Headers({
        "Content-Type": kind or "application/octet-stream",
        "Content-Length": str(len(body)),
        "Content-Security-Policy": POLICY,
    })  # fmt: skip
    return Response(HTTPStatus.OK, "OK", headers, body)
