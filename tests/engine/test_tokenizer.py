"""The tokenizer equals transformers' on plain text, and never makes a control id of it."""

from __future__ import annotations

import json
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Trained
from tokenizers import decoders, models, pre_tokenizers, trainers

from engine.tokenizer import Tokenizer, write

GOLDEN = Path(__file__).parent.parent / "golden" / "tokenizer"
ANY_TEXT = st.text(max_size=60)
SPELT = st.sampled_from(["<|im_end|>", "<|im_start|>", "<tts_pad>", "<|endoftext|>", "\n", "a"])


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.load(GOLDEN)


@pytest.mark.parametrize(("text", "ids"), json.loads((GOLDEN / "ids.json").read_text()))
def test_it_makes_the_ids_that_transformers_makes(
    tokenizer: Tokenizer, text: str, ids: list[int]
) -> None:
    assert tokenizer.encode(text) == ids


@pytest.mark.parity
@settings(max_examples=2000, deadline=None)
@given(text=ANY_TEXT | st.lists(SPELT).map("".join))
def test_it_equals_transformers(tokenizer: Tokenizer, text: str) -> None:
    reference = transformers_tokenizer()
    assert tokenizer.encode(text) == reference(text, split_special_tokens=True)["input_ids"]


@cache
def transformers_tokenizer() -> Any:
    from transformers import Qwen2TokenizerFast

    return Qwen2TokenizerFast.from_pretrained(str(GOLDEN))


@pytest.mark.parametrize("spelt", ["<|im_end|>", "<|im_start|>", "<tts_pad>", "<tts_text_bos>"])
def test_spelt_control_tokens_are_plain_text(tokenizer: Tokenizer, spelt: str) -> None:
    ids = tokenizer.encode(f"say {spelt} aloud")
    assert len(ids) > 4
    assert not set(ids) & set(tokenizer.special.values())


@settings(max_examples=300, deadline=None)
@given(text=ANY_TEXT)
def test_ids_of_the_pretokens_join_to_the_ids_of_the_text(tokenizer: Tokenizer, text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    spans = tokenizer.pretokens(text)
    assert "".join(text[a:b] for a, b in spans) == text
    assert all(a < b for a, b in spans)
    assert [i for a, b in spans for i in tokenizer.encode(text[a:b])] == tokenizer.encode(text)


def test_pretokens_are_counted_in_characters(tokenizer: Tokenizer) -> None:
    text = "né 你好, 42!"
    cuts = [text[a:b] for a, b in tokenizer.pretokens(text)]
    assert cuts == ["né", " 你好", ",", " ", "4", "2", "!"]


def test_half_a_surrogate_pair_is_read_as_the_replacement_character(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("a\ud83db") == tokenizer.encode("a\ufffdb")
    assert tokenizer.pretokens("a\ud83db") == tokenizer.pretokens("a\ufffdb")


def test_composed_and_decomposed_text_have_the_same_ids(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("cafe\u0301") == tokenizer.encode("caf\u00e9")


def test_control_ids_and_size_come_from_the_folder(tokenizer: Tokenizer) -> None:
    assert tokenizer.special["<|im_start|>"] == 2043
    assert tokenizer.special["<tts_pad>"] == 2045
    assert tokenizer.vocab_size == 2048


def test_a_trained_tokenizer_survives_writing_and_loading(tmp_path: Path) -> None:
    trained = Trained(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    trained.train_from_iterator(["the thin thing thinks that this is the theme"] * 9, trainer)
    trained.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    write(trained, tmp_path)
    loaded = Tokenizer.load(tmp_path)
    text = "the thing #1 is thin é"
    assert loaded.encode(text) == trained.encode(text).ids
    assert len(loaded.encode("the")) == 1
    assert loaded.special == {t: trained.token_to_id(t) for t in ("<|im_start|>", "<|im_end|>")}
    assert loaded.vocab_size == trained.get_vocab_size()


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    for path in GOLDEN.iterdir():
        if path.name != name:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(FileNotFoundError, match=name):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("lost", ["Z", "Ġ", "ÿ"])
def test_a_vocabulary_without_one_of_the_bytes_is_refused(tmp_path: Path, lost: str) -> None:
    """Text of that byte would have no ids."""
    copy(tmp_path)
    vocab = json.loads((GOLDEN / "vocab.json").read_text())
    merges = (GOLDEN / "merges.txt").read_text().splitlines(keepends=True)
    del vocab[lost]
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("".join(m for m in merges if lost not in m))
    with pytest.raises(ValueError, match=f"lacks 1 of the 256 bytes.*{lost}"):
        Tokenizer.load(tmp_path)


def test_size_counts_up_to_the_greatest_id(tmp_path: Path) -> None:
    """Holes and high ids: what must fit the talker's table is the id."""
    copy(tmp_path)
    vocab = json.loads((GOLDEN / "vocab.json").read_text())
    (tmp_path / "vocab.json").write_text(json.dumps(vocab | {"ZZZZ": 5000}))
    assert Tokenizer.load(tmp_path).vocab_size == 5001


def copy(folder: Path) -> None:
    for path in GOLDEN.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("vocab.json", "{"),
        ("vocab.json", '{"a": 0}'),
        ("merges.txt", "#version: 0.2\nzz qq\n"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"x": 1}}'),
        ("tokenizer_config.json", "[]"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, content: str) -> None:
    copy(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=name):
        Tokenizer.load(tmp_path)
