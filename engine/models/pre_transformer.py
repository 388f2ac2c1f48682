"""The codec's windowed transformer over frames (model.md 6.1): no q/k norm, layer scales, no outer
residual.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.config import CodecConfig
from engine.models.attention import attention
from engine.models.layers import MLP, FusedLinear, LayerScale, RMSNorm, rope_angles, rotate
from engine.models.streaming import Stream


class Attention(nn.Module):
    def __init__(self, c: CodecConfig) -> None:
        super().__init__()
        self.head_dim = c.head_dim
        self.heads, self.kv_heads = c.num_attention_heads, c.num_key_value_heads
        queries, keys = self.heads * c.head_dim, self.kv_heads * c.head_dim
        self.qkv_proj = FusedLinear(
            c.hidden_size, {"q_proj": queries, "k_proj": keys, "v_proj": keys}
        )
        self.o_proj = nn.Linear(queries, c.hidden_size, bias=False)

    def forward(
        self, x: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor, layer: int, stream: Stream
    ) -> Tensor:
        heads = self.qkv_proj(x).unflatten(-1, (-1, self.head_dim))
        qk, v = heads.split([self.heads + self.kv_heads, self.kv_heads], -2)
        q, k = rotate(qk, angles).split([self.heads, self.kv_heads], -2)
        k, v = stream.extend_keys(layer, k.transpose(1, 2), v.transpose(1, 2))
        out: Tensor = self.o_proj(attention(q, k, v, mask).flatten(-2))
        return out


class Layer(nn.Module):
    def __init__(self, c: CodecConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = Attention(c)
        self.self_attn_layer_scale = LayerScale(c.hidden_size, c.layer_scale_initial_scale)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = MLP(c.hidden_size, c.intermediate_size)
        self.mlp_layer_scale = LayerScale(c.hidden_size, c.layer_scale_initial_scale)

    def forward(
        self, x: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor, layer: int, stream: Stream
    ) -> Tensor:
        attended = self.self_attn(self.input_layernorm(x), angles, mask, layer, stream)
        x = x + self.self_attn_layer_scale(attended)
        return x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))


class PreTransformer(nn.Module):
    """[R, T, latent] -> [R, T, latent]; a frame sees `sliding_window` frames, itself included."""

    def __init__(self, c: CodecConfig) -> None:
        super().__init__()
        self.config = c
        self.input_proj = nn.Linear(c.latent_dim, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.output_proj = nn.Linear(c.hidden_size, c.latent_dim)

    def forward(self, x: Tensor, stream: Stream, past: int) -> Tensor:
        """`past`: frames of the state that stand before this call's."""
        c, frames = self.config, int(x.shape[1])
        positions = stream.positions(frames, x)
        cos, sin = rope_angles(positions, c.head_dim, c.rope_theta)
        angles = cos[:, :, None], sin[:, :, None]
        keys = positions[:, :1] + torch.arange(-past, frames, device=x.device)  # [R, past + T]
        age = positions[:, :, None] - keys[:, None, :]
        mask = ((age >= 0) & (age < c.sliding_window) & (keys >= 0)[:, None])[:, None]
        x = self.input_proj(x)
        for i, layer in enumerate(self.layers):
            x = layer(x, angles, mask, i, stream)
        out: Tensor = self.output_proj(self.norm(x))
        return out
