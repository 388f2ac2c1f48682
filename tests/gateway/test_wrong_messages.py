"""Each wrong message gets its documented error, over a real socket, and costs only what it must."""

from __future__ import annotations

import re
from typing import Any

import msgpack

from gateway.errors import CODES

from .house import JSON, ROOT, VOICE, Peer, asynchronous, gateway, peer
from .wrong import FAILED, FATAL, LOST, OPEN, Wrong

PROTOCOL = (ROOT / "docs" / "protocol.md").read_text()


async def provoke(client: Peer, case: Wrong) -> None:
    await client.until("ready")
    for message in case.before:
        await client.send(**message)
    raw = case.raw if case.raw is not None else msgpack.packb(case.message)
    await client.socket.send(raw)


def check(case: Wrong, error: dict[str, Any]) -> None:
    expected: dict[str, Any] = {"type": "error", "code": case.code, "fatal": bool(case.close)}
    for name in ("field", "limit", "utterance"):
        if getattr(case, name) is not None:
            expected[name] = getattr(case, name)
    assert expected.items() <= error.items(), case.name
    assert error["message"], case.name


@asynchronous
async def test_fatal_errors_close_with_their_code() -> None:
    async with gateway() as server:
        for case in FATAL:
            async with peer(server) as client:
                await provoke(client, case)
                code, seen = await client.closed()
                check(case, seen[-1])
                assert code == case.close, case.name
                assert client.socket.close_reason == case.code, case.name


@asynchronous
async def test_other_errors_cost_only_the_message() -> None:
    async with gateway() as server:
        for case in LOST:
            async with peer(server) as client:
                await provoke(client, case)
                check(case, (await client.until("error"))[-1])
                assert await client.alive(), case.name
        assert server.load.live == 0


@asynchronous
async def test_errors_about_a_live_utterance_end_it_and_not_the_connection() -> None:
    async with gateway() as server:
        for case in FAILED:
            async with peer(server) as client:
                await provoke(client, case)
                check(case, (await client.until("error"))[-1])
                done = await client.next()
                assert (done["type"], done["utterance"], done["reason"]) == ("done", "u", "error")
                await client.send(**OPEN, text="again", end=True)
                assert (await client.until("done"))[-1]["reason"] == "eos", case.name


@asynchronous
async def test_json_is_as_strict() -> None:
    cases: dict[str | bytes, int] = {
        b"\x81\xa4type\xa4ping": 1003,
        "": 1007,
        "{": 1007,
        "[]": 1007,
        '{"type":"ping"} {}': 1007,
        '{"type":"ping","type":"ping"}': 1007,
        '{"type":"ping","id":NaN}': 1007,
        '{"type":"ping","id":Infinity}': 1007,
        "[" * 60_000: 1007,
        '{"type":"ping","id":' + "[" * 6 + "]" * 6 + "}": 1007,
        '{"type":"ping","id":"' + "x" * 140_000 + '"}': 1009,
    }
    async with gateway() as server:
        for raw, code in cases.items():
            async with peer(server, JSON) as client:
                await client.socket.send(raw)
                closed, seen = await client.closed()
                assert (closed, seen[-1]["fatal"]) == (code, True), raw[:40]


@asynchronous
async def test_numbers_beyond_every_range_cost_only_the_message() -> None:
    voice = '"type":"speak","utterance":"u","voice":{"design":""}'
    async with gateway() as server, peer(server, JSON) as client:
        for digits in ("1" + "0" * 400, "-" + "9" * 400, "9" * 5_000, "1e400"):
            for message, field in (
                ('{"type":"ping","id":%s}', "ping.id"),
                ('{"type":"played","utterance":"u","samples":%s}', "played.samples"),
                (f'{{{voice},"max_seconds":%s}}', "speak.max_seconds"),
                (f'{{{voice},"seed":%s}}', "speak.seed"),
                (f'{{{voice},"sampling":{{"temperature":%s}}}}', "speak.sampling.temperature"),
                (f'{{{voice},"format":{{"rate":%s}}}}', "speak.format.rate"),
            ):
                await client.socket.send(message % digits)
                error = (await client.until("error"))[-1]
                assert (error["code"], error["field"]) == ("bad_message", field), digits[:9]
                assert not error["fatal"]
        assert await client.alive()


@asynchronous
async def test_half_a_surrogate_pair_is_refused() -> None:
    async with gateway() as server, peer(server, JSON) as client:
        await client.socket.send(
            '{"type":"speak","utterance":"u","voice":{"design":""},"text":"\\ud83d"}'
        )
        error = (await client.until("error"))[-1]
        assert (error["code"], error["field"]) == ("bad_message", "speak.text")
        assert await client.alive()


@asynchronous
async def test_text_that_is_not_utf8_closes_with_1007() -> None:
    async with gateway() as server, peer(server, JSON) as client:
        await client.socket.send(b'{"type":"\xff"}', text=True)
        code, seen = await client.closed()
        assert (code, seen[-1]["code"]) == (1007, "bad_message")


@asynchronous
async def test_a_name_never_seen_is_an_error_each_time() -> None:
    async with gateway() as server, peer(server) as client:
        await client.until("ready")
        for kind, more in (("text", {"text": "a"}), ("flush", {}), ("end", {})) * 2:
            await client.send(type=kind, utterance="nobody", **more)
            assert (await client.next())["code"] == "unknown_utterance", kind
        for _ in range(2):
            await client.send(type="played", utterance="nobody", samples=1)
            assert (await client.next())["code"] == "unknown_utterance"


@asynchronous
async def test_a_voice_outlives_wrong_messages_about_its_name() -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("u", "Hi.", end=True)
        await client.until("done")
        for wrong in (
            {"type": "played", "samples": -1},
            {"type": "text", "text": "late"},
            {"type": "txt"},
            {"type": "speak", "voice": VOICE, "seed": -1},
        ):
            await client.send(utterance="u", **wrong)
            await client.until("error")
            await client.speak("v", "Hi.", end=True, continues="u")
            assert (await client.until("done"))[-1]["reason"] == "eos", wrong


@asynchronous
async def test_one_failure_is_one_error() -> None:
    """A client that streams text into an utterance that was refused hears of it once."""
    async with gateway() as server, peer(server) as client:
        await client.speak("u", language="turkish")
        for _ in range(5):
            await client.send(type="text", utterance="u", text="more ")
        await client.send(type="end", utterance="u")
        await client.send(type="ping")
        seen = await client.until("pong")
        assert [m["type"] for m in seen] == ["ready", "error", "pong"]


def test_every_error_code_is_documented() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \|", PROTOCOL.partition("## Errors")[2], re.M))
    assert set(CODES) <= documented


def test_the_cases_cover_every_row_of_the_table() -> None:
    """Each close code of the table of wrong input occurs in the cases, and the other way round."""
    table = PROTOCOL.partition("## Wrong input")[2].partition("## Close codes")[0]
    closes = {int(code) for code in re.findall(r"\| (\d{4}) \|", table)}
    assert closes == {case.close for case in FATAL} | {4401}
    assert {case.code for case in [*FATAL, *LOST, *FAILED]} >= {
        code for code in re.findall(r"\| `(\w+)` \| -", table) if code != "too_many"
    }
