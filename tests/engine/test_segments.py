from __future__ import annotations

import pytest

from engine.engine import sentences
from engine.segments import SegmentPolicy, group_end, sentence_ends
from engine.text import speech_seconds

POLICY = SegmentPolicy()
ENGLISH = sentences("english")


@pytest.mark.parametrize(
    "text",
    [
        "It costs 3.14 for Dr. Lee in the U.S. army, e.g. now",
        "See https://a.example.com/x.html?y=1.5 for it",
        "Wait... maybe not",
        "At 5 p.m. Mr. Smith called",
    ],
)
def test_no_end_inside(text: str) -> None:
    assert sentence_ends(text, ENGLISH, complete=False) == []


def test_an_end_needs_something_behind_it() -> None:
    assert sentence_ends("It costs 3.", ENGLISH, complete=False) == []
    assert sentence_ends("It costs 3. ", ENGLISH, complete=False) == []
    assert sentence_ends("It costs 3.", ENGLISH, complete=True) == [11]
    assert sentence_ends("Yes. No", ENGLISH, complete=False) == [4]


@pytest.mark.parametrize(
    ("language", "text", "first"),
    [
        ("chinese", "你好。今天天气很好！", "你好。"),
        ("japanese", "これはテストです。次の文", "これはテストです。"),
        ("german", "Das kostet z. B. 3 Euro. Gut so", "Das kostet z. B. 3 Euro."),
        ("spanish", "¿Cómo estás? Bien, gracias", "¿Cómo estás?"),
        ("russian", "Привет. Как дела", "Привет."),
        ("french", "Bonjour M. Dupont. Ça va", "Bonjour M. Dupont."),
        ("korean", "안녕하세요. 반갑습니다", "안녕하세요."),
        ("italian", "Buongiorno. Come va", "Buongiorno."),
        ("portuguese", "Bom dia. Tudo bem", "Bom dia."),
        ("auto", "Hello. More", "Hello."),
    ],
)
def test_sentence_ends_in_every_language(language: str, text: str, first: str) -> None:
    assert sentence_ends(text, sentences(language), complete=False)[0] == len(first)


def test_sentences_are_grouped_up_to_twelve_seconds() -> None:
    text = "This is one sentence of some length. " * 20
    end, full = group_end(text, ENGLISH, True, POLICY)
    assert full
    assert text[:end].endswith("length.")
    assert 9 < speech_seconds(text[:end]) <= POLICY.segment_seconds


def test_a_group_that_could_grow_says_so() -> None:
    assert group_end("One. Two. And thr", ENGLISH, False, POLICY) == (9, False)
    assert group_end("One. Two.", ENGLISH, True, POLICY) == (9, True)
    assert group_end("One more", ENGLISH, False, POLICY) is None


def test_one_long_sentence_is_cut_at_the_clause_else_the_word_nearest_to_twelve_seconds() -> None:
    words = "we went on and on over hill and dale "
    with_comma = words * 5 + "until noon, then " + words * 12
    end, full = group_end(with_comma, ENGLISH, False, POLICY)
    assert full
    assert with_comma[:end].endswith("until noon,")
    plain = words * 12
    end, _ = group_end(plain, ENGLISH, False, POLICY)
    assert plain[end] == " "
    assert abs(speech_seconds(plain[:end]) - POLICY.segment_seconds) < 0.5
    unbroken = "天" * 100
    end, _ = group_end(unbroken, sentences("chinese"), False, POLICY)
    assert abs(speech_seconds(unbroken[:end]) - POLICY.segment_seconds) < 0.3
