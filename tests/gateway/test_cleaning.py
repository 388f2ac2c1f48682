"""Cleaning alone: what is said of a text, in whatever pieces it comes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.cleaning import Cleaner
from gateway.cleaning.patterns import LOOK

SAID = {
    # Emphasis
    "This is *ita*lic and **bold** text.": "This is italic and bold text.",
    "***both*** and _so_, __Yes__.": "both and so, Yes.",
    "*outer (**inner**) x*": "outer (inner) x",
    '"*yes*", he said': '"yes", he said',
    "**Note:** it is ~~gone~~ here": "Note: it is gone here",
    "这是**重点**内容": "这是重点内容",
    "**open and never closed": "open and never closed",
    r"\*as it stands\*": "*as it stands*",
    "5 stars: ***** good": "5 stars: good",
    # What looks like it and is none
    "2 * 3 * 4 = 24": "2 * 3 * 4 = 24",
    "2*3 and 2**3, 2 ** 3": "2*3 and 2**3, 2 ** 3",
    "5 > 3 and 3 < 4": "5 > 3 and 3 < 4",
    "C# and F#, #1, #tag": "C# and F#, #1, #tag",
    "snake_case and __init__ and _x": "snake_case and __init__ and x",
    "a/b, ~5, $5.99, A*B, *.py, a<b": "a/b, ~5, $5.99, A*B, *.py, a<b",
    "#1 is the best": "#1 is the best",
    "AT&T, R&D": "AT&T, R&D",
    "-5 degrees\n+ 4 is more": "-5 degrees\n+ 4 is more",
    "arr[i] = x(y)": "arr[i] = x(y)",
    "Good! [x](y)": "Good! x",
    # Blocks
    "# Title\nText": "Title.\nText",
    "## What now?\nText": "What now?\nText",
    "### Title ###\nText": "Title.\nText",
    "Title\n=====\nText": "Title.\n\nText",
    "**Title**\n\nText": "Title.\n\nText",
    "# 标题\n文": "标题。\n文",
    "- one\n- two.\n* three\n+ four": "one.\ntwo.\nthree.\nfour",
    "1. one\n2) two\n   - three": "1. one.\n2. two.\nthree",
    "1984. That was it": "1984. That was it",
    "- [ ] to do\n- [x] done": "to do.\ndone",
    "> quoted\n>> twice": "quoted\ntwice",
    "a\n\n---\n\nb\n***\nc\n- - -\nd": "a\n\nb\n\nc\n\nd",
    "| A | B |\n|---|:-:|\n| 1 | -5 |\n": "A, B.\n\n1, -5.",
    # Code
    "Use `*args` and ``a`b``.": "Use *args and ab.",
    "So:\n```python\nprint('x')\n```\nDone.": "So:\n\nDone.",
    "So:\n~~~\nx\n```\n~~~\nDone.": "So:\n\nDone.",
    "````\n```\nx\n```\n````\nDone.": "Done.",
    "Never closed:\n```\nx = 1": "Never closed:",
    "```npm i``` does it": "npm i does it",
    # Links
    'See [the docs](https://a.b/c_(d) "t") now.': "See the docs now.",
    "[a **bold** one](x) and ![an image](y.png)": "a bold one and an image",
    "[text][ref] and [John] said": "text and John said",
    "参见[链接](https://a.cn)。": "参见链接。",
    "Go to https://www.example.com/a?b=1. Now": "Go to example.com. Now",
    "www.foo.org, (https://x.org/a_(b)); <https://y.org>": "foo.org, (x.org); y.org",
    "访问https://x.com/a。谢谢": "访问x.com。谢谢",
    "a fact [1], another[2, 3] or [^4].": "a fact, another or.",
    "[^1]: The note": "The note",
    # Symbols
    "Great! 🎉👨\u200d👩\u200d👧 Go": "Great! Go",
    "on👍🏽you 🇩🇪, ❤️.": "on you,.",
    "1️⃣ first": "1 first",
    "A→B ┌─┐ ✓ done": "A B done",
    "end.😀Next": "end. Next",
    "∞ ≤ ± °": "∞ ≤ ± °",
    "می\u200cخواهم क्\u200dष": "می\u200cخواهم क्\u200dष",
    # HTML
    "<b>bold</b> one<br>two <a href='x'>three</a>": "bold one\ntwo three",
    "<h2>Title</h2><p>Text</p>": "Title.\n\nText",
    "&lt;b&gt; &amp; &#233;&nbsp;x &bogus;": "<b> & é x &bogus;",
    "before <!-- hidden --> after": "before after",
    "your <name> here": "your <name> here",
    # Stage directions
    "*sighs* Well, (laughs softly) I [long pause] know.": "Well, I know.",
    "He *laughs* at me (see the laughs).": "He laughs at me (see the laughs).",
    "(pause the video) [music]": "(pause the video)",
    # Blanks
    "a  b\t c \r\n\n\n\nd": "a b c\n\nd",
}


def cleaned(text: str, size: int = 0) -> str:
    cleaner = Cleaner()
    pieces = [text[i : i + size] for i in range(0, len(text), size)] if size else [text]
    return "".join(map(cleaner.push, pieces)) + cleaner.flush()


@pytest.mark.parametrize("text", SAID)
def test_what_is_said(text: str) -> None:
    assert cleaned(text) == SAID[text]


@pytest.mark.parametrize("text", SAID)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_f20_pieces_of_any_size_say_the_same(text: str, size: int) -> None:
    assert cleaned(text, size) == SAID[text]


UNITS = """
** __ *** ``` ~~~ ~~ ~~~~ ](http://x.y/ https://www. www. |--- # ##  - 1. [1] [^a] (laughs) *sighs*
[pause] <b> </li> <br/> <!-- --> <a& &amp; word end. ![ [x] - - ===
""".split()
MARKUP = st.one_of(
    st.sampled_from("*_`#~[]()<>&!|\\-+=:.,1a hwé\n\t\"'🎉→\ufe0f\u200d中"),
    st.sampled_from(UNITS),
    st.text(max_size=3),
)


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.tuples(MARKUP, st.booleans()), max_size=40))
def test_f20_any_split_says_the_same(parts: list[tuple[str, bool]]) -> None:
    text = "".join(part for part, _ in parts)
    cleaner, said, delta = Cleaner(), [], ""
    for part, cut in parts:
        delta += part
        if cut:
            said.append(cleaner.push(delta))
            delta = ""
            assert cleaner.held <= LOOK
    said += [cleaner.push(delta), cleaner.flush()]
    assert "".join(said) == cleaned(text) == cleaned(text, 1)
    assert cleaner.held == 0


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(MARKUP, st.sampled_from(["", "push", "flush"])), max_size=40))
def test_each_cleaned_character_knows_where_it_came_from(parts: list[tuple[str, str]]) -> None:
    cleaner, raw, said, delta = Cleaner(), "", "", ""
    last = 0
    for part, what in [*parts, ("", "flush")]:
        delta, raw = delta + part, raw + part
        if what:
            said += cleaner.push(delta)
            delta = ""
        if what == "flush":
            said += cleaner.flush()
        assert last <= cleaner.origin(len(said)) <= len(raw)
        last = cleaner.origin(len(said))
    origins = [cleaner.origin(n) for n in range(len(said) + 1)]
    assert origins == sorted(origins)
    assert origins[-1] == len(raw)
    entities = "&" in raw
    for n, c in enumerate(said):
        if c.isalnum() and not entities:
            assert raw[origins[n]] == c


