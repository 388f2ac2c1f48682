"""An utterance goes on behind what its client has: here, elsewhere, wherever the line was cut."""

from __future__ import annotations

import asyncio
import base64
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest

from engine import checkpoint
from engine import messages as engine
from gateway.capabilities import Capabilities
from gateway.config import EngineArguments, GatewayConfig, Limits
from gateway.keys import Grant, grants
from gateway.server import Server
from tests.engine.test_engine import CODEBOOKS, loaded, make
from tests.engine.tiny import write_checkpoint

from .house import JSON, VOICE, Peer, asynchronous, gateway, peer
from .test_session import READY, Table

__all__ = ["loaded"]

TEXT = "Hello there, my friend. How are you today? I am well, thank you for asking. "
SAY: dict[str, Any] = {"pace": "fast", "seed": 7, "journal": True}


class Notes:
    """What a client keeps, by the page alone."""

    def __init__(self, seen: list[dict[str, Any]], text: str, ended: bool = True) -> None:
        audio = [m for m in seen if m["type"] == "audio"]
        self.pcm = b"".join(m["pcm"] for m in audio)
        self.resume: dict[str, Any] = {
            "seed": 7,
            "text": text,
            "ended": ended,
            "codes": b"".join(m["codes"] for m in audio),
            "seq": len(audio),
            "flushed": len([m for m in seen if m["type"] == "flushed"]),
            "words": sum(len(m["words"]) for m in seen if m["type"] == "words"),
            "journal": b"".join(m["record"] for m in seen if m["type"] == "journal"),
        }


