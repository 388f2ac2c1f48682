"""`vivavoce say`: a text, or a pipe as it comes, to the speakers or into a WAV file."""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .client import URL, Client, Done, SpeechError, Utterance, connect
from .config import EngineArguments, GatewayConfig
from .process import EngineFailed
from .server import Server
from .sinks import RATE, FileSink, Sink, SpeakerSink
from .speaker import NoSpeaker
from .urls import speech_url

VOICE = "A calm, friendly voice."
NEAR_SECONDS = 1.0  # for the server of this machine to answer
READ_BYTES = 65_536

SPOKEN, FAILED, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


@dataclass(frozen=True)
class Saying:
    text: str
    voice: str
    seed: int | None
    language: str
    stdin: bool
    raw: bool
    url: str
    token: str
    tls: ssl.SSLContext | None
    engine: EngineArguments


def run(
    *,
    text: str = "",
    voice: str = "",
    out: Path | None = None,
    seed: int | None = None,
    language: str = "auto",
    stdin: bool = False,
    raw: bool = False,
    url: str = "",
    model: str = "",
    device: str = "auto",
    token: str = "",
    ca: Path | None = None,
    insecure: bool = False,
) -> int:
    """Say it; returns the exit status. Without `url` the server of this machine says it, where
    there is one and neither `model` nor `device` asks for another, else a gateway of its own.

    `out` "-" is standard output. 0: spoken to the end; 1: it was not; 2: it could not begin;
    130, 143: ended by Ctrl-C or SIGTERM, what was spoken until then is in the file.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
    if bool(text) == stdin:
        return _fail("Give either a text or --stdin.", USAGE)
    if stdin and sys.stdin is None:
        return _fail("Standard input is closed.", USAGE)
    given = {"The text": text, "--voice": voice, "--language": language, "--token": token}
    for name, value in given.items():
        if any("\ud800" <= c <= "\udfff" for c in value):  # how bytes that are no text come
            return _fail(f"{name} is not UTF-8.", USAGE)
    engine = EngineArguments(model=model, device=device)
    if url and engine != EngineArguments():
        return _fail("--model and --device are the server's own at --url: leave them out.", USAGE)
    try:
        url = speech_url(url) if url else ""
    except ValueError as error:
        return _fail(f"--url: {error}", USAGE)
    try:
        tls = _trust(ca, insecure)
    except OSError as error:  # an SSLError too
        return _fail(f"--ca: {ca} holds no certificate in PEM: {error.strerror}", USAGE)
    if tls and not url.startswith("wss:"):
        return _fail("--ca and --insecure are for a wss:// URL.", USAGE)
    saying = Saying(text, voice or VOICE, seed, language, stdin, raw, url, token, tls, engine)
    try:
        sink = FileSink(out) if out else SpeakerSink()
    except NoSpeaker as missing:
        return _fail(f"Nothing to play on: {missing}. Write a file: --out speech.wav", USAGE)
    except OSError as error:
        return _fail(f"Cannot write {out}: {error.strerror}", USAGE)
    status = _spoken(saying, sink)
    try:
        sink.close()
    except OSError as error:
        return status or _fail(str(error), FAILED)
    return status


def _spoken(saying: Saying, sink: Sink) -> int:
    signals: list[int] = []
    try:
        return asyncio.run(_say(saying, sink, signals))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return TERMINATED if signals[:1] == [signal.SIGTERM] else INTERRUPTED
    except BrokenPipeError:
        return FAILED
    except SpeechError as error:
        hint = " (--token or VIVAVOCE_TOKEN gives it)" if error.code == "unauthorized" else ""
        return _fail(f"{error.message}{hint}", FAILED)
    except EngineFailed as failure:
        return _fail(failure.words or failure.text, USAGE)
    except OSError as error:
        bare = error.strerror if error.filename is None else ""
        return _fail(bare or str(error) or type(error).__name__, FAILED)
    finally:
        if signals:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


async def _say(saying: Saying, sink: Sink, signals: list[int]) -> int:
    task = asyncio.current_task()
    assert task

    def end(number: int) -> None:
        if not signals:  # a second one must not cut off the clearing up
            task.cancel()
        signals.append(number)

    with suppress(NotImplementedError):  # no signals on Windows' loop
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, end, number)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(_client(saying))
        source = Source()
        utterance = await client.speak(
            saying.voice,
            source.pieces(sys.stdin.fileno()) if saying.stdin else saying.text,
            seed=saying.seed,
            language=saying.language,
            pace="fast" if isinstance(sink, FileSink) else "live",
            clean="off" if saying.raw else "auto",
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


def _trust(ca: Path | None, insecure: bool) -> ssl.SSLContext | None:
    """Whom a wss:// URL's certificate must come from; None: from whom this machine trusts."""
    if not (ca or insecure):
        return None
    context = ssl.create_default_context(cafile=ca)
    if insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@asynccontextmanager
async def _client(saying: Saying) -> AsyncIterator[Client]:
    token = saying.token or None
    async with AsyncExitStack() as stack:
        client = None
        if not saying.url and saying.engine == EngineArguments():
            client = await _near(stack, token)
        if client is None:
            url = saying.url or await stack.enter_async_context(_gateway(saying.engine))
            client = await stack.enter_async_context(connect(url, token=token, tls=saying.tls))
        yield client


async def _near(stack: AsyncExitStack, token: str | None) -> Client | None:
    """The server that runs on this machine, if one does."""
    with suppress(OSError, SpeechError):
        async with asyncio.timeout(NEAR_SECONDS):
            client = await stack.enter_async_context(connect(URL, token=token))
        print(f"spoken by the server at {client.url}", file=sys.stderr)
        return client
    return None


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
