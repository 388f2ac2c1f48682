"""The shards that generate.py writes, as they appear, in one buffer beside the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.voices.training.generate import FRAME, GAP, RATE


class Audio:
    """`pcm` int16 on `device`, filled up to `filled` samples; `groups` as generate.py lists them,
    each with its first frame in the buffer under "at".
    """

    def __init__(self, folder: Path, hours: float, device: str) -> None:
        self.folder = folder
        self.pcm = torch.zeros(int(hours * 3600 * RATE), dtype=torch.int16, device=device)
        self.filled = 0
        self.count = torch.zeros((), dtype=torch.float64, device=device)
        self.phones: list[NDArray[np.uint8]] = []  # [frames, 4] of each shard
        self.groups: list[dict[str, Any]] = []
        self._seen: set[str] = set()

    def poll(self) -> float:
        """Take in new shards; hours held."""
        for path in sorted(self.folder.glob("*.json")):
            if path.name in self._seen:
                continue
            shard = np.fromfile(path.with_suffix(".i16"), np.int16)
            if self.filled + len(shard) > len(self.pcm):
                break
            self._seen.add(path.name)
            self.pcm[self.filled : self.filled + len(shard)] = torch.from_numpy(shard)
            self.phones.append(np.fromfile(path.with_suffix(".u8"), np.uint8).reshape(-1, 4))
            at = self.filled // FRAME
            for group in json.loads(path.read_text()):
                at += GAP
                self.groups.append({**group, "at": at})
                at += sum(frames for _, frames in group["said"])
            self.filled += len(shard)
            assert at * FRAME == self.filled, "a shard's list and its audio are of one length"
        self.count.fill_(self.filled)
        return self.filled / RATE / 3600

    def draw(self, batch: int, samples: int) -> Tensor:
        """Random excerpts [batch, samples] at random levels, fp32."""
        device = self.pcm.device
        start = torch.rand(batch, 1, dtype=torch.float64, device=device) * (self.count - samples)
        index = start.long() + torch.arange(samples, device=device)
        level = torch.rand(batch, 1, device=device) * 0.7 + 0.5
        return self.pcm[index].float() / 32_768 * level