class Desk:
    """A session and a real engine, in one thread: the stream can be cut behind any message."""

    def __init__(self, loaded: checkpoint.Loaded) -> None:
        self.table, self.engine = Table(), make(loaded)
        ready = engine.Ready(**vars(READY) | {"codebooks": CODEBOOKS})
        self.table.session.served = Capabilities.of(ready, Limits())
        self.table.heard()
        self.by: list[int] = []  # messages by step

    def heard_by(self, step: int) -> int:
        return self.by[step]

    def run(self, says: dict[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = []
        for n in range(4000):
            for message in says.get(n, []):
                seen += self.table.say(**{"utterance": "u"} | message)
            for event in self.engine.step(self.table.commands()):
                seen += self.table.event(event)
            self.by.append(len(seen))
            if n >= max(says) and not self.table.session.live:
                return seen
        raise AssertionError("still busy")


def opening(**more: Any) -> dict[str, Any]:
    return {"kind": "speak", "voice": VOICE, "max_seconds": 16} | SAY | more


def pcm_of(seen: list[dict[str, Any]]) -> bytes:
    return b"".join(m["pcm"] for m in seen if m["type"] == "audio")


def text(piece: str) -> dict[str, Any]:
    return {"kind": "text", "text": piece}


MARKDOWN = "**Hello** there, [my friend](http://a.example). How are *you* today? "
PIECES = [w + " " for w in TEXT.split()]
CASES: dict[str, dict[int, list[dict[str, Any]]]] = {
    "segments": {0: [opening(text=MARKDOWN + TEXT * 4, end=True)]},
    "stream": {0: [opening(text=TEXT * 2, end=True, layout="stream")]},
    "no carry": {0: [opening(text=TEXT * 4, end=True, carry="none")]},
    "pieces": {
        0: [opening()],
        **{1 + 2 * n: [text(piece)] for n, piece in enumerate(PIECES)},
        40: [{"kind": "end"}],
    },
    "flushes": {
        0: [opening()],
        1: [text("One mo"), {"kind": "flush"}, text("ment, please. "), {"kind": "flush"}],
        2: [text(TEXT), {"kind": "end"}],
    },
    "a stall": {
        0: [opening()],
        1: [text("I will look it up fo")],
        90: [text("r you, my friend. Here it is."), {"kind": "end"}],
    },
}


def said(case: dict[int, list[dict[str, Any]]]) -> tuple[str, bytes]:
    """All of a case's text, and where its flushes stand."""
    whole, flushes = "", []
    for message in (m for _, messages in sorted(case.items()) for m in messages):
        whole += message.get("text", "")
        flushes += [len(whole)] if message["kind"] == "flush" else []
    return whole, struct.pack(f"<{len(flushes)}I", *flushes)


@pytest.mark.parametrize("name", CASES)
def test_a_stream_cut_behind_any_message_goes_on_to_the_same_samples(
    loaded: checkpoint.Loaded, name: str
) -> None:
    case = CASES[name]
    desk = Desk(loaded)
    whole = desk.run(case)
    assert whole[-1]["type"] == "done"
    first = desk.heard_by(max(case)) + 3  # with all text, and what time decided of it
    journals = [i for i, m in enumerate(whole) if m["type"] == "journal" and i >= first]
    cuts = {first, len(whole) - 1, *journals[-2:], *(i + 1 for i in journals[-1:])}
    cuts |= set(random.Random(1).sample(range(first, len(whole)), 2))
    every, flushes = said(case)
    for cut in sorted(cuts):
        notes = Notes(whole[:cut], every)
        resume = notes.resume | {"flushes": flushes}
        again = {k: v for k, v in case[0][0].items() if k not in ("text", "end", "seed")}
        rest = Desk(loaded).run({0: [again | {"resume": resume}]})
        audio = [m for m in rest if m["type"] == "audio"]
        assert [m["seq"] for m in audio][:1] in ([], [resume["seq"]])
        assert [m["start"] for m in audio][:1] in ([], [1920 * resume["seq"]])
        assert notes.pcm + pcm_of(rest) == pcm_of(whole), f"cut at {cut} of {len(whole)}"
        assert {k: rest[-1][k] for k in ("reason", "samples", "segments")} == {
            k: whole[-1][k] for k in ("reason", "samples", "segments")
        }
        flushed = [m for m in whole[:cut] + rest if m["type"] == "flushed"]
        assert flushed == [m for m in whole if m["type"] == "flushed"]


def test_text_goes_on_too(loaded: checkpoint.Loaded) -> None:
    """The client sends what the server may not have had, as text messages or in the speak."""
    whole = Desk(loaded).run({0: [opening(text=TEXT * 7, end=True)]})
    cut = next(i for i, m in enumerate(whole) if m["type"] == "audio" and m["seq"] == 20)
    notes = Notes(whole[:cut], TEXT * 6, ended=False)
    again = opening(resume=notes.resume)
    late = Desk(loaded).run({0: [again, text(TEXT), {"kind": "end"}]})
    soon = Desk(loaded).run({0: [again | {"text": TEXT, "end": True}]})
    assert notes.pcm + pcm_of(late) == notes.pcm + pcm_of(soon) == pcm_of(whole)


def test_words_are_told_once_and_the_account_is_of_all(loaded: checkpoint.Loaded) -> None:
    whole = Desk(loaded).run({0: [opening(text=TEXT * 2, end=True, words=True)]})
    cut = next(i for i, m in enumerate(whole) if m["type"] == "audio" and m["seq"] == 60)
    notes = Notes(whole[:cut], TEXT * 2)
    rest = Desk(loaded).run({0: [opening(words=True, resume=notes.resume)]})
    told, again = (
        [word[0] for m in seen if m["type"] == "words" for word in m["words"]]
        for seen in (whole, whole[:cut] + rest)
    )
    assert notes.resume["words"] > 0
    assert again[: len(told)] == told[: len(again)]
    assert rest[-1]["samples"] == whole[-1]["samples"]


def test_what_is_made_up_is_refused_and_hurts_nobody(loaded: checkpoint.Loaded) -> None:
    """Numbers, words and records of a true journal changed at random."""
    whole = Desk(loaded).run({0: [opening(text=TEXT * 4, end=True)]})
    cut = len(whole) * 3 // 4
    true = Notes(whole[:cut], TEXT * 4).resume
    unpacker = msgpack.Unpacker()
    unpacker.feed(true["journal"])
    records = list(unpacker)
    dice = random.Random(5)
    desk, codes = Desk(loaded), set()
    for _ in range(60):
        false = [list(r) for r in records]
        for _ in range(dice.choice((1, 1, 3))):
            record = dice.choice(false)
            at = dice.randrange(1, len(record))
            if isinstance(record[at], int):
                record[at] = dice.choice((-1, 0, 1, 5, record[at] + 1, 10**4, 2**31 - 1))
            elif isinstance(record[at], list):
                record[at] = [dice.choice((-1, 0, 2047, 2048, 2**31 - 1))] * dice.choice((0, 1, 99))
            else:
                record[at] = dice.choice(("", "else", "full", "stream"))
        if dice.random() < 0.2:
            false.remove(dice.choice(false))
        resume = true | {"journal": b"".join(map(msgpack.packb, false))}
        seen = desk.run({0: [opening(resume=resume, words=True)]})
        codes |= {m["code"] for m in seen if m["type"] == "error"}
    assert codes == {"bad_message"}
    assert pcm_of(desk.run({0: [opening(text=TEXT * 4, end=True)]})) == pcm_of(whole)


def fake(**changes: Any) -> dict[str, Any]:
    """A resume of two frames in the fake engine's codes."""
    codes = b"".join(n.to_bytes(2, "little") * 16 for n in range(2))
    return {"seed": 1, "text": "word " * 9, "ended": True, "codes": codes, "seq": 2} | changes


def without(name: str) -> dict[str, Any]:
    return {k: v for k, v in fake().items() if k != name}


def packed(*values: object) -> bytes:
    return b"".join(map(msgpack.packb, values))


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"resume": 1}, "bad_message", "speak.resume"),
    ({"resume": fake(more=1)}, "bad_message", "speak.resume.more"),
    *(({"resume": without(n)}, "bad_message", "speak.resume") for n in ("seed", "text", "codes")),
    ({"resume": without("seq")}, "bad_message", "speak.resume"),
    ({"resume": fake(seed=-1)}, "bad_message", "speak.resume.seed"),
    ({"resume": fake(text=b"x")}, "bad_message", "speak.resume.text"),
    ({"resume": fake(text="a\0")}, "bad_message", "speak.resume.text"),
    ({"resume": fake(text="x" * 65)}, "too_large", "speak.resume.text"),
    ({"resume": fake(ended=1)}, "bad_message", "speak.resume.ended"),
    ({"resume": fake(codes=[1])}, "bad_message", "speak.resume.codes"),
    ({"resume": fake(codes="*")}, "bad_message", "speak.resume.codes"),
    ({"resume": fake(codes=b"123")}, "bad_message", "speak.resume.codes"),
    ({"resume": fake(seq=3)}, "bad_message", "speak.resume.codes"),
    ({"resume": fake(seq=-1)}, "bad_message", "speak.resume.seq"),
    ({"resume": fake(seq=10**6)}, "bad_message", "speak.resume.seq"),
    ({"resume": fake(flushes=b"1")}, "bad_message", "speak.resume.flushes"),
    ({"resume": fake(flushes=struct.pack("<2I", 4, 3))}, "bad_message", "speak.resume.flushes"),
    ({"resume": fake(flushes=struct.pack("<I", 99))}, "bad_message", "speak.resume.flushes"),
    ({"resume": fake(flushed=1)}, "bad_message", "speak.resume.flushed"),
    ({"resume": fake(words=-1)}, "bad_message", "speak.resume.words"),
    *(
        ({"resume": fake(journal=journal)}, "bad_message", "speak.resume.journal")
        for journal in (
            b"\xc1",
            b"\x91",
            packed(1),
            packed([]),
            packed(["else"]),
            packed(["settled"]),
            packed(["settled", "x"]),
            packed(["settled", True]),
            packed(["settled", 2**31]),
            packed(["settled", 2**70 // 2**10]),
            packed(["tokens", 0, 0, ["x"]]),
            packed(["progress", 1, {}]),
            packed(["segment", 1, 0, 9, "full", 0, 0, 0, 0, 9, "word word", ""]),
            packed(["segment", -1, 0, 9, "full", 0, 0, 0, 0, 9, "word word", ""]),
            packed(["voice", "a", "b"]),
            packed(msgpack.ExtType(1, b"")),
        )
    ),
    ({"resume": fake(), "format": {"rate": 8000}}, "unsupported", "speak.format"),
    ({"resume": fake(), "seed": 2}, "bad_message", "speak.seed"),
    ({"resume": fake(), "continues": "x"}, "bad_message", "speak.continues"),
    ({"resume": fake(), "text": "more"}, "bad_message", "speak.text"),
]


@asynchronous
async def test_each_wrong_resume_is_refused_by_name() -> None:
    limits = Limits(text_bytes=64)
    async with gateway(limits=limits) as server, peer(server) as client:
        for message, code, field in WRONG:
            await client.speak("u", **message)
            error = (await client.until("error"))[-1]
            found = (error["code"], error["field"].removesuffix("."), error["fatal"])
            assert found[0] == code and not found[2], (message, error)
            assert found[1].startswith(field), (message, error)
        assert server.load.live == 0
        await client.speak("u", resume=fake())
        seen = await client.until("done")
        assert next(m["seq"] for m in seen if m["type"] == "audio") == 2


@asynchronous
async def test_a_resume_that_no_message_holds_closes_like_any_other() -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("u", resume=fake(journal=bytes(140_000)))
        code, seen = await client.closed()
        assert (code, seen[-1]["code"]) == (1009, "too_large")


@asynchronous
async def test_a_resume_counts_as_a_speak() -> None:
    """Its text against the key, itself against the utterances; a draining server wants none."""
    keys = grants(["k chars_per_minute=60", "few utterances=1"])
    assert Grant("", None, 60) in keys.values()
    async with gateway(keys=keys) as server:
        header = {"additional_headers": {"Authorization": "Bearer k"}}
        async with peer(server, **header) as client:
            await client.speak("d", resume=fake(text="word " * 50))
            assert (await client.until("error"))[-1]["code"] == "too_large"
            await client.speak("a", resume=fake())
            await client.until("done")
            await client.speak("b", resume=fake())
            await client.until("done")
            await client.speak("c", resume=fake())
            error = (await client.until("error"))[-1]
            assert (error["code"], error["limit"]) == ("rate_limited", "key_chars_per_minute")
        few = {"additional_headers": {"Authorization": "Bearer few"}}
        async with peer(server, **few) as client:
            await client.speak("a", resume=fake(ended=False))
            await client.speak("b", resume=fake())
            error = (await client.until("error"))[-1]
            assert (error["code"], error["limit"]) == ("too_many", "key_utterances")
            server.load.draining = True
            await client.speak("b", resume=fake())
            assert (await client.until("error"))[-1]["code"] == "draining"


@asynchronous
async def test_json_takes_base64() -> None:
    async with gateway() as server, peer(server, JSON) as client:
        await client.speak("u", resume=fake(codes="no base64!"))
        error = (await client.until("error"))[-1]
        assert (error["code"], error["field"]) == ("bad_message", "speak.resume.codes")
        codes = base64.b64encode(fake()["codes"]).decode()
        await client.speak("u", resume=fake(codes=codes))
        seen = await client.until("done")
        assert next(m["seq"] for m in seen if m["type"] == "audio") == 2


@asynccontextmanager
async def real(model: Path) -> AsyncIterator[Server]:
    arguments = EngineArguments(model=str(model), device="cpu", slots=2)
    server = Server(GatewayConfig(port=0, engine=arguments, drain_seconds=0))
    server.bind()
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


def test_a_cut_connection_goes_on_here_and_on_another_server(tmp_path: Path) -> None:
    """Real engines in processes of their own, a transport torn down in mid-speech."""
    write_checkpoint(tmp_path, seed=1)
    more = {"pace": "fast", "seed": 7, "max_seconds": 8, "journal": True}

    async def cut(server: Server, at: int, sent: str, **fields: Any) -> Notes:
        async with peer(server) as client:
            await client.speak("u", sent, **more, **fields)
            seen = await client.until("audio", seq=at)
            for connection in list(server.connections):
                connection.transport.abort()
            return Notes(seen, sent, ended=fields.get("end", False))

    async def rest(client: Peer, notes: Notes, *texts: str) -> bytes:
        await client.speak("u", **more, resume=notes.resume)
        for piece in texts:
            await client.send(type="text", utterance="u", text=piece)
        if texts:
            await client.send(type="end", utterance="u")
        seen = await client.until("done")
        assert not [m for m in seen if m["type"] == "error"]
        return notes.pcm + pcm_of(seen)

    async def all_of_it() -> None:
        async with asyncio.timeout(240), real(tmp_path) as one, real(tmp_path) as two:
            async with peer(one) as client:
                await client.speak("u", TEXT * 7, end=True, **more)
                whole = pcm_of(await client.until("done"))
            for at in (3, 40):
                notes = await cut(one, at, TEXT * 7, end=True)
                for server in (one, two):
                    async with peer(server) as client:
                        assert await rest(client, notes) == whole
            notes = await cut(one, 30, TEXT * 6)
            async with peer(two) as client:
                assert await rest(client, notes, TEXT) == whole

    asyncio.run(all_of_it())


def test_a_voice_that_goes_on_is_in_the_journal(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, seed=1)
    more = {"pace": "fast", "seed": 7, "max_seconds": 6, "journal": True}

    async def both() -> None:
        async with asyncio.timeout(120), real(tmp_path) as server:
            async with peer(server) as client:
                await client.speak("a", TEXT * 7, end=True, pace="fast", seed=3, max_seconds=40)
                await client.until("done")
                await client.speak("u", TEXT, end=True, continues="a", **more)
                seen = await client.until("done")
            assert b"voice" in b"".join(m["record"] for m in seen if m["type"] == "journal")
            cut = len(seen) // 2
            notes = Notes(seen[:cut], TEXT)
            async with peer(server) as client:
                await client.speak("u", **more, resume=notes.resume)
                rest = await client.until("done")
            assert notes.pcm + pcm_of(rest) == pcm_of(seen)

    asyncio.run(both())
