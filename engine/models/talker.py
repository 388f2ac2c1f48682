"""The talker: one pass a codec frame; emits code 0 and the hidden state that the code predictor
starts from.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import TalkerConfig
from engine.models.attention import Chunk, KVCache, Place, Step, whole
from engine.models.code_predictor import CodePredictor
from engine.models.packed import packed
from engine.models.recorded import Recorded
from engine.models.transformer import Transformer

SMALL_TABLE = 1 << 22  # entries of a text embedding that is projected once


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
        self._texts: Tensor | None = None
        self._decoder: tuple[Transformer, nn.Module] | None = None  # no submodules: twins of ours
        self._step: Callable[..., Tensor] = self._decode

    @torch.no_grad()
    def fold(self, int8: bool = False, record: bool = False) -> None:
        """Work out what inference need not work out again. On a CPU alone: `int8` decodes with
        packed weights, `record` replays steps without Python. Training must not call it.
        """
        self.model.fold()
        self.code_predictor.fold(self.model.codec_embedding, int8, record)
        self._decoder = (packed(self.model), packed(self.codec_head)) if int8 else None
        model = self._decoder[0] if self._decoder else self.model
        self._step = Recorded(self._decode, [model]) if record else self._decode
        embedding = self.model.text_embedding.weight
        if embedding.numel() <= SMALL_TABLE:
            self._texts = self.text_projection(embedding)

    @property
    def int8(self) -> bool:
        """A row of a decode step depends on no other row of the call."""
        return self._decoder is not None

    def text_vectors(self, ids: Tensor) -> Tensor:
        """Text ids [N] -> [N, d]."""
        if self._texts is not None:
            return self._texts[ids]
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
        out: Tensor = self.model(
            x, self.model.angles(torch.arange(x.shape[1], device=x.device)), whole
        )
        return out

    def prefill(self, x: Tensor, cache: KVCache, row: int, start: int) -> Tensor:
        """A chunk [T, d] of one row's prompt at `start` -> hidden [T, d]; earlier keys are in the
        cache.
        """
        positions = torch.arange(start, start + len(x), device=x.device)
        attend = Chunk(cache, row, start, len(x))
        out: Tensor = self.model(x[None], self.model.angles(positions), attend)
        return out[0]

    def prefill_at(
        self, x: Tensor, cache: KVCache, row: Tensor, start: Tensor, length: Tensor
    ) -> Tensor:
        """`prefill` of x [T, d], of which `length` rows count; `row`, `start`, `length` [1]."""
        attend = Place(cache, row, start, length, len(x))
        out: Tensor = self.model(x[None], self.model.angles(attend.positions), attend)
        return out[0]

    def step(
        self, x: Tensor, cache: KVCache, rows: Tensor, positions: Tensor, longest: int = 1 << 30
    ) -> Tensor:
        """One position of each of `rows` [R]: x [R, d] -> hidden [R, d]. `longest` bounds the
        positions.
        """
        if rows.device.type == "cpu":
            return self._step(x, cache.keys, cache.values, rows, positions)
        return self._decode(x, cache.keys, cache.values, rows, positions, longest)

    def _decode(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        rows: Tensor,
        positions: Tensor,
        longest: int = 1 << 30,
    ) -> Tensor:
        attend = Step(KVCache(keys, values), rows, positions, longest)
        model = self._decoder[0] if self._decoder else self.model
        out: Tensor = model(x[:, None], self.model.angles(positions[:, None]), attend)
        return out[:, 0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden [R, d] -> [R, vocab] fp32 for code 0."""
        head = self._decoder[1] if self._decoder else self.codec_head
        out: Tensor = head(hidden)
        return out.float()
