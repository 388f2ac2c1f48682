"""Train encoder, quantiser and codec decoder on shards, for a given time.

usage: python -m engine.voices.training.train_codec SHARDS OUT SECONDS [--hours H]

A tenth of the time without quantisation, a quarter with mel loss only, then with discriminators;
towards the end the codes stand still and only the decoder learns. OUT gets codec.pt (decoder)
and encoder.pt (encoder and quantiser) every minute, and `done` at the end.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from engine.voices.training import audio, codes, sizes
from engine.voices.training.audio import Audio
from engine.voices.training.encoder import Encoder, Hints, Quantiser
from engine.voices.training.generate import FRAME
from engine.voices.training.graph import captured, rates
from engine.voices.training.listen import pitch
from engine.voices.training.losses import HarmonicLoss, Judges, MelLoss, fool_loss, judge_loss
from engine.voices.training.modules import PHONES, codec_for_training, named
from engine.voices.training.snake import Snake

FRAMES, SKIP, JUDGED = 32, 3, 12  # of an excerpt: all, the causal start, what discriminators see
QUANTISE, JUDGE, FREEZE = 0.07, 0.36, 0.72  # shares of the time when each begins
PEAK = 8e-4
WEIGHTS = {"mel": 15.0, "harmonics": 8.0, "q": 0.25, "phone": 1.0, "voiced": 1.0, "octaves": 6.0}


class Trainer:
    def __init__(self, audio: Audio, device: str, batch: int) -> None:
        self.audio, self.device, self.batch = audio, device, batch
        self.encoder = Encoder(sizes.WIDTH).to(device)
        self.quantiser = Quantiser(sizes.LEVELS, sizes.WIDTH, sizes.CODES).to(device)
        self.codec = codec_for_training().to(device)
        self.hints = Hints(sizes.WIDTH, PHONES).to(device)
        self.judges, self.mel = Judges().to(device), MelLoss().to(device)
        self.harmonics = HarmonicLoss().to(device)
        keep_variance(self.encoder)
        keep_variance(self.quantiser)
        keep_variance(self.codec)
        with torch.no_grad():
            self.codec.decoder[-1].conv.weight.mul_(0.01)
        self.on = torch.ones(sizes.LEVELS, device=device)
        self.rate, self.judge_rate = (torch.zeros((), device=device) for _ in range(2))
        flags, self.amp = rates(device)
        learning = (self.encoder, self.quantiser, self.codec, self.hints)
        self.made = [p for m in learning for p in m.parameters()]
        self.judging = list(self.judges.parameters())
        betas = (0.8, 0.99)
        self.optimiser = torch.optim.AdamW(self.made, self.rate, betas, weight_decay=1e-3, **flags)
        self.judge = torch.optim.AdamW(self.judging, self.judge_rate, betas, **flags)

    def excerpt(self, kind: str) -> tuple[Tensor, Tensor, dict[str, Tensor], Tensor]:
        """-> true and made PCM without the causal start, losses by name, their weighted sum."""
        true, sounds = self.audio.draw(self.batch, FRAMES)
        losses: dict[str, Tensor] = {}
        with torch.set_grad_enabled(kind != "frozen"):
            with self.amp():
                z = self.encoder(true).float()
            if kind == "plain":
                latents, first = self.quantiser.plain(z)
            else:
                learns = None if kind == "frozen" else self.on
                latents, first, _, losses["q"] = self.quantiser(z, learns)
            if kind != "frozen":
                with self.amp():
                    losses |= self.hints(latents, first, sounds)
        with self.amp():
            made = self.codec.synthesize(latents)
        true, made = true[:, SKIP * FRAME :], made.float()[:, SKIP * FRAME :]
        losses |= {"mel": self.mel(made, true), "harmonics": self.harmonics(made, true)}
        total = sum(WEIGHTS[name] * loss for name, loss in losses.items())
        return true, made, {n: loss.detach() for n, loss in losses.items()}, total

    def plain(self, kind: str) -> dict[str, Tensor]:
        _, _, losses, loss = self.excerpt(kind)
        self._learn(loss)
        return losses

    def judged(self, kind: str) -> dict[str, Tensor]:
        true, made, losses, loss = self.excerpt(kind)
        true, made = true[:16, -JUDGED * FRAME :], made[:16, -JUDGED * FRAME :]
        for parameter in self.judging:
            parameter.requires_grad_(True)
        with self.amp():
            losses["judge"] = judge_loss(self.judges(true), self.judges(made.detach()))
        losses["judge"].backward()
        nn.utils.clip_grad_norm_(self.judging, 10.0)
        self.judge.step()
        for parameter in self.judging:
            parameter.requires_grad_(False)
        with self.amp():
            with torch.no_grad():
                real = self.judges(true)
            fool, match = fool_loss(real, self.judges(made))
        self._learn(loss + 2 * fool + 8 * match)
        return {
            **losses,
            "judge": losses["judge"].detach(),
            "fool": fool.detach(),
            "match": match.detach(),
        }

    def _learn(self, loss: Tensor) -> None:
        loss.backward()
        nn.utils.clip_grad_norm_([p for p in self.made if p.grad is not None], 5.0)
        self.optimiser.step()

    @torch.no_grad()
    def fill(self) -> None:
        """Codebooks start on data."""
        with self.amp():
            z = torch.cat([self.encoder(self.audio.draw(self.batch, FRAMES)[0]) for _ in range(8)])
        for part in (self.quantiser.first, self.quantiser.rest):
            x = part.project(z.float())
            part.fill(x.transpose(1, 2).reshape(-1, x.shape[1]))

    @torch.no_grad()
    def check(self, groups: int = 16) -> str:
        """Pitch of unseen voices as it comes back: true and made medians in Hz."""
        path = self.audio.folder / f"{audio.HELD}.json"
        if not path.exists():
            return ""
        shard = audio.read(path)
        pcm = torch.from_numpy(shard.pcm).to(self.device)
        training, fused = self.quantiser.training, Snake.fused
        self.quantiser.eval()
        Snake.fused = False
        pairs = []
        for group in shard.groups[:groups]:
            true = pcm[group["at"] * FRAME :][: 32 * FRAME].float()[None] / 32_768
            with self.amp():
                made = self.codec.synthesize(self.quantiser(self.encoder(true).float())[0])
            pairs.append((pitch(true[0].cpu().numpy()), pitch(made[0].float().cpu().numpy())))
        self.quantiser.train(training)
        Snake.fused = fused
        off = np.median([abs(b / a - 1) for a, b in pairs if a])
        listing = " ".join(f"{a:.0f}/{b:.0f}" for a, b in sorted(pairs))
        return f"pitch off by {off:.3f}: {listing}"

    def save(self, folder: Path) -> None:
        codes.save(named(self.codec), folder / "codec.pt")
        learned = nn.ModuleDict({"encoder": self.encoder, "quantiser": self.quantiser})
        codes.save(learned.state_dict(), folder / "encoder.pt")


def keep_variance(model: nn.Module) -> None:
    """The production decoder's default start hardly passes a signal; this one keeps its size."""
    for name, module in model.named_modules():
        if isinstance(module, nn.ConvTranspose1d):
            fan = module.in_channels * module.kernel_size[0] / module.stride[0]
        elif isinstance(module, nn.Conv1d):
            fan = module.in_channels / module.groups * module.kernel_size[0]
        elif isinstance(module, nn.Linear):
            fan = module.in_features
        else:
            continue
        residual = name.rsplit(".", 1)[-1] == "second" or "conv2" in name
        nn.init.normal_(module.weight, std=fan**-0.5 * (0.4 if residual else 1))
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    for name, parameter in model.named_parameters():
        if name.endswith(("gamma", "layer_scale.scale")):
            nn.init.constant_(parameter, 0.1)


