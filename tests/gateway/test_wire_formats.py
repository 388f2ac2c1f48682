"""Every format over the real socket: exact counts, positions at the client's rate, errors."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from gateway import audio, engines, formats
from gateway.client import connect, speak
from gateway.config import Limits
from gateway.encoder import Piece

from .fake_engine import PCM
from .house import JSON, ROOT, asynchronous, audio_of, gateway, http, peer, until
from .test_engines import child
from .test_formats import FRAME, RATE, at_once, heard, likeness

WORDS = "one two three four "  # twelve frames
SERVED = formats.served(RATE)
OTHERS = [f for f in SERVED if f.rate != RATE and f.encoding != "opus"]


def sound(frames: int) -> bytes:
    return b"".join(PCM[n % len(PCM)] for n in range(frames))


def expected(format: formats.Format, frames: int) -> bytes:
    if format.rate == RATE:
        return audio.encode(sound(frames), format.encoding)
    return audio.encode_floats(at_once(sound(frames), format.rate), format.encoding)


def of(seen: list[dict[str, Any]], name: str, rate: int) -> list[dict[str, Any]]:
    """The audio of an utterance, in order and without a gap."""
    messages = audio_of(seen, name)
    assert [m["seq"] for m in messages] == list(range(len(messages)))
    at = 0
    for message in messages:
        assert message["start"] == at
        at += message["samples"]
    assert [m["samples"] for m in seen if m["type"] == "done"] == [at]
    return messages


def joined(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(m["pcm"] for m in messages)


@pytest.mark.parametrize("format", SERVED, ids=lambda f: f"{f.encoding}-{f.rate}")
@asynchronous
async def test_each_format_from_end_to_end(format: formats.Format) -> None:
    async with gateway() as server, peer(server) as client:
        assert format._asdict() in (await client.next())["formats"]
        await client.speak("u", WORDS, end=True, pace="fast", format=format._asdict())
        messages = of(await client.until("done"), "u", format.rate)
    assert sum(m["samples"] for m in messages) == 12 * FRAME * format.rate // RATE
    if format.encoding == "opus":
        made = [Piece(m["pcm"], m["samples"], m.get("skip", 0)) for m in messages]
        assert likeness(at_once(sound(12), 48_000), heard(made, format.rate)) > 12
    else:
        assert joined(messages) == expected(format, 12)


@asynchronous
async def test_either_field_of_the_format_may_stand_alone() -> None:
    async with gateway() as server, peer(server) as client:
        for name, format, frame in (
            ("a", {"rate": 8000}, 2 * 640),
            ("b", {"encoding": "mulaw"}, FRAME),
            ("c", {}, 2 * FRAME),
        ):
            await client.speak(name, "hi", end=True, pace="fast", format=format)
            seen = await client.until("done", utterance=name)
            assert len(joined(audio_of(seen, name))) == 3 * frame


@asynchronous
async def test_formats_side_by_side_and_in_json() -> None:
    async with gateway() as server, peer(server, JSON) as client:
        asked = {str(n): format for n, format in enumerate((*OTHERS[:6], SERVED[0]))}
        for name, format in asked.items():
            await client.speak(name, WORDS, end=True, pace="fast", format=format._asdict())
        seen: list[dict[str, Any]] = []
        for _ in asked:
            seen += await client.until("done")
    for name, format in asked.items():
        pcm = b"".join(base64.b64decode(m["pcm"]) for m in audio_of(seen, name))
        assert pcm == expected(format, 12)


@pytest.mark.parametrize("rate", [8000, 44_100])
@asynchronous
async def test_what_is_flushed_is_sent_before_it_is_said_to_be(rate: int) -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("u", WORDS, pace="fast", format={"rate": rate})
        await client.send(type="flush", utterance="u")
        seen = await client.until("flushed")
        assert seen[-1]["at"] == 12 * FRAME * rate // RATE
        assert sum(m["samples"] for m in audio_of(seen, "u")) == seen[-1]["at"]
        await client.send(type="text", utterance="u", text="and more")
        await client.send(type="end", utterance="u")
        seen += await client.until("done")
    assert sum(m["samples"] for m in of(seen, "u", rate)) == 18 * FRAME * rate // RATE


@pytest.mark.parametrize("rate", [8000, 48_000])
@asynchronous
async def test_positions_count_in_the_clients_rate(rate: int) -> None:
    told: dict[int, list[Any]] = {}
    async with gateway() as server, peer(server) as client:
        for there in (RATE, rate):
            name = str(there)
            format = {"rate": there}
            await client.speak(
                name, WORDS, end=True, pace="fast", words=True, progress=True, format=format
            )
            seen = await client.until("done", utterance=name)
            told[there] = [w for m in seen if m["type"] == "words" for w in m["words"]]
            at = [m["at"] for m in seen if m["type"] == "progress"]
            assert at == [n * FRAME * there // RATE for n in range(12)]
            sent = 0
            for message in seen:  # words come after their sound
                sent += message.get("samples", 0) if message["type"] == "audio" else 0
                assert message["type"] != "words" or message["words"][-1][2] <= sent
    assert [w[0] for w in told[rate]] == WORDS.split()
    for ours, theirs in zip(told[rate], told[RATE], strict=True):
        for place in (1, 2):
            assert abs(ours[place] / rate - theirs[place] / RATE) < 0.02


@asynchronous
async def test_what_was_heard_is_read_from_the_clients_samples() -> None:
    """The same moment at any rate, with `played` and with `cancel`."""
    async with gateway() as server, peer(server) as client:
        parts = []
        for rate in (RATE, 8000, 48_000):
            for reported in (False, True):
                name = f"{rate}{reported}"
                format = {"rate": rate}
                await client.speak(name, WORDS, pace="fast", format=format)
                await client.until("audio", utterance=name, seq=7)
                more = {} if reported else {"played": rate // 2}
                if reported:
                    await client.send(type="played", utterance=name, samples=rate // 2)
                await client.send(type="cancel", utterance=name, **more)
                done = (await client.until("done", utterance=name))[-1]
                parts.append((done["heard"], done["remaining"]))
    assert len(set(parts)) == 1
    assert "".join(parts[0]) == WORDS
    assert parts[0][0].strip()


@pytest.mark.parametrize("format", [SERVED[1], formats.Format("opus", 48_000)])
@asynchronous
async def test_cancel_drops_what_is_held_back_and_the_name_is_fresh(
    format: formats.Format,
) -> None:
    async with gateway() as server, peer(server) as client:
        asked = format._asdict()
        await client.speak("u", "word " * 40, pace="fast", format=asked)
        seen = await client.until("audio", seq=3)
        await client.send(type="cancel", utterance="u")
        seen += await client.until("done")
        first = of(seen, "u", format.rate)
        assert sum(m["samples"] for m in first) < len(first) * FRAME * format.rate // RATE
        await client.speak("u", "word " * 40, end=True, pace="fast", format=asked)
        again = of(await client.until("done"), "u", format.rate)
        assert sum(m["samples"] for m in again) == 120 * FRAME * format.rate // RATE
        assert joined(again).startswith(joined(first))  # no tail that ends in silence


@asynchronous
async def test_a_failure_drops_it_too() -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("u", WORDS, pace="fast", format={"rate": 8000})
        seen = await client.until("audio", seq=3)
        await client.send(type="speak", utterance="u", voice={"design": ""})
        seen += await client.until("done")
        assert seen[-1]["reason"] == "error"
        whole = expected(formats.Format("pcm_s16le", 8000), 12)
        assert whole.startswith(joined(of(seen, "u", 8000)))


@asynchronous
async def test_the_limit_of_length_and_the_journal() -> None:
    async with gateway() as server, peer(server) as client:
        more = {"max_seconds": 0.8, "journal": True, "format": {"rate": 16_000}}
        await client.speak("u", WORDS * 9, pace="fast", **more)
        seen = await client.until("done")
    assert seen[-1]["reason"] == "length"
    messages = of(seen, "u", 16_000)
    codes = [m["codes"][:2] for m in messages if "codes" in m]
    assert [int.from_bytes(c, "little") for c in codes] == list(range(10))
    assert "codes" not in messages[-1]
    assert joined(messages) == expected(formats.Format("pcm_s16le", 16_000), 10)


@pytest.mark.parametrize("format", [*OTHERS[:2], formats.Format("opus", 24_000)])
@asynchronous
async def test_an_engines_death_is_not_heard(
    format: formats.Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "BACK_OFF", (0.01,))
    async with gateway() as server, peer(server) as client:
        asked = format._asdict()
        await client.speak("u", "word " * 40, end=True, pace="fast", format=asked)
        seen = await client.until("audio", seq=5)
        os.kill(child(server), signal.SIGKILL)
        seen += await client.until("done")
        messages = of(seen, "u", format.rate)
        assert server.metrics.revived._value.get() == 1
        await client.speak("v", "word " * 40, end=True, pace="fast", format=asked)
        unbroken = of(await client.until("done"), "v", format.rate)
    assert joined(messages) == joined(unbroken)
    assert sum(m["samples"] for m in messages) == 120 * FRAME * format.rate // RATE


@asynchronous
async def test_a_voice_goes_on_in_another_format() -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("a", WORDS, end=True, pace="fast")
        await client.until("done")
        format = formats.Format("alaw", 8000)
        more = {"continues": "a", "format": format._asdict()}
        await client.speak("b", WORDS, end=True, pace="fast", **more)
        messages = of(await client.until("done"), "b", 8000)
    assert joined(messages) == expected(format, 12)


@asynchronous
async def test_a_slow_reader_gets_every_sample() -> None:
    """Frames wait in the outbox, and the engine is held."""
    limits = Limits(outbox_high=20_000, outbox_low=5_000)
    async with gateway(step=0.0, limits=limits) as server, peer(server) as client:
        format = formats.Format("pcm_f32le", 48_000)
        await client.speak("u", "word " * 100, end=True, pace="fast", format=format._asdict())
        seen = await client.until("audio")
        client.socket.transport.pause_reading()
        (served,) = server.connections
        assert served.session
        session = served.session
        await until(lambda: session.outbox.held)
        client.socket.transport.resume_reading()
        seen += await client.until("done")
    assert joined(of(seen, "u", 48_000)) == expected(format, 300)


@pytest.mark.parametrize(
    ("format", "code", "field", "says"),
    [
        ({"encoding": "mp3"}, "unsupported", "speak.format", "mulaw, alaw, opus"),
        ({"rate": 22_050}, "unsupported", "speak.format", "24000, 8000, 16000, 44100, 48000"),
        ({"encoding": "opus", "rate": 44_100}, "unsupported", "speak.format", "not served at"),
        ({"rate": 0}, "bad_message", "speak.format.rate", "1.."),
        ({"rate": 8000.0}, "bad_message", "speak.format.rate", "an integer"),
        ({"encoding": 1}, "bad_message", "speak.format.encoding", "a string"),
        ({"channels": 2}, "bad_message", "speak.format.channels", "encoding, rate"),
        ("pcm_s16le", "bad_message", "speak.format", "a map"),
    ],
)
@asynchronous
async def test_a_wrong_format_is_told_what_there_is(
    format: Any, code: str, field: str, says: str
) -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("u", "hi", end=True, format=format)
        error = (await client.until("error"))[-1]
        assert (error["code"], error["field"], error["utterance"]) == (code, field, "u")
        assert says in error["message"]
        assert not error["fatal"]
        assert await client.alive()


@asynchronous
async def test_capabilities_say_what_ready_says() -> None:
    async with gateway() as server, peer(server) as client:
        ready = await client.next()
        _, _, body = await http(server, "GET", "/v1/capabilities")
        assert json.loads(body)["formats"] == ready["formats"]
        assert ready["formats"] == [f._asdict() for f in SERVED]
        assert ready["formats"][0] == {"encoding": "pcm_s16le", "rate": ready["rate"]}


WITHOUT = """
import sys
sys.modules["av"] = None
from tests.gateway.house import asynchronous, gateway, peer

