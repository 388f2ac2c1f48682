"""Train talker and code predictor on codes, for a given time.

usage: python -m engine.voices.training.train_lm CODES TOKENIZER OUT SECONDS [--state FILE]

CODES: the folder of codes.py; TOKENIZER: that of tokens.py. OUT gets lm0.pt to lm2.pt (bf16) every
minute; FILE keeps the whole state, so that a second call goes on where the first one ended.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import ModelConfig
from engine.tokenizer import Tokenizer
from engine.voices.training import sizes
from engine.voices.training.codes import Spoken
from engine.voices.training.graph import Step, captured, rates
from engine.voices.training.modules import Speaker, named
from engine.voices.training.rows import Batch, Rows

PEAK, WARM = 1.2e-3, 400
NOISE = 0.12  # share of the heard codes that are replaced, and of frames unheard
COMPLETED = 3_072  # frames a step for the code predictor
HELD = 64  # groups that are never trained on


class Trainer:
    """One set of static buffers and one captured step per row length."""

    def __init__(self, speaker: Speaker, device: str) -> None:
        self.speaker, self.device = speaker.to(device), device
        flags, self.amp = rates(device)
        self.rate = torch.zeros((), device=device)
        matrices = [p for p in speaker.parameters() if p.dim() > 1]
        vectors = [p for p in speaker.parameters() if p.dim() <= 1]
        parts = [
            {"params": matrices, "weight_decay": 0.05},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(parts, self.rate, (0.9, 0.95), **flags)
        self.buffers: dict[int, dict[str, Tensor]] = {}
        self.steps: dict[int, Step] = {}

    def losses(
        self,
        text: Tensor,
        codec: Tensor,
        frames: Tensor,
        label: Tensor,
        phones: Tensor,
        noise: float,
    ) -> dict[str, Tensor]:
        speaker = self.speaker
        text, codec, frames, label, phones = (
            t.long() for t in (text, codec, frames, label, phones)
        )
        heard = frames.clamp(min=0)
        if noise:
            wrong = torch.rand(frames.shape, device=frames.device) < noise
            heard = torch.where(wrong, torch.randint_like(heard, sizes.CODES), heard)
        shown = frames[..., 0] >= 0
        if noise:
            shown = shown & (torch.rand(shown.shape, device=shown.device) > noise)
        with self.amp():
            x = speaker.vectors(text, codec, heard, shown)
            hidden, sounds = speaker.hear(x)
            reading = F.cross_entropy(
                sounds.flatten(0, 2).float(), phones.flatten(), ignore_index=-1
            )
            logits = speaker.talker.logits(hidden)
            talker = F.cross_entropy(logits.flatten(0, 1).float(), label.flatten(), ignore_index=-1)
            # Frames to complete: the position before shows the hidden state, the label says code 0.
            following = torch.roll(frames, -1, 1)
            due = ((label >= 0) & (label < sizes.CODES)).flatten()
            order = torch.rand(due.shape, device=due.device) * due
            chance, chosen = order.topk(min(COMPLETED, len(due)))
            codes = following.flatten(0, 1)[chosen].clamp(min=0)
            rest = speaker.complete(hidden.flatten(0, 1).index_select(0, chosen), codes)
            target = torch.where((chance > 0)[:, None], codes[:, 1:], -1)
            predictor = F.cross_entropy(
                rest.flatten(0, 1).float(), target.flatten(), ignore_index=-1
            )
        return {"talker": talker, "predictor": predictor, "reading": reading}

    def _learn(self, length: int) -> dict[str, Tensor]:
        losses = self.losses(**self.buffers[length], noise=NOISE)
        sum(losses.values()).backward()
        nn.utils.clip_grad_norm_(self.speaker.parameters(), 1.0)
        self.optimiser.step()
        return {name: loss.detach() for name, loss in losses.items()}

    def step(self, batch: Batch, rate: float) -> dict[str, Tensor]:
        length = batch.text.shape[1]
        given = tensors(batch)
        self.rate.fill_(rate)
        if length not in self.buffers:
            self.buffers[length] = {name: t.to(self.device) for name, t in given.items()}
            begin = time.time()
            self.steps[length] = captured(lambda: self._learn(length), self.speaker.parameters())
            print(f"length {length} captured in {time.time() - begin:.1f} s", flush=True)
        for name, tensor in given.items():
            self.buffers[length][name].copy_(tensor, non_blocking=True)
        return self.steps[length]()

    @torch.no_grad()
    def check(self, batch: Batch) -> str:
        given = {name: t.to(self.device) for name, t in tensors(batch).items()}
        self.speaker.eval()
        losses = self.losses(**given, noise=0.0)
        self.speaker.train()
        return " ".join(f"{name} {float(loss):.4f}" for name, loss in losses.items())


def tensors(batch: Batch) -> dict[str, Tensor]:
    made = {name: torch.from_numpy(array) for name, array in vars(batch).items()}
    return {name: t.pin_memory() for name, t in made.items()} if torch.cuda.is_available() else made


def feed(spoken: Spoken, tokenizer: Path, seed: int, queue: multiprocessing.Queue[Batch]) -> None:
    torch.set_num_threads(1)
    rows = Rows(spoken, ModelConfig.read(tokenizer), Tokenizer.load(tokenizer), seed)
    for batch in rows.batches(rows.spoken.groups[HELD:]):
        queue.put(batch)


def save(speaker: Speaker, out: Path) -> None:
    """bf16, in parts of at most 15 MB, whole or not at all."""
    parts: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in named(speaker.talker).items():
        tensor = tensor.bfloat16().cpu().clone()
        if size + tensor.nbytes > 15_000_000:
            parts.append({})
            size = 0
        parts[-1][name] = tensor
        size += tensor.nbytes
    for i, part in enumerate(parts):
        torch.save(part, out / f"lm{i}.new")
        (out / f"lm{i}.new").replace(out / f"lm{i}.pt")


def main() -> None:
    options = argparse.ArgumentParser()
    for name in ("codes", "tokenizer", "out"):
        options.add_argument(name, type=Path)
    options.add_argument("seconds", type=float)
    options.add_argument("--state", type=Path)
    options.add_argument("--init", type=Path, help="lm*.pt to start from; not the talker's layers")
    options.add_argument("--feeders", type=int, default=8)
    options.add_argument(
        "--floor", type=float, default=0.03, help="last learning rate, of the peak"
    )
    given = options.parse_args()
    torch.manual_seed(0)
    start = time.time()
    spoken = Spoken.read(given.codes)
    queue: multiprocessing.Queue[Batch] = multiprocessing.Queue(48)
    steps = 0
    crew = [
        multiprocessing.Process(target=feed, args=(spoken, given.tokenizer, i, queue), daemon=True)
        for i in range(given.feeders)
    ]
    for process in crew:
        process.start()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = ModelConfig.read(given.tokenizer)
    speaker = Speaker(config.talker)
    if given.init:
        speaker.take(sorted(given.init.glob("lm*.pt")))
    trainer = Trainer(speaker, device)
    peak = PEAK
    if given.state and given.state.exists():
        state = torch.load(given.state, map_location=device)
        trainer.speaker.load_state_dict(state["speaker"])
        steps, peak = state["steps"], state["rate"]
    rows = Rows(spoken, config, Tokenizer.load(given.tokenizer), 99)
    seconds = sum(sum(n for _, n in g["said"]) for g in rows.spoken.groups) * 0.08
    print(f"{seconds / 3600:.1f} h; talker {count(speaker.talker)} M", flush=True)
    checked = next(iter(rows.batches(rows.spoken.groups[:HELD])))
    begin = steps
    saved = said = time.time()
    while (share := (time.time() - start) / given.seconds) < 1:
        decay = 0.5 + 0.5 * math.cos(math.pi * min(1, max(0, share - 0.1) / 0.9))
        rate = peak * min(1, (steps + 1) / WARM) * (given.floor + (1 - given.floor) * decay)
        losses = trainer.step(queue.get(), rate)
        steps += 1
        if steps % 4 == 0 and device == "cuda":
            torch.cuda.synchronize()
        if time.time() - said > 10 or device == "cpu":
            said = time.time()
            values = " ".join(f"{name} {float(value):.4f}" for name, value in losses.items())
            place = f"{said - start:.0f} s step {steps} rate {rate:.1e} queue {queue.qsize()}"
            print(f"{place} {values} | held {trainer.check(checked)}", flush=True)
        if time.time() - saved > 60:
            saved = time.time()
            save(trainer.speaker, given.out)
    save(trainer.speaker, given.out)
    if given.state:
        whole = {
            "speaker": trainer.speaker.state_dict(),
            "steps": steps,
            "rate": peak * given.floor * 3,
        }
        torch.save(whole, given.state)
    print(f"{steps - begin} steps in {time.time() - start:.0f} s", flush=True)
    for process in crew:
        process.terminate()


def count(module: nn.Module) -> str:
    return f"{sum(p.numel() for p in module.parameters()) / 1e6:.1f}"


if __name__ == "__main__":
    main()
