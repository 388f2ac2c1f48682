"""The training-only half of the codec: a mel encoder and a quantiser that learns its codebooks.

Neither causal nor shipped: it only has to find codes that the decoder can speak from. It sees about
half a second around each frame, so long recordings can be encoded in pieces.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HOP, BANDS = 240, 80  # 100 mel frames a second, 8 to a codec frame
OCTAVE = 60  # steps of the pitch tracks
LINES = 128  # of a long window, 11.7 Hz apart up to 1.5 kHz: they show a man's harmonics
WIDTHS = (192, 256, 320, 320)  # at 100, 50, 25 and 12.5 Hz


def mel_filters(n_fft: int, bands: int, rate: int = 24_000) -> Tensor:
    """[bands, n_fft // 2 + 1] triangles on the HTK mel scale."""
    hz = torch.linspace(0, rate / 2, n_fft // 2 + 1)
    top = 2595 * torch.log10(torch.tensor(1 + rate / 2 / 700.0))
    edges = 700 * (10 ** (torch.linspace(0, float(top), bands + 2) / 2595) - 1)
    up = (hz - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - hz) / (edges[2:] - edges[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


def unit(x: Tensor) -> Tensor:
    """Root mean square one over channels; x [B, C, T]."""
    return x * torch.rsqrt(x.float().square().mean(1, keepdim=True) + 1e-5).to(x.dtype)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(width, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(F.gelu(self.first(unit(x))))


class Encoder(nn.Module):
    """PCM [B, T * 1920] -> [B, width, T]."""

    window: Tensor
    long_window: Tensor
    filters: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv1d(BANDS + LINES, WIDTHS[0], 5, padding=2)]
        for here, there in pairwise(WIDTHS):
            layers += [Block(here), Block(here), nn.Conv1d(here, there, 4, stride=2, padding=1)]
        layers += [Block(WIDTHS[-1]), Block(WIDTHS[-1]), Block(WIDTHS[-1])]
        self.net = nn.Sequential(*layers)
        self.out = nn.Conv1d(WIDTHS[-1], width, 1)
        self.register_buffer("window", torch.hann_window(1024), persistent=False)
        self.register_buffer("long_window", torch.hann_window(2048), persistent=False)
        self.register_buffer("filters", mel_filters(1024, BANDS), persistent=False)

    def spectra(self, pcm: Tensor) -> Tensor:
        """Mel bands and low lines [B, BANDS + LINES, T * 8], roughly of unit variance."""
        with torch.autocast(pcm.device.type, enabled=False):
            bands = self.filters @ _magnitudes(pcm.float(), self.window)
            lines = _magnitudes(pcm.float(), self.long_window)[:, 1 : LINES + 1]
            bands = (torch.log(bands + 1e-3) + 2.5) / 2.5
            return torch.cat([bands, torch.log(lines + 0.05) / 2], 1)

    def forward(self, pcm: Tensor) -> Tensor:
        return self.out(unit(self.net(self.spectra(pcm))))


def _magnitudes(pcm: Tensor, window: Tensor) -> Tensor:
    side = (len(window) - HOP) // 2
    padded = F.pad(pcm, (side, side))
    return torch.stft(
        padded, len(window), HOP, window=window, center=False, return_complex=True
    ).abs()


class Codebooks(nn.Module):
    """One residual quantiser: `levels` codebooks on a projection of the encoder's output.

    Codebooks follow their members by moving averages; nothing here asks the host, so that a
    training step can be captured as one graph.
    """

    sums: Tensor
    usage: Tensor

    def __init__(self, levels: int, width: int, dim: int, entries: int) -> None:
        super().__init__()
        self.into = nn.Conv1d(width, dim, 1)
        self.norm = nn.BatchNorm1d(dim, affine=False, momentum=0.05)
        self.out = nn.Conv1d(dim, width, 1, bias=False)
        self.register_buffer("sums", torch.randn(levels, entries, dim))
        self.register_buffer("usage", torch.ones(levels, entries))

    def project(self, x: Tensor) -> Tensor:
        """[B, width, T] -> [B, dim, T], normalised."""
        return self.norm(self.into(x).float())

    def entries(self, level: int) -> Tensor:
        return self.sums[level] / self.usage[level].clamp(min=1e-5)[:, None]

    @staticmethod
    def nearest(x: Tensor, entries: Tensor) -> Tensor:
        """x [N, dim] -> [N]."""
        return (entries.square().sum(1) - 2 * x @ entries.T).argmin(1)

    @torch.no_grad()
    def follow(self, level: int, x: Tensor, index: Tensor, decay: float = 0.99) -> None:
        sums, usage = self.sums[level], self.usage[level]
        member = x.new_zeros(len(x), len(usage)).scatter_(1, index[:, None], 1)
        usage.mul_(decay).add_(member.sum(0), alpha=1 - decay)
        sums.mul_(decay).add_(member.T @ x, alpha=1 - decay)
        dead = usage < 0.03
        fresh = x[torch.randint(len(x), (len(usage),), device=x.device)]
        sums.copy_(torch.where(dead[:, None], fresh, sums))
        usage.copy_(torch.where(dead, torch.ones_like(usage), usage))

    @torch.no_grad()
    def fill(self, x: Tensor, rounds: int = 4) -> None:
        """Start every codebook on data: x [N, dim] of `project`."""
        rest = x
        for level in range(len(self.sums)):
            self.sums[level] = rest[torch.randint(len(rest), (self.usage.shape[1],))]
            self.usage[level] = 1
            for _ in range(rounds):
                self.follow(level, rest, self.nearest(rest, self.entries(level)), decay=0.3)
            entries = self.entries(level)
            rest = rest - entries[self.nearest(rest, entries)]

    def forward(self, x: Tensor, on: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, width, T], `on` [levels] (1: used) -> latents [B, width, T], codes, loss.

        With `on` the codebooks learn. codes [B, levels, T].
        """
        z = self.project(x)
        flat = z.transpose(1, 2).reshape(-1, z.shape[1])
        rest, total, loss, codes = flat, torch.zeros_like(flat), flat.new_zeros(()), []
        for level in range(len(self.sums)):
            entries = self.entries(level)
            index = self.nearest(rest.detach(), entries)
            chosen = F.embedding(index, entries)
            if on is not None:
                loss = loss + on[level] * F.mse_loss(rest, chosen)
                self.follow(level, rest.detach(), index)
                chosen = chosen * on[level]
            rest, total = rest - chosen, total + chosen
            codes.append(index.view(z.shape[0], z.shape[2]))
        passed = flat + (total - flat).detach()
        return (
            self.out(passed.view_as(z.transpose(1, 2)).transpose(1, 2)),
            torch.stack(codes, 1),
            loss,
        )


class Quantiser(nn.Module):
    """The semantic codebook and the residual rest, each on its own projection of the same input."""

    def __init__(self, levels: int, width: int, entries: int) -> None:
        super().__init__()
        self.first = Codebooks(1, width, width // 2, entries)
        self.rest = Codebooks(levels - 1, width, width // 2, entries)

    def plain(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Latents and the first codebook's share, without quantisation: the start of training."""
        first = self.first.out(self.first.project(x))
        return first + self.rest.out(self.rest.project(x)), first

    def forward(self, x: Tensor, on: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """-> latents [B, width, T], the first codebook's share of them, codes [B, levels, T],
        commitment loss.
        """
        a, first, la = self.first(x, None if on is None else on[:1])
        b, rest, lb = self.rest(x, None if on is None else on[1:])
        return a + b, a, torch.cat([first, rest], 1), la + lb


class Hints(nn.Module):
    """What codes must tell beside the sound, four values a frame: from the first codebook alone the
    phoneme, so that it says what is spoken; from all of them voicing and pitch.
    """

    def __init__(self, width: int, phones: int) -> None:
        super().__init__()
        self.phones = phones
        self.phone = _head(width, 4 * phones)
        self.pitch = _head(width, 8)

    def forward(self, latents: Tensor, first: Tensor, sounds: Tensor) -> dict[str, Tensor]:
        """sounds [B, T, 8] uint8: four phonemes, four pitches (audio.py) -> losses by name."""
        phone = self.phone(first).unflatten(1, (4, self.phones)).float()  # [B, 4, phones, T]
        said = sounds[..., :4].long().transpose(1, 2)
        spoken = F.cross_entropy(phone.transpose(1, 2), said)
        heard, level = self.pitch(latents).float().unflatten(1, (2, 4)).unbind(1)
        pitch = sounds[..., 4:].transpose(1, 2).float()
        voiced = (pitch > 0).float()
        off = (level - (pitch - OCTAVE) / OCTAVE).abs() * voiced  # octaves
        return {
            "phone": spoken,
            "voiced": F.binary_cross_entropy_with_logits(heard, voiced),
            "octaves": off.sum() / voiced.sum().clamp(min=1),
        }


def _head(width: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(width, width, 1), nn.GELU(), nn.Conv1d(width, out, 1))
