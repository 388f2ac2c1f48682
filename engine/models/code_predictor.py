"""The code predictor: codes 1.. of a frame from the hidden state and code 0 (model.md 3)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engine.config import TalkerConfig
from engine.models.attention import Brief, whole
from engine.models.transformer import Transformer

Draw = Callable[[Tensor, int], Tensor]  # (logits [R, V] fp32, codebook) -> codes [R]


class PredictorModel(Transformer):
    codec_embedding: nn.ModuleList

    def __init__(self, talker: TalkerConfig) -> None:
        c = talker.code_predictor
        super().__init__(c)
        self.codec_embedding = nn.ModuleList(  # table j - 1 belongs to code j
            nn.Embedding(c.vocab_size, talker.hidden_size) for _ in range(1, c.num_code_groups)
        )


class CodePredictor(nn.Module):
    def __init__(self, talker: TalkerConfig) -> None:
        super().__init__()
        self.config = c = talker.code_predictor
        self.model = PredictorModel(talker)
        self.lm_head = nn.ModuleList(  # head j - 1 gives code j
            nn.Linear(c.hidden_size, c.vocab_size, bias=False) for _ in range(1, c.num_code_groups)
        )
        self.small_to_mtp_projection: nn.Module = nn.Identity()
        if talker.hidden_size != c.hidden_size:
            self.small_to_mtp_projection = nn.Linear(talker.hidden_size, c.hidden_size)
        self._tables: list[Tensor] | None = None

    @torch.no_grad()
    def fold(self, table0: nn.Embedding) -> None:
        """Project the embedding tables once; equal to projecting each embedding, up to rounding."""
        tables = [table0, *list(self.model.codec_embedding)[:-1]]
        self._tables = [self.small_to_mtp_projection(t.weight) for t in tables]

    def forward(self, hidden: Tensor, codes: Tensor, table0: nn.Embedding) -> Tensor:
        """Teacher-forced: hidden [N, d], codes [N, q] -> logits [N, q - 1, V] of codes 1.."""
        tables = [table0, *list(self.model.codec_embedding)[:-1]]
        inputs = [hidden, *(table(codes[:, j]) for j, table in enumerate(tables))]
        x = self.small_to_mtp_projection(torch.stack(inputs, 1))
        positions = torch.arange(x.shape[1], device=x.device)
        out = self.model(x, positions, whole)
        return torch.stack([head(out[:, j + 1]) for j, head in enumerate(self.lm_head)], 1)

    def complete(self, hidden: Tensor, codes0: Tensor, table0: nn.Embedding, draw: Draw) -> Tensor:
        """Hidden [R, d] and code 0 [R] -> the whole frame's codes [R, q]: one pass over two
        positions, then singles.
        """
        if self._tables is None:
            self.fold(table0)
        assert self._tables is not None
        c, rows = self.config, len(hidden)
        shape = (c.num_hidden_layers, rows, c.num_key_value_heads, c.num_code_groups, c.head_dim)
        attend = Brief(hidden.new_empty(shape), hidden.new_empty(shape))
        positions = torch.arange(c.num_code_groups, device=hidden.device)
        codes = [codes0]
        x = torch.stack([self.small_to_mtp_projection(hidden), self._tables[0][codes0]], 1)
        for j, head in enumerate(self.lm_head):
            at = positions[:2] if j == 0 else positions[j + 1 : j + 2]
            out = self.model(x, at, attend)
            attend.advance(len(at))
            codes.append(draw(head(out[:, -1]).float(), j + 1))
            if j + 1 < len(self._tables):
                x = self._tables[j + 1][codes[-1]][:, None]
        return torch.stack(codes, 1)
