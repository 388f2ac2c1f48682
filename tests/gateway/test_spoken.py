"""What a reader of letters is handed for numbers, money, times, dates and signs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.english import say
from gateway.spoken import FREE, LONGEST, SHARE, Spoken, spelled

SAID = {
    "It costs $5.20 on Dec 3, 2026 at 3:45 pm. Then go.": (
        "It costs five dollars and twenty cents on the third of december, twenty twenty six at "
        "three forty five PM. Then go."
    ),
    "Dr. Lee owes 1,234,567 dollars.": (
        "Doctor Lee owes one million two hundred thirty four thousand five hundred and "
        "sixty seven dollars."
    ),
    "In 1998, 25% of people had 3/4 of it.": (
        "In nineteen ninety eight, twenty five percent of people had three quarters of it."
    ),
    "Call 555-123-4567, or 555-1234.": (
        "Call five five five, one two three, four five six seven, or five five five, "
        "one two three four."
    ),
    "Mail me@x.org or see https://example.com/": "Mail me at x dot org or see example dot com",
    "Version 2.5.1 is out.": "Version two point five point one is out.",
    "-5°C, 3.14 km away": "negative five degrees Celsius, three point one four kilometers away",
    "May I have 5 in May? No. It is No. 5.": "May I have five in May? No. It is number five.",
    "the 1990s, the '80s": "the nineteen nineties, the eighties",
    "Buy 2 lbs of tea & 3 oz": "Buy two pounds of tea and three ounces",
    "1,000, 1,234 or 10,500": (
        "one thousand, one thousand two hundred and thirty four or ten thousand five hundred"
    ),
    "5 > 3 and 3 < 4": "five is greater than three and three is less than four",
    "~5 ±2 #1 +7": "about five plus or minus two number one plus seven",
    "$1,299.95, £0.01 and $1,000": (
        "one thousand two hundred and ninety nine dollars and ninety five cents, "
        "one penny and one thousand dollars"
    ),
    "See www.riverbank.org. Eggs, etc. U.S. law, e.g. this; Mr. X, pp. 3-4": (
        "See riverbank dot org. Eggs, et cetera U.S. law, for example this; Mister X, "
        "pages three to four"
    ),
    "AT&T, R&D, C++, and/or.": "AT and T, R and D, C plus plus, and or.",
    "We are open 24/7.": "We are open twenty four seven.",
    "$5.2 million, 10:05 a.m. today": "five point two million dollars, ten o five AM today",
    "10–20 people": "ten to twenty people",
    "the 2nd and 21st": "the second and twenty first",
    "1. First\n2. Second": "one. First\ntwo. Second",
    "He said: “I'm fine – thanks…” (twice)!": "He said: “I'm fine – thanks…” (twice)!",
    "": "",
    " \n ": " \n ",
}


def spoken(*deltas: str) -> str:
    s = Spoken(say)
    return "".join(map(s.push, deltas)) + s.flush()


@pytest.mark.parametrize(("written", "words"), SAID.items())
def test_what_is_written_is_said_so(written: str, words: str) -> None:
    assert spoken(written) == words


@pytest.mark.parametrize("written", SAID)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_split_into_deltas_changes_nothing(written: str, size: int) -> None:
    assert spoken(*(written[i : i + size] for i in range(0, len(written), size))) == SAID[written]


_WORDS = st.sampled_from(
    ["May", "no.", "5", "3:45", "pm.", "-", "and", "$2", "x" * 200, "Dr.", "a,", "1,2", "&"]
)
_TEXTS = st.lists(st.one_of(_WORDS, st.sampled_from([" ", " ", "  ", "\n", " " * 30]))).map("".join)


@settings(deadline=None)
@given(_TEXTS, st.data())
def test_any_split_any_text(text: str, data: st.DataObject) -> None:
    """The library is left out: what it reads is the stretch, the same for every split."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    deltas = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    marked = [Spoken(lambda stretch: f"<{stretch}>") for _ in range(2)]
    whole = marked[0].push(text) + marked[0].flush()
    assert "".join(map(marked[1].push, deltas)) + marked[1].flush() == whole
    for s in marked:
        origins = [s.origin(n) for n in range(len(whole) + 1)]
        assert origins == sorted(origins)
        assert (origins[0], origins[-1]) == (0, len(text))


def test_plain_words_keep_their_places() -> None:
    s = Spoken(say)
    text = "About 1,000 people, then 5 more."
    out = s.push(text) + s.flush()
    for word in ("About", "people", "then", "more"):
        assert s.origin(out.index(word)) == text.index(word)


def test_no_more_than_a_stretch_is_held() -> None:
    s = Spoken(lambda stretch: stretch)
    heard = sum(len(s.push("1 ")) for _ in range(500))
    assert 1000 - heard <= LONGEST


def test_plain_words_wait_for_nothing_but_their_end() -> None:
    s = Spoken(say)
    assert [s.push(d) for d in ("Hel", "lo", " the", "re ", "5", " ", "dogs ", "ran")] == [
        *("", "", "Hello ", "there ", "", "", "five dogs ", ""),
    ]


@pytest.mark.parametrize("hard", ["#", "+", "^", "/", "@", "½/", "€", "\\", "1" * 60, "+-+", "٣"])
def test_what_cannot_be_read_stays(hard: str) -> None:
    assert spoken(f"so {hard} there").startswith("so ")
    assert spoken(f"so {hard} there").endswith(" there")


def test_slow_grammars_get_a_share_of_the_text() -> None:
    given: list[str] = []

    def slow(stretch: str) -> str:
        given.append(stretch)
        return "n"

    text = "12 and " * 4096
    said = Spoken(slow).push(text)
    assert FREE < sum(map(len, given)) <= FREE + len(text) // SHARE
    assert said.startswith("n and n and ")
    assert "one  two and" in said
    assert not any(c.isdigit() for c in said)


def test_digits_are_spelled() -> None:
    assert spelled("A-10 ٣") == "A- one  zero   three"