@asynchronous
async def ask():
    async with gateway() as server, peer(server) as client:
        ready = await client.next()
        assert {f["encoding"] for f in ready["formats"]} == {
            "pcm_s16le", "pcm_f32le", "mulaw", "alaw"
        }
        await client.speak("u", "hi", end=True, format={"encoding": "opus"})
        error = (await client.until("error"))[-1]
        print(error["code"], error["message"])
        await client.speak("u", "hi", end=True, format={"rate": 48000})
        assert (await client.until("done"))[-1]["samples"] == 3 * 3840

ask()
"""


def test_a_server_without_pyav_names_the_fix() -> None:
    asked = [sys.executable, "-c", WITHOUT]
    told = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("unsupported ")
    assert "pip install 'vivavoce[opus]'" in told.stdout


@asynchronous
async def test_the_client_library_knows_the_rate() -> None:
    async with gateway() as server:
        url = f"ws://127.0.0.1:{server.port}/v1/speech"
        format = {"encoding": "mulaw", "rate": 8000}
        speech = await asyncio.to_thread(speak, "one two", "a man", url=url, format=format)
        assert (speech.rate, len(speech), speech.done.samples) == (8000, 6 * 640, 6 * 640)
        async with connect(url) as client:
            utterance = await client.speak("a man", "one", format={"encoding": "opus"})
            pieces = [audio async for audio in utterance]
            assert [a.skip for a in pieces] == [156, 0, 0, 0]
            assert utterance.rate == RATE
            assert utterance.samples == (await utterance.done()).samples == 3 * FRAME


@asynchronous
async def test_the_backlog_is_seconds_at_any_rate() -> None:
    """Two seconds of 48 kHz fit where three are allowed."""
    async with gateway() as server:
        url = f"ws://127.0.0.1:{server.port}/v1/speech"
        async with connect(url, backlog=3.0) as client:
            text = "word " * 8  # 1.92 s
            more = {"pace": "fast", "format": {"rate": 48_000}}
            utterance = await client.speak("a man", text, **more)
            assert (await utterance.done()).samples == 24 * 3840
            assert sum([a.samples async for a in utterance]) == 24 * 3840
