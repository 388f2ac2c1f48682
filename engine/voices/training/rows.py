"""Training rows of the talker: prompts by the engine's own `prompt`, then frames and their labels.

A row is one segment as the engine will run it: some sentences of a group in the stream or the full
layout. What a segment carries is the full layout too, its first frames given: so long rows of full
text teach that as well.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import prompt
from engine.config import ModelConfig
from engine.tokenizer import Tokenizer
from engine.voices.training import sizes
from engine.voices.training.codes import Spoken
from engine.voices.training.describe import describe

LENGTHS = {112: 180, 176: 114, 272: 74, 448: 45}  # row length: rows of a batch
NONE = -1
LONGEST = 300  # frames of a row
POLL = 3_000  # groups drawn between looks for new speech


@dataclass
class Row:
    """`text` and `codec` ids by position (-1: none), then a position a frame, with text `after`;
    `codes` [n, levels], `phones` [n, 4].
    """

    text: list[int]
    codec: list[int]
    after: list[int]
    codes: NDArray[np.int16]
    phones: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.text) + len(self.after)


@dataclass
class Batch:
    """text, codec, label [B, L], frames [B, L, levels], phones [B, L, 8], int16; -1: none.

    `label`: code 0 of the next frame or the end; `phones`: of the next two frames.
    """

    text: NDArray[np.int16]
    codec: NDArray[np.int16]
    frames: NDArray[np.int16]
    label: NDArray[np.int16]
    phones: NDArray[np.int16]


class Rows:
    def __init__(
        self, spoken: Spoken, config: ModelConfig, tokenizer: Tokenizer, seed: int
    ) -> None:
        self.spoken, self.config, self.rng = spoken, config, random.Random(seed)
        self.encode = lru_cache(200_000)(tokenizer.encode)

    def row(self, group: dict[str, Any]) -> Row | None:
        """A random run of sentences of `group`; None: it is too long."""
        rng, config, said = self.rng, self.config, group["said"]
        start = rng.randrange(len(said)) if rng.random() < 0.7 else 0
        end = len(said) if rng.random() < 0.5 else rng.randint(start + 1, len(said))
        lengths = [frames for _, frames in said]
        while end > start + 1 and sum(lengths[start:end]) > LONGEST:
            end -= 1
        size = sum(lengths[start:end])
        if size > LONGEST:
            return None
        ids = self.encode(self._loosely(" ".join(text for text, _ in said[start:end])))
        language = "english" if rng.random() < 0.6 else "auto"
        rows = prompt.opening(config, self.encode, describe(group["tags"], rng), language, "")
        after: list[int] = []
        if rng.random() < (0.35 if end > start + 1 else 0.55):
            rows = rows + prompt.stream(config, ids[0])
            after = [*ids[1:], config.tts_eos_token_id]
        else:
            rows = rows + prompt.full(config, ids)
        after = (after + [config.tts_pad_token_id] * size)[:size]
        at = group["at"] + sum(lengths[:start])
        codes, sounds = self.spoken.part(group)
        return Row(
            [r.text for r in rows],
            [r.codec for r in rows],
            after,
            codes[at : at + size],
            sounds[at : at + size, :4],
        )

    def _loosely(self, text: str) -> str:
        """Now and then as people type: no full stop, no capital, curly quotes, a space before."""
        rng = self.rng
        if text[-1] == "." and rng.random() < 0.1:
            text = text[:-1]
        if "'" in text and rng.random() < 0.3:
            text = text.replace("'", "\u2019")
        if '"' in text and rng.random() < 0.3:
            text = text.replace('"', "\u201c", 1).replace('"', "\u201d", 1)
        if " - " in text and rng.random() < 0.5:
            text = text.replace(" - ", rng.choice([" \u2014 ", "\u2014", " \u2013 "]))
        if rng.random() < 0.05:
            text = text[0].lower() + text[1:]
        return " " + text if rng.random() < 0.25 else text

    def batches(self, held: bool = False) -> Iterator[Batch]:
        """Batches of one length each, for ever, from all speech there is by then."""
        waiting: dict[int, list[Row]] = {length: [] for length in LENGTHS}
        drawn = 0
        while True:
            if drawn % POLL == 0:
                self.spoken.poll()
            drawn += 1
            groups = self.spoken.held if held else self.spoken.groups
            row = self.row(self.rng.choice(groups))
            if row is None or len(row) > max(LENGTHS):
                continue
            length = next(length for length in LENGTHS if len(row) <= length)
            waiting[length].append(row)
            if len(waiting[length]) == LENGTHS[length]:
                yield self.batch(waiting[length], length)
                waiting[length] = []

    def batch(self, rows: list[Row], length: int) -> Batch:
        shape = (len(rows), length)
        text, codec, label = (np.full(shape, NONE, np.int16) for _ in range(3))
        frames = np.full((*shape, sizes.LEVELS), NONE, np.int16)
        phones = np.full((*shape, 8), NONE, np.int16)
        for i, row in enumerate(rows):
            size, begin = len(row), len(row.text)
            text[i, :size] = row.text + row.after
            codec[i, :begin] = row.codec
            frames[i, begin:size] = row.codes
            label[i, begin - 1 : size - 1] = row.codes[:, 0]
            label[i, size - 1] = self.config.talker.codec_eos_token_id
            phones[i, begin - 1 : size - 1, :4] = row.phones
            phones[i, begin - 1 : size - 2, 4:] = row.phones[1:]
        return Batch(text, codec, frames, label, phones)
