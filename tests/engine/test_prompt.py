"""Prompt layouts are those of model.md 4, row by row."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from engine import prompt
from engine.config import ModelConfig
from engine.prompt import Row
from engine.tokenizer import Tokenizer
from tests.engine.tiny import LANGUAGES, TOKENIZER, control, read_config

TTS_PAD, TTS_BOS, TTS_EOS = 2045, 2046, 2047
IM_START, IM_END = 2043, 2044
USER, ASSISTANT, NEWLINE = 321, 323, 198
PAD, BOS, THINK, NOTHINK, THINK_BOS, THINK_EOS = map(control, (2148, 2149, 2154, 2155, 2156, 2157))
ROLE = [Row(IM_START), Row(ASSISTANT), Row(NEWLINE)]
AUTO = [Row(TTS_PAD, i) for i in (NOTHINK, THINK_BOS, THINK_EOS)]
BEGIN = [Row(TTS_BOS, PAD)]


@cache
def config(kind: str = "voice_design", size: str = "1b7") -> ModelConfig:
    with TemporaryDirectory() as folder:
        return read_config(Path(folder), kind, size)


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.load(TOKENIZER)


def opening(
    c: ModelConfig, instruct: str = "", language: str = "auto", speaker: str = ""
) -> list[Row]:
    return prompt.opening(c, tokenizer().encode, instruct, language, speaker)


def tag(name: str) -> list[Row]:
    language = control((LANGUAGES | {"beijing": 2074, "sichuan": 2062})[name])
    return [Row(TTS_PAD, i) for i in (THINK, THINK_BOS, language, THINK_EOS)]


def speaker(production: int) -> list[Row]:
    return [Row(TTS_PAD, control(production))]


def described(instruct: str) -> list[Row]:
    ids = [IM_START, USER, NEWLINE, *tokenizer().encode(instruct), IM_END, NEWLINE]
    return [Row(i) for i in ids]


def test_the_worked_example_in_full() -> None:
    c = config()
    rows = opening(c, "A calm voice.") + prompt.full(c, [11, 12, 13])
    assert rows == [
        *described("A calm voice."),
        *[Row(IM_START), Row(ASSISTANT), Row(NEWLINE)],
        *[Row(TTS_PAD, NOTHINK), Row(TTS_PAD, THINK_BOS), Row(TTS_PAD, THINK_EOS)],
        Row(TTS_BOS, PAD),
        *[Row(11, PAD), Row(12, PAD), Row(13, PAD), Row(TTS_EOS, PAD), Row(TTS_PAD, BOS)],
    ]


def test_the_worked_example_in_stream() -> None:
    c = config()
    rows = opening(c, "A calm voice.") + prompt.stream(c, 11)
    assert rows == [*described("A calm voice."), *ROLE, *AUTO, *BEGIN, Row(11, BOS)]


def test_a_carried_prompt_holds_all_text_then_the_frames() -> None:
    assert prompt.carried(config(), [21, 22], [11], 3) == [
        *[Row(21, PAD), Row(22, PAD), Row(11, PAD), Row(TTS_EOS, PAD), Row(TTS_PAD, BOS)],
        *[Row(TTS_PAD, frame=0), Row(TTS_PAD, frame=1), Row(TTS_PAD, frame=2)],
    ]


def test_nothing_carried_is_full() -> None:
    assert prompt.carried(config(), [], [11, 12], 0) == prompt.full(config(), [11, 12])


@pytest.mark.parametrize("instruct", ["", "  ", "\n\t"])
def test_an_empty_description_has_no_rows(instruct: str) -> None:
    assert opening(config(), instruct) == [*ROLE, *AUTO, *BEGIN]


def test_a_description_is_stripped_so_that_no_newline_merges_with_the_role() -> None:
    assert opening(config(), "\n\n A voice.\n") == opening(config(), "A voice.")


def test_control_tokens_in_a_description_are_plain_text() -> None:
    rows = opening(config(), "A <|im_end|> voice.")
    assert rows[: -len(ROLE + AUTO + BEGIN)] == described("A <|im_end|> voice.")
    assert [r.text for r in rows].count(IM_END) == 1


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_language_has_its_tag(name: str) -> None:
    assert opening(config(), language=name) == [*ROLE, *tag(name), *BEGIN]


@pytest.mark.parametrize("name", ["German", "GERMAN", " german "])
def test_languages_are_case_insensitive(name: str) -> None:
    assert opening(config(), language=name) == [*ROLE, *tag("german"), *BEGIN]


@pytest.mark.parametrize("name", ["auto", "Auto", ""])
def test_auto_has_no_language(name: str) -> None:
    assert opening(config(), language=name) == [*ROLE, *AUTO, *BEGIN]


@pytest.mark.parametrize("kind", ["voice_design", "custom_voice"])
@pytest.mark.parametrize("name", ["klingon", "beijing_dialect"])
def test_an_unknown_language_is_refused_with_those_there_are(kind: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}.*auto.*chinese.*russian") as caught:
        opening(config(kind), language=name, speaker="ryan" if kind == "custom_voice" else "")
    assert "sichuan" not in str(caught.value)


def test_a_speaker_has_a_row_before_the_text() -> None:
    rows = opening(config("custom_voice"), "Sadly.", "english", "Ryan")
    assert rows == [*described("Sadly."), *ROLE, *tag("english"), *speaker(3061), *BEGIN]


@pytest.mark.parametrize(
    ("name", "language", "expected"),
    [
        ("eric", "auto", "sichuan"),
        ("eric", "Chinese", "sichuan"),
        ("dylan", "auto", "beijing"),
        ("Dylan", "chinese", "beijing"),
        ("dylan", "english", "english"),
        ("serena", "chinese", "chinese"),
    ],
)
def test_a_speaker_of_a_dialect_speaks_it(name: str, language: str, expected: str) -> None:
    ids = {"eric": 2875, "dylan": 2878, "serena": 3066}
    rows = opening(config("custom_voice"), "", language, name)
    assert rows == [*ROLE, *tag(expected), *speaker(ids[name.lower()]), *BEGIN]


def test_a_speaker_without_a_dialect_stays_auto() -> None:
    rows = opening(config("custom_voice"), "", "auto", "serena")
    assert rows == [*ROLE, *AUTO, *speaker(3066), *BEGIN]


def test_the_small_custom_voice_model_drops_the_description() -> None:
    c = config("custom_voice", "0b6")
    assert opening(c, "Sadly.", "auto", "ryan") == [*ROLE, *AUTO, *speaker(3061), *BEGIN]
    small = config("voice_design", "0b6")
    assert opening(small, "A voice.") == [*described("A voice."), *ROLE, *AUTO, *BEGIN]


@pytest.mark.parametrize("name", ["nobody", ""])
def test_an_unknown_speaker_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown speaker.*serena, ryan, eric, dylan"):
        opening(config("custom_voice"), speaker=name)


def test_a_designed_voice_has_no_speaker() -> None:
    with pytest.raises(ValueError, match="takes a description"):
        opening(config(), speaker="ryan")


def test_cloning_is_refused_plainly() -> None:
    with pytest.raises(ValueError, match=r"cloning is not here yet.*loaded model is base"):
        opening(config("base"))
