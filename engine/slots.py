"""Every per-slot tensor, allocated once. The last slot is scratch: padding reads and writes it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import ModelConfig
from engine.messages import Speak
from engine.models.attention import KVCache
from engine.models.streaming import CodecState
from engine.sampling import SlotSampling

KV_ROWS = 2  # a slot: the segment that speaks, and the next one, prefilled beside it


@dataclass
class Slots:
    cache: KVCache
    codec: CodecState
    codes: Tensor  # [slots + 1, codebooks] int64: the last frame
    seen: Tensor  # [slots + 1, vocab] bool: c0 drawn in this segment
    seeds: Tensor  # [slots + 1] int64
    talker: SlotSampling
    predictor: SlotSampling

    @classmethod
    def allocate(
        cls, config: ModelConfig, slots: int, positions: int, device: str, dtype: torch.dtype
    ) -> Slots:
        talker = config.talker
        cache = KVCache.allocate(
            talker.num_hidden_layers,
            KV_ROWS * slots,
            talker.num_key_value_heads,
            positions,
            talker.head_dim,
            device,
            dtype,
        )
        return cls(
            cache=cache,
            codec=CodecState.allocate(config.codec, slots, device, torch.float32),
            codes=torch.zeros(slots + 1, talker.num_code_groups, dtype=torch.int64, device=device),
            seen=torch.zeros(slots + 1, talker.vocab_size, dtype=torch.bool, device=device),
            seeds=torch.zeros(slots + 1, dtype=torch.int64, device=device),
            talker=SlotSampling.allocate(slots, device),
            predictor=SlotSampling.allocate(slots, device),
        )

    @property
    def scratch(self) -> int:
        return len(self.seeds) - 1

    def open(self, slot: int, speak: Speak, frame: int = 0) -> None:
        """The slot begins a new utterance; its codec at frame `frame`."""
        self.codec.reset([slot])
        self.codec.positions[slot] = frame
        self.seen[slot] = False
        self.seeds[slot] = speak.seed
        self.talker.set(slot, speak.talker)
        self.predictor.set(slot, speak.predictor)
