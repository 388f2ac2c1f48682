"""Who gets the next slot: the line alone, then keys that compete for a real gateway's slots."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import messages as engine
from gateway.config import Limits
from gateway.keys import grants
from gateway.line import AHEAD, Line

from .house import Peer, asynchronous, gateway, peer, until


def line(slots: int, queue: int = 64) -> Line:
    made = Line()
    made.slots, made.queue = slots, queue
    return made


def speak(ident: int) -> engine.Speak:
    return engine.Speak(ident, "", 1, "", False)


def arrive(line: Line, share: str, *idents: int, now: float = 0.0) -> list[int]:
    """Who got a slot thereby."""
    through = line.pass_on([speak(i) for i in idents], share, now)
    assert through == []
    return served(line, now)


def served(line: Line, now: float = 0.0) -> list[int]:
    return [c.utterance for c in line.release(now) if isinstance(c, engine.Speak)]


def test_while_slots_are_free_nobody_waits() -> None:
    house = line(3)
    assert arrive(house, "a", 1, 2, 3) == [1, 2, 3]
    assert (house.waiting, house.places()) == (0, {})


def test_slots_go_round_the_shares_and_in_order_within_one() -> None:
    house = line(2)
    assert arrive(house, "a", 1, 2, 3, 4, 5, 6) == [1, 2, 3]  # the third waits in the engine
    assert arrive(house, "b", 11, 12) == []
    assert arrive(house, "c", 21) == []
    order = []
    for ident in (1, 2, 3, 11, 21, 4, 12):
        house.leave(ident, 0.0)
        order += served(house)
    assert order == [11, 21, 4, 12, 5, 6]


def test_places_are_the_order_in_which_slots_would_go() -> None:
    house = line(1)
    arrive(house, "a", 1, 2, 3, 4)
    arrive(house, "b", 11, 12)
    assert house.places() == {2: 1, 11: 2, 12: 3, 3: 4, 4: 5}


def test_what_belongs_to_a_waiting_utterance_waits_with_it() -> None:
    house = line(1)
    arrive(house, "a", 1, 2, 3)
    more = [engine.Text(1, "x"), engine.Text(3, "y"), engine.End(3)]
    assert house.pass_on(more, "a", 0.0) == [engine.Text(1, "x")]
    house.leave(1, 5.0)
    assert house.release(5.0) == [speak(3), engine.Text(3, "y"), engine.End(3)]
    assert house.waited(3) == 5.0


def test_a_cancelled_waiter_never_reaches_the_engine() -> None:
    house = line(1)
    arrive(house, "a", 1, 2, 3)
    assert house.pass_on([engine.Cancel(3), engine.Cancel(1)], "a", 0.0) == [engine.Cancel(1)]
    assert served(house) == []
    assert (house.waiting, house.live("a")) == (0, 1)


def test_in_a_full_line_the_greatest_share_makes_room_for_a_smaller_one() -> None:
    house = line(1, queue=3)
    arrive(house, "a", 1, 2, 3, 4)
    assert house.full
    assert house.yields("a") == 0  # not for its own
    assert house.yields("b") == 4  # its newest
    house.leave(4, 0.0)
    arrive(house, "b", 11)
    assert house.yields("b") == 3
    house.leave(3, 0.0)
    arrive(house, "b", 12)
    assert house.yields("b") == 0  # two and two: nothing fairer to be had
    assert house.yields("c") in (12, 2)


def test_retry_follows_the_pace_at_which_slots_come_free() -> None:
    house = line(2)
    assert house.retry_ms() == 1000  # nothing seen yet
    arrive(house, "a", *range(1, 20))
    for ident in range(1, 10):
        house.leave(ident, ident * 3.0)
        served(house, ident * 3.0)
    assert [house.retry_ms() for _ in range(3)] == [3000, 6000, 9000]  # one slot for each
    house.leave(10, 30.0)
    assert house.retry_ms() == 3000
    assert [house.retry_ms() for _ in range(20)][-1] == 30_000
    idle = line(8)
    arrive(idle, "a", 1, 2)
    for ident in (1, 2):  # slots were free: seconds between ends say nothing
        idle.leave(ident, ident * 100.0)
    assert idle.retry_ms() == 1000


STEP = st.tuples(st.sampled_from(["speak", "leave", "cancel"]), st.integers(0, 30))


@settings(max_examples=200, deadline=None)
@given(st.lists(STEP, max_size=80), st.integers(1, 3))
def test_no_slot_stands_idle_and_nobody_is_lost(script: list[tuple[str, int]], slots: int) -> None:
    house = line(slots)
    speaking: dict[int, str] = {}
    waiting: dict[int, str] = {}
    for number, (kind, which) in enumerate(script, 1):
        everybody = list(speaking | waiting)
        if kind == "speak":
            waiting[number] = "abc"[which % 3]
            house.pass_on([speak(number)], waiting[number], 0.0)
        elif everybody:
            ident = everybody[which % len(everybody)]
            if kind == "cancel" or ident in waiting:
                house.pass_on([engine.Cancel(ident)], "", 0.0)
            else:
                house.leave(ident, 0.0)
            speaking.pop(ident, None)
            waiting.pop(ident, None)
        for ident in served(house):
            share = waiting.pop(ident)
            counts = [list(speaking.values()).count(s) for s in {share, *waiting.values()}]
            assert list(speaking.values()).count(share) == min(counts)
            speaking[ident] = share
        assert len(speaking) == min(slots + AHEAD, len(speaking) + len(waiting))
        assert house.waiting == len(waiting)
        late = list(speaking)[slots:]
        assert sorted(house.places()) == sorted([*waiting, *late])
        assert sorted(house.places().values()) == list(range(1, len(house.places()) + 1))
        for share in "abc":
            both = [*speaking.values(), *waiting.values()]
            assert house.live(share) == both.count(share)


KEYS = grants(["one", "two"])
LONG = {"text": "word " * 40, "end": True, "pace": "fast"}


def as_key(key: str) -> dict[str, Any]:
    return {"additional_headers": {"Authorization": f"Bearer {key}"}}


async def outcome(client: Peer, count: int) -> list[tuple[str, str]]:
    """What became of `count` utterances: name and reason, in the order of their ends."""
    ends = []
    while len(ends) < count:
        message = await client.next()
        if message["type"] == "done":
            ends.append((message["utterance"], message["reason"]))
    return ends


@asynchronous
async def test_a_key_with_one_utterance_does_not_wait_behind_a_flood() -> None:
    async with (
        gateway(keys=KEYS, slots=2, step=0.004) as server,
        peer(server, **as_key("one")) as flood,
        peer(server, **as_key("two")) as guest,
    ):
        for number in range(12):
            await flood.speak(f"f{number}", **LONG)
        await until(lambda: server.load.live == 12)
        await guest.speak("g", **LONG)
        await guest.until("done", utterance="g", reason="eos")
        assert server.load.live >= 6  # most of the flood still waits
        assert {reason for _, reason in await outcome(flood, 12)} == {"eos"}


@asynchronous
async def test_a_full_line_makes_room_for_another_key() -> None:
    async with (
        gateway(keys=KEYS, slots=1, queue=3, step=0.004) as server,
        peer(server, **as_key("one")) as flood,
        peer(server, **as_key("two")) as guest,
    ):
        for number in range(5):
            await flood.speak(f"f{number}", **LONG)
        error = (await flood.until("error"))[-1]
        assert (error["code"], error["utterance"], error["fatal"]) == ("busy", "f4", False)
        assert error["retry_ms"] >= 250
        await guest.speak("g", **LONG)
        error, done = (await flood.until("done"))[-2:]
        assert (error["code"], error["utterance"], done["reason"]) == ("busy", "f3", "error")
        assert error["retry_ms"] >= 250
        await guest.until("done", utterance="g", reason="eos")
        assert [name for name, _ in await outcome(flood, 3)] == ["f0", "f1", "f2"]
        assert server.load.line.places() == {}


@asynchronous
async def test_who_waits_learns_its_place_and_how_long_it_was() -> None:
    async with gateway(slots=1, step=0.01) as server, peer(server) as client:
        for number in range(4):
            await client.speak(f"u{number}", **LONG)
        seen = await client.until("done", utterance="u2")
        places = {u: [m["place"] for m in seen if m["type"] == "queued" and m["utterance"] == u]
                  for u in ("u1", "u2", "u3")}  # fmt: skip
        assert places == {"u1": [1], "u2": [2, 1], "u3": [3, 2, 1]}
        started = {m["utterance"]: m["queue_ms"] for m in seen if m["type"] == "started"}
        assert started["u0"] < started["u1"] < started["u2"]
        assert started["u1"] > 500  # 120 frames of 10 ms
        await client.send(type="cancel")


@asynchronous
async def test_cancelled_and_lost_waiters_leave_the_line() -> None:
    async with gateway(slots=1, step=0.01) as server:
        async with peer(server) as client, peer(server) as other:
            for number in range(6):
                await client.speak(f"u{number}", **LONG)
            await other.speak("o", **LONG)
            await until(lambda: server.load.line.waiting == 5)
            await client.send(type="cancel", utterance="u3")
            await client.until("done", utterance="u3", reason="cancelled")
            client.socket.transport.abort()
            await other.until("done", utterance="o", reason="eos")
        await server.engines.idle.wait()
        assert (server.load.live, server.load.line.waiting) == (0, 0)


@asynchronous
async def test_those_in_the_line_outlive_the_engine() -> None:
    patient = Limits(queue_seconds=60)
    async with gateway(slots=1, step=0.01, limits=patient) as server, peer(server) as client:
        await client.speak("u0", "word " * 4 + "#crash")
        await client.speak("u1", "two words", end=True)
        await client.speak("u2", "two words", end=True)
        seen = await client.until("done", utterance="u2")
        assert seen[-1]["reason"] == "eos"


@pytest.mark.parametrize("waiting", [True, False])
@asynchronous
async def test_no_slot_in_time_is_busy(waiting: bool) -> None:
    async with (
        gateway(slots=1, step=0.01, limits=Limits(queue_seconds=0.3)) as server,
        peer(server) as client,
    ):
        names = ["u0", "u1", "u2"] if waiting else ["u0", "u2"]
        for name in names:
            await client.speak(name, **LONG)
        async with asyncio.timeout(10):
            error = (await client.until("error", utterance="u2"))[-1]
        assert (error["code"], error["limit"]) == ("busy", "queue_seconds")
        assert error["retry_ms"] >= 250
        await client.until("done", utterance="u0", reason="eos")
