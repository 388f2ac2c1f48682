"""The talker's step and the code predictor's passes in fused kernels, on CUDA: five launches a
layer. The modules stay the owners of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from engine.kernels import linear as linears
from engine.kernels.attend import attend
from engine.kernels.frames import frames
from engine.kernels.linear import linear
from engine.models.attention import KVCache
from engine.models.layers import rope_angles
from engine.models.talker import Talker
from engine.models.transformer import Transformer

# (logits [R, V], codebook, where the codes go [R], table [V, w] or none) -> the codes' rows [R, w]
Pick = Callable[[Tensor, int, Tensor, Tensor | None], Tensor | None]


def serves(talker: Talker) -> bool:
    """Whether the kernels take these sizes."""
    predictor = talker.code_predictor
    projection = predictor.small_to_mtp_projection
    modules: list[nn.Module] = [talker.model.layers, predictor.model.layers, talker.codec_head]
    modules += [predictor.lm_head, talker.text_projection, projection]
    sizes = {m.weight.shape for each in modules for m in each.modules() if isinstance(m, nn.Linear)}
    fits = all(linears.serves(inputs, outputs) for outputs, inputs in sizes)
    whole = [predictor.config.hidden_size]  # what a program holds as one block: powers of two
    for model in (talker.model, predictor.model):
        attention: Any = model.layers[0]
        attention = attention.self_attn
        whole += [model.head_dim, attention.heads // attention.kv_heads]
    return fits and all(n & (n - 1) == 0 for n in whole)


class FusedTransformer:
    def __init__(self, model: Transformer, positions: int) -> None:
        layers: Any = model.layers
        weight = layers[0].mlp.down_proj.weight
        at = torch.arange(positions, device=weight.device)
        self._cos, self._sin = rope_angles(at, model.head_dim, model.theta)
        self._layers = layers
        self.norm, self.eps = model.norm.weight, model.norm.eps

    def __call__(
        self, x: Tensor, keys: Tensor, values: Tensor, rows: Tensor, positions: Tensor
    ) -> Tensor:
        """One position of each row: x [R, d] -> [R, d] before the last norm; keys and values
        [layers, rows, kv, positions, D].
        """
        for layer, k, v in zip(self._layers, keys, values, strict=True):
            a, mlp, eps = layer.self_attn, layer.mlp, self.eps
            qkv = linear(x, a.qkv_proj.weight, layer.input_layernorm.weight, eps)
            norms = a.q_norm.weight, a.k_norm.weight
            y = attend(qkv, *norms, eps, self._cos, self._sin, k, v, rows, positions)
            x = linear(y, a.o_proj.weight, residual=x)
            norm = layer.post_attention_layernorm.weight
            y = linear(x, mlp.gate_up_proj.weight, norm, eps, act="gated")
            x = linear(y, mlp.down_proj.weight, residual=x)
        return x


class FusedTalker:
    @torch.no_grad()
    def __init__(self, talker: Talker, positions: int, rows: int) -> None:
        """`rows`: the most of a call."""
        c = talker.code_predictor.config
        self._talker, self._predictor = talker, talker.code_predictor
        self._step = FusedTransformer(talker.model, positions)
        self._passes = FusedTransformer(self._predictor.model, c.num_code_groups)
        rest: Any = self._predictor.model.codec_embedding
        self._rest = torch.stack([table.weight for table in rest])
        assert self._predictor.tables is not None
        self._tables = self._predictor.tables
        weight = talker.codec_head.weight
        shape = (c.num_hidden_layers, rows, c.num_key_value_heads, c.num_code_groups, c.head_dim)
        self._keys = torch.zeros(shape, device=weight.device, dtype=weight.dtype)
        self._values = torch.zeros_like(self._keys)
        self._rows = torch.arange(rows, device=weight.device)
        self._places = torch.arange(c.num_code_groups, device=weight.device)[:, None].repeat(
            1, rows
        )

    def inputs(self, codes: Tensor, text: Tensor) -> Tensor:
        """Last frames [R, q] and text ids [R] -> [R, d]."""
        t = self._talker
        fc1, fc2 = t.text_projection.linear_fc1, t.text_projection.linear_fc2
        x = linear(t.model.text_embedding(text), fc1.weight, bias=fc1.bias, act="silu")
        x = linear(x, fc2.weight, bias=fc2.bias)
        return frames(codes, t.model.codec_embedding.weight, self._rest, x)

    def step(self, x: Tensor, cache: KVCache, rows: Tensor, positions: Tensor) -> Tensor:
        """x [R, d] -> post-norm hidden [R, d]."""
        x = self._step(x, cache.keys, cache.values, rows, positions)
        out: Tensor = self._talker.model.norm(x)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        return linear(hidden, self._talker.codec_head.weight)

    def complete(self, hidden: Tensor, codes: Tensor, pick: Pick) -> None:
        """Fills codes [R, q] from their column 0 on."""
        projection, n = self._predictor.small_to_mtp_projection, len(hidden)
        x = hidden
        if isinstance(projection, nn.Linear):
            x = linear(hidden, projection.weight, bias=projection.bias)
        caches = self._keys, self._values
        model, rows = self._passes, self._rows[:n]
        model(x, *caches, rows, self._places[0, :n])
        x = self._tables[0][codes[:, 0]]
        heads: Any = self._predictor.lm_head
        for j, head in enumerate(heads, start=1):
            x = model(x, *caches, rows, self._places[j, :n])
            logits = linear(x, head.weight, model.norm, model.eps)
            table = self._tables[j] if j < len(self._tables) else None
            following = pick(logits, j, codes[:, j], table)
            if following is not None:
                x = following
