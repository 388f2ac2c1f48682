"""Training rows of the talker: prompts by the engine's own `prompt`, then frames and their labels.

A row is one segment as the engine will run it: some sentences of a group in the stream or the full
layout, or with earlier sentences of the same group carried before them.
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
from engine.voices.training.codes import Spoken
from engine.voices.training.describe import describe

LENGTHS = {80: 176, 112: 128, 160: 88, 224: 64, 320: 44}  # row length: rows of a batch
NONE = -1
LONGEST, CARRIED = 175, 160  # frames of a segment, and carried before it


@dataclass
class Row:
    """`text`, `codec` ids and `frame` numbers by position (-1: none); `first` frame that is said;
    `codes` [n, levels], `phones` [n, 4].
    """

    text: list[int]
    codec: list[int]
    frame: list[int]
    first: int
    codes: NDArray[np.int16]
    phones: NDArray[np.uint8]


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
        """A random segment of `group`; None: it is too long."""
        rng, config, said = self.rng, self.config, group["said"]
        start = rng.randrange(len(said))
        end = len(said) if rng.random() < 0.3 else rng.randint(start + 1, len(said))
        before = rng.randint(0, start) if start and rng.random() < 0.8 else start
        lengths = [frames for _, frames in said]
        while end > start + 1 and sum(lengths[start:end]) > LONGEST:
            end -= 1
        while before < start and sum(lengths[before:start]) > CARRIED:
            before += 1
        if sum(lengths[start:end]) > LONGEST:
            return None
        ids = self.encode(self._loosely(" ".join(text for text, _ in said[start:end])))
        language = "english" if rng.random() < 0.6 else "auto"
        rows = prompt.opening(config, self.encode, describe(group["tags"], rng), language, "")
        first = sum(lengths[before:start])
        after: list[int] = []
        if before < start:
            past = self.encode(" ".join(text for text, _ in said[before:start]))
            ids = self.encode(" " + " ".join(text for text, _ in said[start:end]))
            rows = rows + prompt.carried(config, past, ids, first)
        elif rng.random() < 0.5:
            rows = rows + prompt.full(config, ids)
        else:
            rows = rows + prompt.stream(config, ids[0])
            after = [*ids[1:], config.tts_eos_token_id]
        new = sum(lengths[start:end])
        after = (after + [config.tts_pad_token_id] * new)[:new]
        at = group["at"] + sum(lengths[:before])
        return Row(
            [r.text for r in rows] + after,
            [r.codec for r in rows] + [NONE] * new,
            [r.frame for r in rows] + list(range(first, first + new)),
            first,
            self.spoken.codes[at : at + first + new],
            self.spoken.phones[at : at + first + new],
        )

    def _loosely(self, text: str) -> str:
        """Now and then as people type: no full stop, no capital."""
        if text[-1] == "." and self.rng.random() < 0.1:
            text = text[:-1]
        return text[0].lower() + text[1:] if self.rng.random() < 0.05 else text

    def batches(self, groups: list[dict[str, Any]]) -> Iterator[Batch]:
        """Batches of one length each, for ever."""
        waiting: dict[int, list[Row]] = {length: [] for length in LENGTHS}
        while True:
            self.rng.shuffle(groups)
            for group in groups:
                row = self.row(group)
                if row is None or len(row.text) > max(LENGTHS):
                    continue
                length = next(length for length in LENGTHS if len(row.text) <= length)
                waiting[length].append(row)
                if len(waiting[length]) == LENGTHS[length]:
                    yield self.batch(waiting[length], length)
                    waiting[length] = []

    def batch(self, rows: list[Row], length: int) -> Batch:
        shape = (len(rows), length)
        levels = self.spoken.codes.shape[1]
        text, codec, label = (np.full(shape, NONE, np.int16) for _ in range(3))
        frames = np.full((*shape, levels), NONE, np.int16)
        phones = np.full((*shape, 8), NONE, np.int16)
        for i, row in enumerate(rows):
            size, new = len(row.text), len(row.codes) - row.first
            text[i, :size], codec[i, :size] = row.text, row.codec
            shown = np.asarray(row.frame)
            frames[i, :size][shown >= 0] = row.codes[shown[shown >= 0]]
            label[i, size - new - 1 : size - 1] = row.codes[row.first :, 0]
            label[i, size - 1] = self.config.talker.codec_eos_token_id
            sounds = row.phones[row.first :]
            phones[i, size - new - 1 : size - 1, :4] = sounds
            phones[i, size - new - 1 : size - 2, 4:] = sounds[1:]
        return Batch(text, codec, frames, label, phones)