def test_the_place_of_a_word_is_behind_the_marks_before_it() -> None:
    cleaner = Cleaner()
    raw = "This is *important* stuff 🎉."
    said = cleaner.push(raw)
    assert said == "This is important stuff."
    assert raw[: cleaner.origin(len("This is important"))] == "This is *important*"
    assert raw[: cleaner.origin(len("This is "))] == "This is *"
    assert raw[: cleaner.origin(len("This is important stuff"))] == "This is *important* stuff 🎉"
    assert cleaner.origin(len(said)) == len(raw)


HOSTILE = [
    *("*", "_", "[", "](", "`", "#", "~", "<", "&", "|", "-", "!", "(", " ", "\n", "\\", "😀", "h"),
    *("[a](", "<a b", "<!--", "www.", "http://a.", "x.?", "* ", "](x", "a*", "__a", "&#1", "[1,"),
    *("(laughs ", "| - ", "**a ", "<b>", "```\n", "![", "> ", "- "),
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_nothing_is_held_beyond_the_look_ahead(unit: str) -> None:
    """Much of it, in no time that depends on more than its length."""
    text = unit * (200_000 // len(unit))
    whole, split = Cleaner(), Cleaner()
    said = whole.push(text)
    assert whole.held <= LOOK
    assert split.push(text[:50_001]) + split.push(text[50_001:]) == said


def test_prose_is_never_held() -> None:
    """What waits is an unfinished mark, so that a client's silence leaves no word unsaid."""
    cleaner = Cleaner()
    for text in ("I think", " so.", " It is *very", "* good!", " See [the docs", " (see the"):
        word = text.strip(" *[").split()[-1].split("*")[-1]
        assert cleaner.push(text).endswith(word)


def test_a_flush_decides_what_is_held_and_the_text_goes_on() -> None:
    cleaner = Cleaner()
    assert cleaner.push("Look at [this](https://a.b/") == "Look at this"
    assert cleaner.flush() == ""
    assert cleaner.push("c) now") == " now"
    assert cleaner.push(" 5 *") == " 5"
    assert cleaner.flush() == " *"


def test_words_that_are_left_out_are_told() -> None:
    for text in ("```\nx\n```\n", "<!-- x -->", "(sighs)"):
        assert cleaned_state(text).omitted
    for text in ("**a** [b](https://c.d) 🎉 `e`", "| a |\n|---|", "<b>x</b> [1]"):
        assert not cleaned_state(text).omitted


def cleaned_state(text: str) -> Cleaner:
    cleaner = Cleaner()
    cleaner.push(text)
    cleaner.flush()
    return cleaner


def test_a_stop_put_in_stands_before_the_blank_behind_its_line() -> None:
    cleaner = Cleaner()
    said = cleaner.push("- May \n- June\n") + cleaner.flush()
    origins = [cleaner.origin(n) for n in range(len(said) + 1)]
    assert said == "May.\nJune."
    assert origins == sorted(origins)
