"""Train the byte-level BPE: Qwen's split, a thousand ids, about two and a half characters each.

usage: python -m engine.voices.training.tokens CORPUS.txt.gz FOLDER
Writes vocab.json, merges.txt, tokenizer_config.json and the config files that go with them.
"""

from __future__ import annotations

import gzip
import random
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from engine import tokenizer
from engine.voices.training import sizes
from engine.voices.training.chat import written
from engine.voices.training.describe import describe, design


def train(lines: list[str]) -> Tokenizer:
    rng = random.Random(1)
    described = [describe(design(rng)[1], rng) for _ in range(len(lines) // 4)]
    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(tokenizer.SPLIT), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    trainer = trainers.BpeTrainer(
        vocab_size=sizes.WORDS - len(sizes.CONTROL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # The prompt's own words must be single ids.
    bpe.train_from_iterator([*lines, *described, *["assistant\n", "user\n"] * len(lines)], trainer)
    bpe.add_special_tokens(list(sizes.CONTROL))
    return bpe


def main() -> None:
    corpus, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(corpus, "rt", encoding="utf-8") as file:
        lines = [written(line) for line in file.read().split("\n")[:60_000]]
    tokenizer.write(train(lines), folder)
    sizes.write(folder)
    made = tokenizer.Tokenizer.load(folder)
    counts = [len(made.encode(line)) for line in lines[:2_000]]
    print(made.vocab_size, "ids;", sum(map(len, lines[:2_000])) / sum(counts), "characters an id")


if __name__ == "__main__":
    main()
