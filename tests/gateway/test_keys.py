"""Keys: their file, their quotas, and what becomes of a key that is taken away."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.errors import Refusal
from gateway.keys import Account, Grant, Keys, grants, line_of

from .house import asynchronous, gateway, http, peer


def digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def as_key(key: str) -> dict[str, Any]:
    return {"additional_headers": {"Authorization": f"Bearer {key}"}}


def test_a_line_names_a_key_and_its_limits() -> None:
    lines = [
        "# whose they are",
        "",
        "plain",
        "  name:with-colon  ",
        f"sha256:{digest('hashed').hex().upper()}",
        "alice: first utterances=4 chars_per_minute=20000",
        f"alice:\tsha256:{digest('second').hex()} chars_per_minute=20000 utterances=4",
        "bob: third",
        "fourth utterances=1",
    ]
    alice = Grant("alice", 4, 20_000)
    assert grants(lines) == {
        digest("plain"): Grant(),
        digest("name:with-colon"): Grant(),
        digest("hashed"): Grant(),
        digest("first"): alice,
        digest("second"): alice,
        digest("third"): Grant("bob"),
        digest("fourth"): Grant("", 1),
    }


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["sha256:abcd"], "line 1: sha256: needs 64 hex digits"),
        (["ok", "secret word"], "line 2: after the key only utterances=N or chars_per_minute=N"),
        (["secret utterance=4"], "after the key only"),
        (["secret utterances=1 utterances=2"], "each once"),
        (["secret utterances=0"], "utterances must be a whole number from 1"),
        (["secret utterances=-1"], "whole number"),
        (["secret utterances=1e3"], "whole number"),
        (["secret chars_per_minute="], "chars_per_minute must be"),
        (["a/b: secret"], "a name has 1 to 32"),
        (["n" * 33 + ": secret"], "a name has 1 to 32"),
        (["sha256: " + "0" * 64], "a name has 1 to 32"),
        (["secret", "secret utterances=1"], "line 2: the same key twice"),
        (["a: secret utterances=1", "a: other"], r"keys of one name \(a\) share their limits"),
    ],
)
def test_a_wrong_line_is_told_without_the_key(lines: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        grants(lines)
    assert "secret" not in str(caught.value)


def test_a_made_line_opens_the_door() -> None:
    keys = Keys(grants([line_of("sesame", "alice"), line_of("open")]))
    assert keys.digest("sesame") == digest("sesame")
    assert keys.digest("open") == digest("open")
    assert [account.grant.name for account in keys.named] == ["alice"]
    with pytest.raises(ValueError, match="a name has"):
        line_of("sesame", "al ice")


def refusal(account: Account, chars: int, now: float, *, open_: bool = True) -> Refusal | None:
    try:
        if open_:
            account.open("u", chars, 0, now)
        else:
            account.take("u", chars, now)
    except Refusal as refused:
        return refused
    return None


def test_characters_a_minute_come_back_with_time() -> None:
    account = Account("s", Grant(chars_per_minute=600))  # ten a second
    assert refusal(account, 500, 0.0) is None
    assert refusal(account, 200, 0.0) is None  # with credit left it comes in
    refused = refusal(account, 1, 0.0)
    assert refused
    assert (refused.code, refused.limit) == ("rate_limited", "key_chars_per_minute")
    assert refused.retry_ms
    assert refusal(account, 1, refused.retry_ms / 1000 - 0.2)
    assert refusal(account, 1, refused.retry_ms / 1000) is None
    assert refusal(account, 600, 1000.0) is None  # a full minute's worth and no more
    assert refusal(account, 1, 1000.0)


def test_who_speaks_may_run_over_by_as_much_again() -> None:
    account = Account("s", Grant(chars_per_minute=600))
    assert refusal(account, 600, 0.0) is None
    assert refusal(account, 600, 0.0, open_=False) is None
    refused = refusal(account, 10, 0.0, open_=False)
    assert refused
    assert (refused.code, refused.retry_ms) == ("rate_limited", 1000)
    assert refusal(account, 10, 1.0, open_=False) is None
    assert account.chars == 1210


def test_a_text_that_can_never_fit_is_too_large() -> None:
    account = Account("s", Grant(chars_per_minute=10))
    refused = refusal(account, 21, 0.0)
    assert refused
    assert (refused.code, refused.retry_ms) == ("too_large", None)


def test_a_reload_keeps_what_was_used() -> None:
    keys = Keys(grants(["a: one chars_per_minute=600", "two"]))
    account = keys.account(digest("one"))
    assert account
    account.open("u", 1000, 0, 0.0)
    keys.replace(grants(["a: one chars_per_minute=60", "a: three chars_per_minute=60"]))
    assert keys.account(digest("one")) is keys.account(digest("three")) is account
    assert account.grant.chars_per_minute == 60
    assert keys.account(digest("two")) is None
    assert keys.digest("two") is None


LIMITED = grants(["small: key utterances=2 chars_per_minute=100", "other"])


@asynchronous
async def test_a_keys_utterances_are_counted_over_its_connections() -> None:
    async with (
        gateway(keys=LIMITED) as server,
        peer(server, **as_key("key")) as first,
        peer(server) as second,
        peer(server, **as_key("other")) as other,
    ):
        ready = await first.next()
        assert ready["limits"]["key_utterances"] == 2
        assert ready["limits"]["key_chars_per_minute"] == 100
        assert "key_utterances" not in (await other.next())["limits"]
        await second.send(type="hello", token="key")
        assert (await second.next())["limits"]["key_utterances"] == 2
        await first.speak("a")
        await first.until("started")
        await second.speak("b")
        await second.until("started")
        await second.speak("c")
        error = (await second.until("error"))[-1]
        assert (error["code"], error["limit"]) == ("too_many", "key_utterances")
        assert (error["utterance"], error["fatal"]) == ("c", False)
        await first.send(type="cancel")
        await first.until("done")
        await second.speak("c")
        await second.until("started", utterance="c")
        for name in ("a", "b", "c"):
            await other.speak(name)
            await other.until("started", utterance=name)


@asynchronous
async def test_a_key_over_its_characters_waits_with_the_next_utterance() -> None:
    async with gateway(keys=LIMITED) as server, peer(server, **as_key("key")) as client:
        await client.speak("a", "x" * 60, end=True)
        await client.until("done", reason="eos")
        await client.speak("b", "x" * 60)
        await client.speak("c", "x")
        error = (await client.until("error"))[-1]
        assert (error["code"], error["utterance"]) == ("rate_limited", "c")
        assert error["limit"] == "key_chars_per_minute"
        assert 10_000 < error["retry_ms"] <= 13_000
        await client.send(type="text", utterance="b", text="x" * 70)  # runs over, and goes on
        await client.send(type="text", utterance="b", text="x" * 70)
        error, done = (await client.until("done"))[-2:]
        assert (error["code"], error["utterance"], done["reason"]) == ("rate_limited", "b", "error")
        assert await client.alive()
        _, _, body = await http(server, "GET", "/metrics")
        samples = {
            (s.name, *s.labels.values()): s.value
            for family in text_string_to_metric_families(body.decode())
            for s in family.samples
        }
        assert samples["vivavoce_key_utterances_total", "small"] == 2
        assert samples["vivavoce_key_chars_total", "small"] == 190
        assert b"other" not in body


@asynchronous
async def test_a_key_taken_away_closes_its_connections() -> None:
    async with (
        gateway(keys=LIMITED) as server,
        peer(server, **as_key("key")) as gone,
        peer(server, **as_key("other")) as stays,
    ):
        await gone.speak("a", "so it goes on and on")
        await gone.until("audio")
        await stays.speak("b", "so it goes on and on")
        await stays.until("audio")
        server.keys.replace(grants(["other", "new"]))
        code, seen = await gone.closed()
        assert (code, seen[-1]["code"], seen[-1]["fatal"]) == (4401, "unauthorized", True)
        assert await stays.alive()
        async with peer(server, **as_key("key")) as client:
            assert (await client.closed())[0] == 4401
        async with peer(server, **as_key("new")) as client:
            assert (await client.next())["type"] == "ready"
        await stays.send(type="cancel")
        await stays.until("done")
        await server.engines.idle.wait()


@asynchronous
async def test_a_key_taken_away_opens_nothing_until_the_next_look() -> None:
    async with gateway(keys=LIMITED) as server, peer(server, **as_key("key")) as client:
        await client.until("ready")
        server.keys.replace(grants(["other"]))
        await client.speak("a", "Hi", end=True)
        code, (error,) = await client.closed()
        assert (code, error["code"]) == (4401, "unauthorized")
