"""The code predictor: codes 1.. of a frame from the hidden state and code 0 (model.md 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from engine.config import TalkerConfig
from engine.models.attention import Brief, whole
from engine.models.packed import packed
from engine.models.recorded import Recorded
from engine.models.transformer import Angles, Transformer

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
        self.tables: list[Tensor] | None = None  # by pass, in the layers' width; see fold
        self._angles: list[Angles] = []  # of each pass
        # What decodes: the first projection, the layers, the heads; no submodules: twins of ours.
        self._decoder: tuple[nn.Module, nn.Module, list[nn.Module]] | None = None
        self._passes: Sequence[Callable[..., Tensor]] = ()

    @torch.no_grad()
    def fold(self, table0: nn.Embedding, int8: bool = False, record: bool = False) -> None:
        """Project the embedding tables once; equal to projecting each embedding, up to rounding.
        `int8`, `record`: see Talker.fold.
        """
        tables = [table0, *list(self.model.codec_embedding)[:-1]]
        self.tables = [self.small_to_mtp_projection(t.weight) for t in tables]
        self.model.fold()
        places = torch.arange(self.config.num_code_groups, device=table0.weight.device)
        self._angles = [self.model.angles(at) for at in (places[:2], *places[2:].split(1))]
        parts = self.small_to_mtp_projection, self.model, list(self.lm_head)
        if int8:
            parts = packed(parts[0]), packed(parts[1]), [packed(head) for head in parts[2]]
        self._decoder = parts
        passes = [partial(self._logits, j) for j in range(len(self.lm_head))]
        self._passes = passes
        if record:
            pairs = zip(passes, parts[2], strict=True)
            self._passes = [Recorded(run, [parts[1], head]) for run, head in pairs]

    def forward(self, hidden: Tensor, codes: Tensor, table0: nn.Embedding) -> Tensor:
        """Teacher-forced: hidden [N, d], codes [N, q] -> logits [N, q - 1, V] of codes 1.."""
        tables = [table0, *list(self.model.codec_embedding)[:-1]]
        inputs = [hidden, *(table(codes[:, j]) for j, table in enumerate(tables))]
        x = self.small_to_mtp_projection(torch.stack(inputs, 1))
        out = self.model(x, self.model.angles(torch.arange(x.shape[1], device=x.device)), whole)
        return torch.stack([head(out[:, j + 1]) for j, head in enumerate(self.lm_head)], 1)

    def complete(self, hidden: Tensor, codes0: Tensor, table0: nn.Embedding, draw: Draw) -> Tensor:
        """Hidden [R, d] and code 0 [R] -> the whole frame's codes [R, q]: one pass over two
        positions, then singles.
        """
        if self.tables is None:
            self.fold(table0)
        assert self.tables is not None and self._decoder is not None
        c, rows = self.config, len(hidden)
        shape = (c.num_hidden_layers, rows, c.num_key_value_heads, c.num_code_groups, c.head_dim)
        keys, values = hidden.new_empty(shape), hidden.new_empty(shape)
        codes = [codes0]
        x = torch.stack([self._decoder[0](hidden), self.tables[0][codes0]], 1)
        for j, logits in enumerate(self._passes):
            codes.append(draw(logits(x, keys, values), j + 1))
            if j + 1 < len(self.tables):
                x = self.tables[j + 1][codes[-1]][:, None]
        return torch.stack(codes, 1)

    def _logits(self, j: int, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Pass j over x [R, 2 or 1, d] -> logits [R, V] fp32 of code j + 1; keys and values as in
        Brief.
        """
        assert self._decoder is not None
        _, model, heads = self._decoder
        out = model(x, self._angles[j], Brief(keys, values, at=j + 1 if j else 0))
        logits: Tensor = heads[j](out[:, -1])
        return logits.float()
