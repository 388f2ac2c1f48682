"""The shards that generate.py writes, as they appear, in one buffer beside the model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.voices.training.generate import FRAME, GAP, RATE

HELD = "0000-000"  # the shard that no training sees


@dataclass
class Shard:
    """pcm int16 [N * FRAME], sounds [N, 8], and its groups, each with its first frame, "at"."""

    pcm: NDArray[np.int16]
    sounds: NDArray[np.uint8]
    groups: list[dict[str, Any]]


def read(path: Path) -> Shard:
    """The shard of NAME.json."""
    pcm = np.fromfile(path.with_suffix(".i16"), np.int16)
    sounds = np.fromfile(path.with_suffix(".u8"), np.uint8).reshape(-1, 8)
    groups, at = [], 0
    for group in json.loads(path.read_text()):
        at += GAP
        groups.append({**group, "at": at})
        at += sum(frames for _, frames in group["said"])
    assert at == len(sounds) == len(pcm) // FRAME, "a shard's list and its audio are of one length"
    return Shard(pcm, sounds, groups)


class Audio:
    """`pcm` int16 and `sounds` on `device`, filled up to `filled` frames."""

    def __init__(self, folder: Path, hours: float, device: str) -> None:
        self.folder = folder
        frames = int(hours * 3600 * RATE) // FRAME
        self.pcm = torch.zeros(frames * FRAME, dtype=torch.int16, device=device)
        self.sounds = torch.zeros(frames, 8, dtype=torch.uint8, device=device)
        self.filled = 0
        self.count = torch.zeros((), dtype=torch.float64, device=device)
        self._seen = {HELD + ".json"}

    def poll(self) -> float:
        """Take in new shards; hours held."""
        for path in sorted(self.folder.glob("*.json")):
            if path.name in self._seen:
                continue
            self._seen.add(path.name)
            shard = read(path)
            first, last = self.filled, self.filled + len(shard.sounds)
            if last > len(self.sounds):
                break
            self.pcm[first * FRAME : last * FRAME] = torch.from_numpy(shard.pcm)
            self.sounds[first:last] = torch.from_numpy(shard.sounds)
            self.filled = last
        self.count.fill_(self.filled)
        return self.filled * FRAME / RATE / 3600

    def draw(self, batch: int, frames: int) -> tuple[Tensor, Tensor]:
        """Random excerpts at random levels [batch, frames * FRAME] fp32, their sounds."""
        device = self.pcm.device
        start = torch.rand(batch, 1, dtype=torch.float64, device=device) * (self.count - frames)
        start = start.long()
        index = start * FRAME + torch.arange(frames * FRAME, device=device)
        level = torch.rand(batch, 1, device=device) * 0.7 + 0.5
        sounds = self.sounds[start + torch.arange(frames, device=device)]
        return self.pcm[index].float() / 32_768 * level, sounds
