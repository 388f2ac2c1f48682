"""`vivavoce say`: a text, or a pipe as it comes, to the speakers or into a WAV file."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from .client import Client, Done, SpeechError, Utterance, connect
from .config import EngineArguments, GatewayConfig
from .process import EngineFailed
from .server import Server
from .speaker import NoSpeaker, Speaker
from .wav import WavFile

VOICE = "A calm, friendly voice."
RATE = 24_000  # of the codec
REPORT_SECONDS = 0.2  # between reports of what has been played
READ_BYTES = 65_536

SPOKEN, FAILED, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


@dataclass(frozen=True)
class Saying:
    text: str
    voice: str
    seed: int | None
    language: str
    stdin: bool
    url: str
    token: str
    engine: EngineArguments


class Sink(Protocol):
    """Where audio goes: a file or the speakers."""

    async def write(self, pcm: bytes) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


def run(
    *,
    text: str = "",
    voice: str = "",
    out: Path | None = None,
    seed: int | None = None,
    language: str = "auto",
    stdin: bool = False,
    url: str = "",
    model: str = "",
    device: str = "auto",
    token: str = "",
) -> int:
    """Say it; returns the exit status. Without `url` it starts a gateway of its own for that.

    `out` "-" is standard output. 0: spoken to the end; 1: it was not; 2: it could not begin;
    130, 143: ended by Ctrl-C or SIGTERM, what was spoken until then is in the file.
    """
    if bool(text) == stdin:
        return _fail("Give either a text or --stdin.", USAGE)
    engine = EngineArguments(model=model, device=device)
    saying = Saying(text, voice or VOICE, seed, language, stdin, url, token, engine)
    try:
        sink = FileSink(out) if out else SpeakerSink()
    except NoSpeaker as missing:
        return _fail(f"Nothing to play on: {missing}. Write a file: --out speech.wav", USAGE)
    except OSError as error:
        return _fail(f"Cannot write {out}: {error.strerror}", USAGE)
    try:
        return asyncio.run(_say(saying, sink))
    except KeyboardInterrupt:
        return INTERRUPTED
    except asyncio.CancelledError:
        return TERMINATED
    except BrokenPipeError:
        return FAILED
    except SpeechError as error:
        return _fail(error.message, FAILED)
    except EngineFailed as failure:
        return _fail(failure.words or failure.text, USAGE)
    except OSError as error:
        return _fail(str(error) or type(error).__name__, FAILED)
    finally:
        sink.close()


async def _say(saying: Saying, sink: Sink) -> int:
    task = asyncio.current_task()
    assert task
    with suppress(NotImplementedError):  # no signals on Windows' loop
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with AsyncExitStack() as stack:
        url = saying.url or await stack.enter_async_context(_gateway(saying.engine))
        try:
            client = await stack.enter_async_context(connect(url, token=saying.token or None))
        except OSError as error:
            raise SpeechError("refused", f"nothing answers at {url}") from error
        source = Source()
        utterance = await client.speak(
            saying.voice,
            source.pieces(sys.stdin.fileno()) if saying.stdin else saying.text,
            seed=saying.seed,
            language=saying.language,
            pace="fast" if isinstance(sink, FileSink) else "live",
        )
        begun = time.monotonic()
        if isinstance(sink, SpeakerSink):
            reports = asyncio.create_task(sink.report(utterance))
            stack.callback(reports.cancel)
        async for audio in utterance:
            await sink.write(audio)
            if audio.start == 0:
                waited = time.monotonic() - (source.first_at or begun)
                print(f"first audio after {waited * 1000:.0f} ms", file=sys.stderr, flush=True)
            _show(f"\r{(audio.start + audio.samples) / RATE:6.1f} s ")
        done = await utterance.done()
        await sink.drain()
        _account(utterance, done, client, sink)
        return SPOKEN if done.whole else FAILED


@asynccontextmanager
async def _gateway(engine: EngineArguments) -> AsyncIterator[str]:
    """A gateway for this process alone, on a free port of this machine."""
    server = Server(GatewayConfig(port=0, engine=engine))
    server.bind()
    _show("starting the engine ...")
    try:
        await server.start()
        yield f"ws://127.0.0.1:{server.port}/v1/speech"
    finally:
        await server.stop()


class Source:
    """A pipe as text, whenever some comes."""

    def __init__(self) -> None:
        self.first_at = 0.0  # when the first text came

    async def pieces(self, descriptor: int) -> AsyncIterator[str]:
        """What each read brings; a character that two reads share comes with the second."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes] = asyncio.Queue(1)
        # A daemon: a read cannot be interrupted, and must not keep the process alive.
        threading.Thread(target=_read, args=(descriptor, loop, queue), daemon=True).start()
        while data := await queue.get():
            self.first_at = self.first_at or time.monotonic()
            yield decoder.decode(data)
        yield decoder.decode(b"", final=True)


def _read(descriptor: int, loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[bytes]) -> None:
    """Put what the pipe has, as soon as it has it, then b"" at its end."""
    with suppress(RuntimeError):  # the loop is closed
        while True:
            data = os.read(descriptor, READ_BYTES)
            asyncio.run_coroutine_threadsafe(queue.put(data), loop).result()
            if not data:
                return


class FileSink:
    """A WAV file, or standard output for "-". What was there is replaced with the first audio."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._wav: WavFile | None = None
        self._made = str(path) != "-" and not path.exists()
        if str(path) != "-":
            path.open("ab").close()  # raises now rather than after the first word

    async def write(self, pcm: bytes) -> None:
        await asyncio.to_thread(self._file().write, pcm)

    async def drain(self) -> None:
        self._file()  # a text without a word is a file without a sample

    def close(self) -> None:
        if self._wav:
            with suppress(BrokenPipeError):
                self._wav.close()
        elif self._made:
            self.path.unlink(missing_ok=True)

    def _file(self) -> WavFile:
        if self._wav is None:
            stdout = str(self.path) == "-"
            file: BinaryIO = sys.stdout.buffer if stdout else self.path.open("wb")
            self._wav = WavFile(file, RATE)
        return self._wav


class SpeakerSink:
    def __init__(self) -> None:
        self.speaker = Speaker(RATE)
        self.write = self.speaker.write
        self.drain = self.speaker.drain
        self.close = self.speaker.close

    async def report(self, utterance: Utterance) -> None:
        """Tell the server what has been heard, while it changes."""
        last = 0
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            if (now := self.speaker.played) > last:
                last = now
                await utterance.played(now)


def _account(utterance: Utterance, done: Done, client: Client, sink: Sink) -> None:
    facts = [f"{done.samples / client.rate:.2f} s of speech"]
    if done.rtf is not None:
        facts.append(f"RTF {done.rtf:.2f}")
    facts.append(f"seed {utterance.seed}")
    if isinstance(sink, SpeakerSink) and sink.speaker.underruns:
        facts.append(f"{sink.speaker.underruns} gaps")
    if not done.whole:
        facts.append(f"not whole: {done.reason}")
    _show("\r")
    for warning in utterance.warnings:
        print(warning, file=sys.stderr)
    print(" · ".join(facts), file=sys.stderr)


def _show(text: str) -> None:
    """A line that changes, for people only."""
    if sys.stderr.isatty():
        print(text, end="", file=sys.stderr, flush=True)


def _fail(text: str, status: int) -> int:
    print(text, file=sys.stderr)
    return status
