"""Sentences for the teacher to read: WordNet's glosses and examples, and a chatbot's phrases.

usage: python -m engine.voices.training.corpus WORDNET OUT.txt.gz [SENTENCES]
WORDNET: the folder of WordNet 3.0's data files (Debian: /usr/share/wordnet of wordnet-base).
"""

from __future__ import annotations

import gzip
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.voices.training import chat

LONGEST = 130  # characters; about nine seconds
SPOKEN = re.compile(r"[A-Za-z0-9 ,.;:?!'\"$£€%&()/@#+=°|\[\]-]+")
PARTS = ("noun", "verb", "adj", "adv")


def glosses(folder: Path) -> Iterator[tuple[str, str]]:
    """(kind, sentence): kind is "example" or "definition"."""
    for part in PARTS:
        for line in (folder / f"data.{part}").read_text(encoding="latin-1").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            gloss = line.split("|", 1)[1]
            for quoted in re.findall(r'"([^"]+)"', gloss):
                yield "example", quoted
            bare = re.sub(r'"[^"]*"|\([^)]*\)', "", gloss).split(";")[0]
            yield "definition", bare


def lemmas(folder: Path) -> dict[str, list[str]]:
    """Words by part of speech that WordNet's own texts use, most used first."""
    words: dict[str, dict[str, int]] = {part: {} for part in PARTS}
    kinds = dict(zip("12345", ("noun", "verb", "adj", "adv", "adj"), strict=True))
    for line in (folder / "cntlist.rev").read_text(encoding="latin-1").splitlines():
        sense, _, count = line.split()
        lemma, _, rest = sense.partition("%")
        if re.fullmatch("[a-z]{3,12}", lemma):
            part = words[kinds[rest[0]]]
            part[lemma] = part.get(lemma, 0) + int(count)
    return {p: sorted(w, key=lambda x: (-w[x], x)) for p, w in words.items()}


def sentence(text: str) -> str | None:
    """`text` as a sentence, None when the teacher should not read it."""
    text = re.sub(r"(?<!\.)\.\.(?!\.)", ".", " ".join(text.split()).strip(" ,;:-"))
    if not 3 <= len(text) <= LONGEST or not SPOKEN.fullmatch(text) or not text[0].isprintable():
        return None
    text = text[0].upper() + text[1:]
    return text if text[-1] in '.?!")' else text + "."


def build(folder: Path, size: int, held: set[str], seed: int = 1) -> list[str]:
    """`size` sentences in random order, none of `held`; most of them a chatbot's."""
    rng = random.Random(seed)
    examples: set[str] = set()
    definitions: set[str] = set()
    for kind, raw in glosses(folder):
        text = sentence(raw)
        if text is not None and text[0].isalnum() and not set(text) & set("[]|@"):
            (examples if kind == "example" else definitions).add(text)
    grammar = chat.Grammar(lemmas(folder), rng)
    said = {text for _ in range(size) if (text := sentence(grammar.say())) is not None}
    chosen: list[str] = []
    for pool, share in ((examples, 0.2), (definitions, 0.2), (said, 1.0)):
        kept = [text for text in sorted(pool) if text.lower() not in held]
        rng.shuffle(kept)
        chosen += kept[: min(int(size * share), size - len(chosen))]
    rng.shuffle(chosen)
    return chosen


def main() -> None:
    from engine.voices.training.held_out import SENTENCES

    size = int(sys.argv[3]) if len(sys.argv) > 3 else 150_000
    lines = build(Path(sys.argv[1]), size, {text.lower() for text in SENTENCES})
    with gzip.open(sys.argv[2], "wt", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    print(f"{len(lines)} sentences")


if __name__ == "__main__":
    main()
