"""Cleaning in an utterance: what the engine is given, and what is counted and told."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine import messages as engine
from gateway import english
from gateway.config import Limits
from gateway.script import PIECES, Script

from .house import asynchronous, audio_of, gateway, peer
from .test_session import Table, frame, opened

WARNING = {"type": "warning", "code": "cleaned", "utterance": "u"}


def said(table: Table) -> str:
    """What the engine has been given since the last look."""
    return "".join(c.text for c in table.commands() if isinstance(c, engine.Text | engine.Speak))


def test_the_engine_is_given_what_is_said() -> None:
    table = Table()
    opened(table)
    for delta in ("This is *ita", "lic* and [a li", "nk](http", "s://a.b/c) 🎉", "."):
        assert table.say("text", utterance="u", text=delta) == []
    assert said(table) == "This is italic and a link."


def test_off_gives_it_as_it_comes() -> None:
    table = Table()
    opened(table, clean="off")
    for delta in ("*a* ", "", " 🎉\n"):
        table.say("text", utterance="u", text=delta)
    assert said(table) == "*a*  🎉\n"


def test_the_text_of_speak_is_cleaned_too() -> None:
    whole, open_ended = Table(), Table()
    whole.speak(text="**All** of it (", end=True)
    open_ended.speak(text="**Some** of it (")
    assert (said(whole), said(open_ended)) == ("All of it (", "Some of it")


def test_flush_end_and_a_forgotten_end_give_what_is_held() -> None:
    for kind, last in (("flush", engine.Flush(1, 1)), ("end", engine.End(1)), ("", engine.End(1))):
        table = Table(Limits(text_seconds=5))
        opened(table, text="I <")
        if kind:
            table.say(kind, utterance="u")
        else:
            table.tick(5.1)
        assert table.commands() == [engine.Text(1, " <"), last]


def test_text_of_which_nothing_is_said_reaches_nobody() -> None:
    table = Table(Limits(pending_text_chars=10))
    opened(table)
    table.say("text", utterance="u", text="🎉" * 20)
    assert table.commands() == []
    assert table.session.may_read


def test_progress_and_what_is_pending_count_the_clients_characters() -> None:
    table = Table()
    opened(table, progress=True)
    raw = "This is *important* stuff."
    table.say("text", utterance="u", text=raw)
    utterance = table.session.live["u"]
    assert utterance.pending_chars == len(raw)
    (told,) = table.event(engine.Progress(1, len("This is important"), 0))
    assert told["chars"] == len("This is *important*")
    assert utterance.pending_chars == len(" stuff.")
    table.event(engine.Progress(1, len("This is important stuff."), 0))
    table.say("text", utterance="u", text=" 🎉 ***")
    assert utterance.pending_chars == len("***")  # not decided yet


def test_words_that_are_left_out_are_told_once() -> None:
    table = Table()
    opened(table)
    assert (
        table.say("text", utterance="u", text="So: **this** 🎉\n```\n")[0].items() > WARNING.items()
    )
    assert table.say("text", utterance="u", text="x\n```\n(sighs) Done.") == []
    assert said(table) == "So: this\n\nDone."
    table.event(frame(0))
    table.say("cancel", utterance="u")
    (warning,) = table.speak(text="(laughs) Oh.")
    assert "stage directions" in warning["message"]
    assert table.speak("v", text="(laughs) Oh.", clean="off") == []


def test_both_texts_are_kept_however_many_pieces() -> None:
    script = Script(clean=True)
    raw = "*a* 🎉 b " * PIECES
    for c in raw:
        script.hear(c)
    script.rest()
    assert script.raw == raw
    assert script.pushed == ("a b " * PIECES).rstrip()
    assert script.origin(len(script.pushed)) == len(raw)


@asynchronous
async def test_a_markdown_answer_is_spoken_in_pieces() -> None:
    answer = "# One\n- **two** three\n- [four](https://a.b)\n```\ncode code code\n```\n🎉 five"
    async with gateway() as server, peer(server) as client:
        for name, clean, words in (("a", "auto", 5), ("b", "off", len(answer.split()))):
            await client.speak(name, clean=clean)
            for i in range(0, len(answer), 3):
                await client.send(type="text", utterance=name, text=answer[i : i + 3])
            await client.send(type="end", utterance=name)
            seen = await client.until("done", utterance=name)
            assert len(audio_of(seen, name)) == 3 * words
            warnings = [m["code"] for m in seen if m["type"] == "warning"]
            assert warnings == (["cleaned"] if clean == "auto" else [])


@asynchronous
async def test_f13_only_marks_and_emoji_are_empty_and_no_error() -> None:
    async with gateway() as server, peer(server) as client:
        for number, text in enumerate(
            ("🎉👨‍👩‍👧", "** **", "```\nx = 1\n```", " \n\t", "<!-- x -->")
        ):
            await client.speak(f"u{number}", text, end=True)
            seen = await client.until("done")
            assert all(m["type"] != "error" for m in seen)
            assert (seen[-1]["reason"], seen[-1]["samples"]) == ("empty", 0)


MIXED = st.lists(
    st.sampled_from(
        [
            "It is ",
            "**5",
            "**",
            " pm",
            "`3",
            ":45`",
            " $2",
            ".50",
            "\n- ",
            "Dr. ",
            "May ",
            "1,",
            "000",
            " and ",
        ]
    )
).map("".join)


@settings(deadline=None)  # the grammars are read once
@given(MIXED, st.data())
def test_cleaned_and_spelled_for_every_split_the_same(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    whole, pieces = Script(True, english.say), Script(True, english.say)
    expected = whole.hear(text) + whole.rest()
    deltas = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(map(pieces.hear, deltas)) + pieces.rest() == expected
    for script in (whole, pieces):
        origins = [script.origin(n) for n in range(len(expected) + 1)]
        assert origins == sorted(origins)
        assert origins[-1] == len(text)
        heard, remaining = script.split(len(expected) // 2)
        assert heard + remaining == text


def test_numbers_in_markup_are_spelled() -> None:
    script = Script(True, english.say)
    said = script.hear("It costs **$5.20** at `3:45 pm`, ") + script.hear("see?") + script.rest()
    assert said == "It costs five dollars and twenty cents at three forty five PM, see?"
    assert script.split(len("It costs five dollars and")) == (
        "It costs ",
        "**$5.20** at `3:45 pm`, see?",
    )
