"""Codes to latents: residual codebooks in two groups, each behind its own projection (model.md
6.1).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.config import CodecConfig


class Codebook(nn.Module):
    """As it was trained: sums of its members and how many they were."""

    def __init__(self, entries: int, size: int) -> None:
        super().__init__()
        self.embedding_sum = nn.Parameter(torch.zeros(entries, size), requires_grad=False)
        self.cluster_usage = nn.Parameter(torch.ones(entries), requires_grad=False)

    def entries(self) -> Tensor:
        """[entries, size]"""
        return self.embedding_sum / self.cluster_usage.clamp(min=1e-5)[:, None]


class Level(nn.Module):
    _codebook: Codebook

    def __init__(self, entries: int, size: int) -> None:
        super().__init__()
        self._codebook = Codebook(entries, size)


class Levels(nn.Module):
    def __init__(self, levels: int, entries: int, size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Level(entries, size) for _ in range(levels))


class ResidualGroup(nn.Module):
    def __init__(self, levels: int, c: CodecConfig) -> None:
        super().__init__()
        size = c.codebook_dim // 2
        self.vq = Levels(levels, c.codebook_size, size)
        self.input_proj = nn.Conv1d(c.codebook_dim, size, 1, bias=False)  # the encoder's
        self.output_proj = nn.Conv1d(size, c.codebook_dim, 1, bias=False)

    def tables(self) -> Tensor:
        """Projected entries [levels, entries, codebook_dim]."""
        books = [level._codebook for level in self.vq.layers if isinstance(level, Level)]
        entries = torch.stack([book.entries() for book in books])
        return entries @ self.output_proj.weight[:, :, 0].T


class Quantizer(nn.Module):
    def __init__(self, c: CodecConfig) -> None:
        super().__init__()
        self.rvq_first = ResidualGroup(c.num_semantic_quantizers, c)
        self.rvq_rest = ResidualGroup(c.num_quantizers - c.num_semantic_quantizers, c)
        self._tables: Tensor | None = None

    @torch.no_grad()
    def fold(self) -> None:
        """Divide and project the codebooks once, in their own precision."""
        self._tables = torch.cat([self.rvq_first.tables(), self.rvq_rest.tables()])

    def forward(self, codes: Tensor) -> Tensor:
        """Codes [R, q, T] -> latents [R, codebook_dim, T]."""
        if self._tables is None:
            self.fold()
        assert self._tables is not None
        x = self._tables[0][codes[:, 0]]
        for j in range(1, codes.shape[1]):
            x = x + self._tables[j][codes[:, j]]
        return x.transpose(1, 2)
