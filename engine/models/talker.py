"""The talker: one pass a codec frame; emits code 0 and the hidden state that the code predictor
starts from.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import TalkerConfig
from engine.models.attention import Chunk, KVCache, Step, whole
from engine.models.code_predictor import CodePredictor
from engine.models.transformer import Attention, Transformer


class TextProjection(nn.Module):
    """A text embedding into the talker's width."""

    def __init__(self, text: int, hidden: int) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(text, text)
        self.linear_fc2 = nn.Linear(text, hidden)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear_fc2(F.silu(self.linear_fc1(x)))
        return out


class TalkerModel(Transformer):
    def __init__(self, c: TalkerConfig) -> None:
        super().__init__(c)
        self.text_embedding = nn.Embedding(c.text_vocab_size, c.text_hidden_size)
        self.codec_embedding = nn.Embedding(c.vocab_size, c.hidden_size)


class Talker(nn.Module):
    def __init__(self, c: TalkerConfig) -> None:
        super().__init__()
        self.model = TalkerModel(c)
        self.text_projection = TextProjection(c.text_hidden_size, c.hidden_size)
        self.codec_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.code_predictor = CodePredictor(c)

    def fold(self) -> None:
        """Work out what inference need not work out again. Training must not call it."""
        for module in self.modules():
            if isinstance(module, Attention):
                module.fold()
        self.code_predictor.fold(self.model.codec_embedding)

    def text_vectors(self, ids: Tensor) -> Tensor:
        """Text ids [N] -> [N, d]."""
        out: Tensor = self.text_projection(self.model.text_embedding(ids))
        return out

    def codec_vectors(self, ids: Tensor) -> Tensor:
        """Codes 0 or control ids [N] -> [N, d]."""
        out: Tensor = self.model.codec_embedding(ids)
        return out

    def frame_vectors(self, codes: Tensor) -> Tensor:
        """Frames [N, q] -> [N, d]: the sum of their codes' embeddings, in order."""
        x = self.codec_vectors(codes[:, 0])
        for j, table in enumerate(self.code_predictor.model.codec_embedding):
            x = x + table(codes[:, j + 1])
        return x

    def forward(self, x: Tensor) -> Tensor:
        """A whole sequence [R, T, d] -> post-norm hidden [R, T, d]. Differentiable."""
        out: Tensor = self.model(x, torch.arange(x.shape[1], device=x.device), whole)
        return out

    def prefill(self, x: Tensor, cache: KVCache, row: int, start: int) -> Tensor:
        """A chunk [T, d] of one row's prompt at `start` -> hidden [T, d]; earlier keys are in the
        cache.
        """
        positions = torch.arange(start, start + len(x), device=x.device)
        out: Tensor = self.model(x[None], positions, Chunk(cache, row, start, len(x)))
        return out[0]

    def step(
        self, x: Tensor, cache: KVCache, rows: Tensor, positions: Tensor, longest: int = 1 << 30
    ) -> Tensor:
        """One position of each of `rows` [R]: x [R, d] -> hidden [R, d]. `longest` bounds the
        positions.
        """
        attend = Step(cache, rows, positions, longest)
        out: Tensor = self.model(x[:, None], positions[:, None], attend)
        return out[:, 0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden [R, d] -> [R, vocab] fp32 for code 0."""
        out: Tensor = self.codec_head(hidden)
        return out.float()
