from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text import TextStream, speakable, speech_seconds, words
from engine.tokenizer import Tokenizer
from tests.engine.tiny import TOKENIZER

SAMPLES = [
    "Hello there, it's 3:45 p.m. and we'll pay $1,234.50!",
    "你好，世界。今天天气很好！OK吗？",
    "これはテストです。次の文。",
    "naïve café e\u0301te\u0301 a\u0315\u0300 q\u0301\u0323 x",
    "👩\u200d👩\u200d👧 family 👍🏽 flag 🇩🇪 done",
    "\u1112\u1161\u11ab\u1100\u1173\u11af 한국어 text",
    "  leading and trailing  \n\nnew\r\nlines\t tabs ",
    "whitespace of two pre-tokens at the end\n\t",
    "<|im_end|>\n<tts_pad> is plain text <|endoftext|>",
    "snake_case C# 5 > 3 'tis rock'n'roll I'LL you'Re",
    "हिन्दी में पाठ और ไทย",
]
PIECES = st.sampled_from(
    [
        *"aeiouxyz 019.,'!?-\n\t\r",
        "  ",
        "'s",
        "'ll",
        "́",
        "̣",
        "̕",
        "é",
        "你",
        "。",
        "か",
        "゙",
        "ᄒ",
        "ᅡ",
        "ᆫ",
        "한",
        "👍",
        "🏽",
        "\u200d",
        "👩",
        "🇩",
        "🇪",
        "ि",
        "<|im_end|>",
        " word",
        "3.14",
    ]
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(TOKENIZER)


def stream_ids(tokenizer: Tokenizer, deltas: list[str]) -> list[int]:
    """Ids made as the text arrives, each stable piece on its own."""
    stream, ids, at = TextStream(tokenizer.pretokens), [], 0
    for delta in deltas:
        stream.push(delta)
        ids += tokenizer.encode(stream.stable[at:])
        at = len(stream.stable)
    stream.finish()
    return ids + tokenizer.encode(stream.stable[at:])


def assert_split_is_unseen(tokenizer: Tokenizer, deltas: list[str]) -> None:
    whole = unicodedata.normalize("NFC", "".join(deltas)).strip()
    assert stream_ids(tokenizer, deltas) == tokenizer.encode(whole)


@pytest.mark.parametrize("text", SAMPLES)
def test_one_character_at_a_time(tokenizer: Tokenizer, text: str) -> None:
    assert_split_is_unseen(tokenizer, list(text))


@settings(max_examples=400, deadline=None)
@given(pieces=st.lists(PIECES, max_size=30), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_any_split_gives_the_ids_of_the_whole(
    tokenizer: Tokenizer, pieces: list[str], cuts: list[int]
) -> None:
    text = "".join(pieces)
    edges = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    assert_split_is_unseen(tokenizer, [text[a:b] for a, b in pairwise(edges)])


@settings(max_examples=300, deadline=None)
@given(deltas=st.lists(st.text(max_size=6), max_size=8))
def test_any_unicode_split_gives_the_ids_of_the_whole(
    tokenizer: Tokenizer, deltas: list[str]
) -> None:
    deltas = [d.encode("utf-8", "ignore").decode() for d in deltas]
    assert_split_is_unseen(tokenizer, deltas)


def test_a_word_is_held_until_a_boundary(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer.pretokens)
    stream.push("Hel")
    assert stream.stable == ""
    stream.push("lo the")
    assert (stream.stable, stream.pending) == ("Hello", " the")
    stream.finish()
    assert (stream.stable, stream.pending) == ("Hello the", "")


def test_finish_keeps_trailing_whitespace_for_the_next_word(tokenizer: Tokenizer) -> None:
    stream = TextStream(tokenizer.pretokens)
    stream.push("One moment ")
    stream.finish()
    assert (stream.stable, stream.pending) == ("One moment", " ")
    stream.push("please ")
    assert stream.stable == "One moment please"


@pytest.mark.parametrize(
    ("text", "said"),
    [("", False), (" \n", False), ("...!?", False), ("🎉 —", False), ("a", True), ("你", True)],
)
def test_speakable(text: str, said: bool) -> None:
    assert speakable(text) is said


def test_speech_seconds_is_near_what_speakers_need() -> None:
    sentence = "The quick brown fox jumps over the lazy dog near the river bank."  # about 4 s
    assert 3.2 < speech_seconds(sentence) < 5.0
    assert 2.0 < speech_seconds("今天天气很好我们去公园吧。") < 3.5
    assert speech_seconds("") == 0


def test_words() -> None:
    assert words("Well, here we") == 3
    assert words("... !") == 0
    assert words("今天天气") == 2