def phase(share: float) -> tuple[str, bool]:
    """(how the codes are made, with discriminators)."""
    if share < QUANTISE:
        return "plain", False
    return ("learning", share >= JUDGE) if share < FREEZE else ("frozen", True)


def train(trainer: Trainer, out: Path, seconds: float) -> None:
    start = saved = said = time.time()
    steps, now, step = 0, ("", False), dict
    while (share := (time.time() - start) / seconds) < 1:
        if phase(share) != now:
            kind, judged = now = phase(share)
            if kind == "learning" and not judged:
                trainer.fill()
            body = trainer.judged if judged else trainer.plain
            trainer.quantiser.train(kind != "frozen")
            begin = time.time()
            step = captured(lambda b=body, k=kind: b(k), trainer.made + trainer.judging)
            print(f"{now} captured in {time.time() - begin:.1f} s", flush=True)
        decay = 0.5 + 0.5 * math.cos(math.pi * min(1, max(0, share - 0.1) / 0.9))
        rate = PEAK * min(1, (steps + 10) / 300) * (0.03 + 0.97 * decay)
        trainer.rate.fill_(rate)
        trainer.judge_rate.fill_(rate / 2)
        used = sizes.LEVELS if steps % 4 else 1 + int(torch.randint(sizes.LEVELS, ()))
        trainer.on.copy_((torch.arange(sizes.LEVELS) < used).float())
        losses = step()
        steps += 1
        if steps % 8 == 0 and trainer.device == "cuda":
            torch.cuda.synchronize()
        if time.time() - said > 10 or trainer.device == "cpu":
            said = time.time()
            hours = trainer.audio.poll()
            values = " ".join(f"{name} {float(value):.4f}" for name, value in losses.items())
            seen = [
                int((u > 0.3).sum())
                for u in (trainer.quantiser.first.usage[0], trainer.quantiser.rest.usage[-1])
            ]
            place = f"{said - start:.0f} s step {steps} rate {rate:.1e}"
            print(f"{place} {values} used {seen} of {hours:.1f} h", flush=True)
            if not math.isfinite(float(losses["mel"])):
                raise SystemExit("the loss is not finite")
        if time.time() - saved > 60:
            saved = time.time()
            trainer.save(out)
            print(trainer.check(), flush=True)
    trainer.save(out)
    (out / "done").touch()
    print(trainer.check(48), flush=True)
    print(f"{steps} steps in {time.time() - start:.0f} s", flush=True)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("shards", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("seconds", type=float)
    options.add_argument("--hours", type=float, default=66, help="hours of speech to hold")
    options.add_argument("--start", type=float, default=1.0, help="hours to wait for")
    options.add_argument("--batch", type=int, default=32)
    given = options.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    given.out.mkdir(parents=True, exist_ok=True)
    heard = Audio(given.shards, given.hours, device)
    while heard.poll() < given.start:
        time.sleep(0.5)
    Snake.fused = device == "cuda"
    trainer = Trainer(heard, device, given.batch)
    train(trainer, given.out, given.seconds)


if __name__ == "__main__":
    main()
