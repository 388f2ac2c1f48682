"""The Qwen3 decoder block of the talker and of the code predictor (model.md 2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.config import CodePredictorConfig, TalkerConfig
from engine.models.attention import Attend
from engine.models.layers import (
    MLP,
    FusedLinear,
    RMSNorm,
    ShortNorm,
    normalised,
    rope_angles,
    rotate,
)

Angles = tuple[Tensor, Tensor]


class Attention(nn.Module):
    def __init__(self, c: TalkerConfig | CodePredictorConfig) -> None:
        super().__init__()
        self.head_dim = c.head_dim
        self.heads, self.kv_heads = c.num_attention_heads, c.num_key_value_heads
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.qkv_proj = FusedLinear(
            c.hidden_size, {"q_proj": queries, "k_proj": keys, "v_proj": keys}
        )
        self.o_proj = nn.Linear(queries, c.hidden_size, bias=False)
        self.q_norm = RMSNorm(self.head_dim, c.rms_norm_eps)
        self.k_norm = RMSNorm(self.head_dim, c.rms_norm_eps)
        self._scales: Tensor | None = None
        self._norm: ShortNorm | None = None

    @torch.no_grad()
    def fold(self) -> None:
        self._scales = self._weights()
        if ShortNorm.serves(self._scales):
            self._norm = ShortNorm(self._scales, self.q_norm.eps)

    def _weights(self) -> Tensor:
        """Norm weights of every query and key head [heads + kv heads, D]: one norm for both."""
        q, k = self.q_norm.weight, self.k_norm.weight
        return torch.cat([q.expand(self.heads, -1), k.expand(self.kv_heads, -1)])

    def _normalised(self, qk: Tensor) -> Tensor:
        if self._norm is not None:
            return self._norm(qk)
        scales = self._weights() if self._scales is None else self._scales
        return normalised(qk, self.q_norm.eps) * scales

    def forward(self, x: Tensor, angles: Angles, layer: int, attend: Attend) -> Tensor:
        heads = self.qkv_proj(x).unflatten(-1, (-1, self.head_dim))  # [R, T, heads + 2 kv heads, D]
        qk, v = heads.split([self.heads + self.kv_heads, self.kv_heads], -2)
        qk = rotate(self._normalised(qk), angles)
        q, k = qk.split([self.heads, self.kv_heads], -2)
        out: Tensor = self.o_proj(attend(layer, q, k, v).flatten(-2))
        return out


class Layer(nn.Module):
    def __init__(self, c: TalkerConfig | CodePredictorConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = MLP(c.hidden_size, c.intermediate_size)

    def forward(self, x: Tensor, angles: Angles, layer: int, attend: Attend) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), angles, layer, attend)
        return x + self.mlp(self.post_attention_layernorm(x))


class Transformer(nn.Module):
    """x [R, T, d] -> post-norm hidden [R, T, d]."""

    def __init__(self, c: TalkerConfig | CodePredictorConfig) -> None:
        super().__init__()
        self.head_dim, self.theta = c.head_dim, c.rope_theta
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)

    def fold(self) -> None:
        """Work out what inference need not work out again."""
        for module in self.modules():
            if isinstance(module, Attention | RMSNorm):
                module.fold()

    def angles(self, positions: Tensor) -> Angles:
        """Rotation at integer positions [T] or [R, T], the same for all heads and layers."""
        cos, sin = rope_angles(positions, self.head_dim, self.theta)
        return cos[..., None, :], sin[..., None, :]

    def forward(self, x: Tensor, angles: Angles, attend: Attend) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x, angles, i, attend)
        out: Tensor = self.norm(x)
        return out
