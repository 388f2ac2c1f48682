"""What makes decoded speech like the recording: log-mel distances and discriminators."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.voices.training.encoder import mel_filters

SCALES = ((2048, 128), (1024, 80), (512, 64), (256, 32), (128, 16))  # n_fft, bands
LONG = ((4096, 0.4), (2048, 0.2))  # n_fft, floor of the magnitudes


class MelLoss(nn.Module):
    """Mean absolute difference of log mel spectra over several windows."""

    def __init__(self) -> None:
        super().__init__()
        for n_fft, bands in SCALES:
            self.register_buffer(f"filters{n_fft}", mel_filters(n_fft, bands), persistent=False)
            self.register_buffer(f"window{n_fft}", torch.hann_window(n_fft), persistent=False)

    def log_mel(self, pcm: Tensor, n_fft: int) -> Tensor:
        window = getattr(self, f"window{n_fft}")
        spectrum = torch.stft(pcm, n_fft, n_fft // 4, window=window, return_complex=True)
        power = torch.view_as_real(spectrum).square().sum(-1)
        return torch.log(getattr(self, f"filters{n_fft}") @ (power + 1e-9).sqrt() + 1e-3)

    def forward(self, made: Tensor, true: Tensor) -> Tensor:
        """Both [B, S]."""
        total = made.new_zeros(())
        for n_fft, _ in SCALES:
            total = total + F.l1_loss(self.log_mel(made, n_fft), self.log_mel(true, n_fft))
        return total / len(SCALES)


class HarmonicLoss(nn.Module):
    """Mean difference of the lines below 1.5 kHz in long windows: harmonics stand apart there, and
    the floor hides what lies 40 dB below them.
    """

    def __init__(self) -> None:
        super().__init__()
        for n_fft, _ in LONG:
            self.register_buffer(f"window{n_fft}", torch.hann_window(n_fft), persistent=False)

    def lines(self, pcm: Tensor, n_fft: int, floor: float) -> Tensor:
        window = getattr(self, f"window{n_fft}")
        spectrum = torch.stft(pcm, n_fft, n_fft // 8, window=window, return_complex=True)
        low = torch.view_as_real(spectrum)[:, 1 : n_fft // 16].square().sum(-1)
        return torch.log((low + 1e-9).sqrt() + floor)

    def forward(self, made: Tensor, true: Tensor) -> Tensor:
        """Both [B, S]."""
        parts = [F.l1_loss(self.lines(made, *s), self.lines(true, *s)) for s in LONG]
        return torch.stack(parts).mean()


class SpectrumJudge(nn.Module):
    """2-d convolutions over a complex spectrogram."""

    window: Tensor

    def __init__(self, n_fft: int, width: int = 32) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.layers = nn.ModuleList([nn.Conv2d(2, width, (3, 9), padding=(1, 4))])
        for dilation in (1, 2, 4):
            self.layers.append(
                nn.Conv2d(
                    width,
                    width,
                    (3, 9),
                    stride=(1, 2),
                    dilation=(dilation, 1),
                    padding=(dilation, 4),
                )
            )
        self.layers.append(nn.Conv2d(width, width, 3, padding=1))
        self.last = nn.Conv2d(width, 1, 3, padding=1)
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)

    def forward(self, pcm: Tensor) -> tuple[Tensor, list[Tensor]]:
        with torch.autocast(pcm.device.type, enabled=False):
            z = torch.stft(
                pcm.float(),
                self.n_fft,
                self.n_fft // 4,
                window=self.window,
                normalized=True,
                return_complex=True,
            )
        x = torch.view_as_real(z).permute(0, 3, 2, 1) * 4
        return _judge(self, x)


class PeriodJudge(nn.Module):
    """2-d convolutions over the signal folded at a period."""

    def __init__(self, period: int, widths: tuple[int, ...] = (1, 16, 64, 128, 256)) -> None:
        super().__init__()
        self.period = period
        self.layers = nn.ModuleList(
            nn.Conv2d(a, b, (5, 1), (3, 1), padding=(2, 0)) for a, b in pairwise(widths)
        )
        self.layers.append(nn.Conv2d(widths[-1], widths[-1], (5, 1), padding=(2, 0)))
        self.last = nn.Conv2d(widths[-1], 1, (3, 1), padding=(1, 0))

    def forward(self, pcm: Tensor) -> tuple[Tensor, list[Tensor]]:
        padded = F.pad(pcm, (0, -pcm.shape[1] % self.period))
        return _judge(self, padded.view(len(pcm), 1, -1, self.period))


def _judge(judge: SpectrumJudge | PeriodJudge, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    seen = []
    x = x.contiguous(memory_format=torch.channels_last)
    for layer in judge.layers:
        x = F.leaky_relu(layer(x), 0.2)
        seen.append(x)
    return judge.last(x), seen


class Judges(nn.Module):
    """pcm [B, S] -> (score, features) of each discriminator."""

    def __init__(self) -> None:
        super().__init__()
        spectra = [SpectrumJudge(n) for n in (2048, 1024, 512, 256)]
        self.all = nn.ModuleList([*spectra, *(PeriodJudge(p) for p in (2, 3, 5, 7, 11))])
        self.to(memory_format=torch.channels_last)

    def forward(self, pcm: Tensor) -> list[tuple[Tensor, list[Tensor]]]:
        return [judge(pcm) for judge in self.all]


Verdicts = list[tuple[Tensor, list[Tensor]]]


def judge_loss(real: Verdicts, fake: Verdicts) -> Tensor:
    """Hinge: real above one, fake below minus one."""
    parts = [
        F.relu(1 - r[0].float()).mean() + F.relu(1 + f[0].float()).mean()
        for r, f in zip(real, fake, strict=True)
    ]
    return torch.stack(parts).mean()


def fool_loss(real: Verdicts, fake: Verdicts) -> tuple[Tensor, Tensor]:
    """For the decoder: adversarial and feature-matching losses."""
    fool = torch.stack([-f[0].float().mean() for f in fake]).mean()
    match = [
        (a.float() - b.float()).abs().mean() / (a.float().abs().mean() + 1e-3)
        for r, f in zip(real, fake, strict=True)
        for a, b in zip(r[1], f[1], strict=True)
    ]
    return fool, torch.stack(match).mean()
