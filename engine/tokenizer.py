"""Text to ids: the Qwen2 byte-level BPE of a checkpoint folder (model.md 7). Knows plain text only.

Control ids are named by `special` and never come out of `encode`: the engine puts them where they
belong, and text that spells `<|im_end|>` is just those characters.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, models, normalizers, pre_tokenizers

# model.md 7.2: the standard Qwen2 split.
SPLIT = "|".join(
    [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",  # English contractions
        r"[^\r\n\p{L}\p{N}]?\p{L}+",  # letters, with one character before them
        r"\p{N}",  # digits, one by one
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",  # punctuation
        r"\s*[\r\n]+",
        r"\s+(?!\S)",  # spaces, without the last one before a word
        r"\s+",
    ]
)
VOCAB, MERGES, CONFIG = "vocab.json", "merges.txt", "tokenizer_config.json"
_SURROGATE = re.compile("[\ud800-\udfff]")


class Tokenizer:
    def __init__(self, bpe: models.BPE, special: dict[str, int]) -> None:
        split = pre_tokenizers.Split(Regex(SPLIT), "isolated")
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._split = split
        self._tokenizer = tokenizers.Tokenizer(bpe)
        self._tokenizer.normalizer = normalizers.NFC()
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
        self.special = special

    @classmethod
    def load(cls, folder: str | Path) -> Tokenizer:
        """Read vocab.json, merges.txt and the added tokens of tokenizer_config.json.

        Raises OSError for a file that cannot be read, ValueError for one that cannot be used.
        """
        folder = Path(folder)
        for name in (VOCAB, MERGES):
            if not (folder / name).is_file():
                raise FileNotFoundError(f"{name} is missing")
        try:
            bpe = models.BPE.from_file(str(folder / VOCAB), str(folder / MERGES))
        except Exception as error:  # the library raises bare Exception
            raise ValueError(f"{VOCAB} and {MERGES} are not a byte-level BPE: {error}") from error
        tokenizer = cls(bpe, _added(folder / CONFIG))
        if lacking := set(pre_tokenizers.ByteLevel.alphabet()) - tokenizer.vocab.keys():
            raise ValueError(f"{VOCAB} lacks {len(lacking)} of the 256 bytes: {sorted(lacking)}")
        return tokenizer

    @property
    def vocab_size(self) -> int:
        """One more than the greatest id, control ids included."""
        return 1 + max(*self.vocab.values(), *self.special.values())

    @property
    def vocab(self) -> dict[str, int]:
        """Plain text's {token: id}."""
        found: dict[str, int] = self._tokenizer.get_vocab()
        return found

    def encode(self, text: str) -> list[int]:
        """Ids of plain text."""
        ids: list[int] = self._tokenizer.encode(_valid(text), add_special_tokens=False).ids
        return ids

    def pretokens(self, text: str) -> list[tuple[int, int]]:
        """Spans of NFC text in characters that the split makes; no token reaches over a cut."""
        return [span for _, span in self._split.pre_tokenize_str(_valid(text))]


def write(trained: tokenizers.Tokenizer, folder: str | Path) -> None:
    """Lay a trained byte-level BPE out as a checkpoint folder does."""
    folder = Path(folder)
    whole: dict[str, Any] = json.loads(trained.to_str())
    added = {token["content"]: token["id"] for token in whole["added_tokens"]}
    vocab = {token: i for token, i in whole["model"]["vocab"].items() if token not in added}
    merges = [m if isinstance(m, str) else " ".join(m) for m in whole["model"]["merges"]]
    config = {
        "add_prefix_space": False,
        "added_tokens_decoder": {str(i): _token(content) for content, i in added.items()},
        "tokenizer_class": "Qwen2Tokenizer",
    }
    (folder / VOCAB).write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    (folder / MERGES).write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    listing = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / CONFIG).write_text(listing, encoding="utf-8")


def _token(content: str) -> dict[str, Any]:
    flags = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    return {"content": content, **flags, "special": True}


def _added(path: Path) -> dict[str, int]:
    """{content: id} of the control tokens; none when there is no such file."""
    if not path.is_file():
        return {}
    try:
        decoder = json.loads(path.read_text(encoding="utf-8")).get("added_tokens_decoder", {})
        return {token["content"]: int(i) for i, token in decoder.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{CONFIG} does not list its added tokens: {error!r}") from error


def _valid(text: str) -> str:
    """Half a surrogate pair is no character and has no bytes: it becomes U+FFFD, in place."""
    return _SURROGATE.sub("\ufffd", text)
