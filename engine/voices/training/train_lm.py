"""Train talker and code predictor on codes, for a given time.

usage: python -m engine.voices.training.train_lm CODES TOKENIZER OUT SECONDS [--state FILE]

CODES: the folder of codes.py, which may still grow; TOKENIZER: that of tokens.py. OUT gets the
moving average of the weights, lm0.pt .. (bf16), every minute, and `done` at the end; a number in
OUT/seconds overrules SECONDS. FILE keeps the whole state: another call goes on from there.
"""

from __future__ import annotations

import argparse
import copy
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
COMPLETED = 4_096  # frames a step for the code predictor
FOLLOW = 1e-3  # how fast the average follows the weights
KEEP = 150  # seconds


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
        self.average = copy.deepcopy(speaker.state_dict())
        named_ones = dict(speaker.named_parameters())
        self.pairs = [self.average[n] for n in named_ones], list(named_ones.values())
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
        with torch.no_grad():
            torch._foreach_lerp_(*self.pairs, FOLLOW)
        return {name: loss.detach() for name, loss in losses.items()}

    def _captured(self, length: int) -> Step:
        return captured(lambda: self._learn(length), self.speaker.parameters())

    def step(self, batch: Batch, rate: float) -> dict[str, Tensor]:
        length = batch.text.shape[1]
        given = tensors(batch)
        self.rate.fill_(rate)
        if length not in self.buffers:
            self.buffers[length] = {name: t.to(self.device) for name, t in given.items()}
            begin = time.time()
            try:
                self.steps[length] = self._captured(length)
            except Exception as error:  # a compiler's; eager kernels are slower and right
                print(f"compiling failed: {str(error)[:500]}", flush=True)
                self.speaker.unfuse()
                self.steps[length] = self._captured(length)
            print(f"length {length} captured in {time.time() - begin:.1f} s", flush=True)
        for name, tensor in given.items():
            self.buffers[length][name].copy_(tensor, non_blocking=True)
        return self.steps[length]()

    def check(self, batch: Batch) -> str:
        given = {name: t.to(self.device) for name, t in tensors(batch).items()}
        losses = self.losses(**given, noise=0.0)
        return " ".join(f"{name} {float(loss.detach()):.4f}" for name, loss in losses.items())


def tensors(batch: Batch) -> dict[str, Tensor]:
    made = {name: torch.from_numpy(array) for name, array in vars(batch).items()}
    return {name: t.pin_memory() for name, t in made.items()} if torch.cuda.is_available() else made


def feed(codes: Path, tokenizer: Path, seed: int, queue: multiprocessing.Queue[Batch]) -> None:
    torch.set_num_threads(1)
    rows = Rows(Spoken(codes), ModelConfig.read(tokenizer), Tokenizer.load(tokenizer), seed)
    for batch in rows.batches():
        queue.put(batch)


def save(trainer: Trainer, out: Path) -> None:
    """The average in bf16, in parts of at most 15 MB, whole or not at all."""
    parts: list[dict[str, Tensor]] = [{}]
    size = 0
    average = {n[7:]: t for n, t in trainer.average.items() if n.startswith("talker.")}
    for name, tensor in named(trainer.speaker.talker, average).items():
        tensor = tensor.bfloat16().cpu().clone()
        if size + tensor.nbytes > 15_000_000:
            parts.append({})
            size = 0
        parts[-1][name] = tensor
        size += tensor.nbytes
    for i, part in enumerate(parts):
        torch.save(part, out / f"lm{i}.new")
        (out / f"lm{i}.new").replace(out / f"lm{i}.pt")


def keep(trainer: Trainer, file: Path, steps: int, spent: float) -> None:
    whole = {
        "speaker": trainer.speaker.state_dict(),
        "average": trainer.average,
        "optimiser": trainer.optimiser.state_dict(),
        "steps": steps,
        "spent": spent,
    }
    torch.save(whole, file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)


@torch.no_grad()
def resume(trainer: Trainer, file: Path) -> tuple[int, float]:
    """Steps and seconds behind it."""
    state = torch.load(file, map_location=trainer.device)
    trainer.speaker.load_state_dict(state["speaker"])
    for name, tensor in state["average"].items():
        trainer.average[name].copy_(tensor)
    trainer.optimiser.load_state_dict(state["optimiser"])
    for part in trainer.optimiser.param_groups:
        part["lr"] = trainer.rate
    return state["steps"], state["spent"]


def seconds(given: float, out: Path) -> float:
    try:
        return float((out / "seconds").read_text())
    except (OSError, ValueError):
        return given


def main() -> None:
    options = argparse.ArgumentParser()
    for name in ("codes", "tokenizer", "out"):
        options.add_argument(name, type=Path)
    options.add_argument("seconds", type=float, help="in all, those before a resumption included")
    options.add_argument("--state", type=Path)
    options.add_argument("--feeders", type=int, default=6)
    options.add_argument("--wait", type=int, default=60, help="files of codes to wait for")
    options.add_argument("--eager", action="store_true", help="compile nothing")
    given = options.parse_args()
    torch.manual_seed(0)
    given.out.mkdir(parents=True, exist_ok=True)
    while len(list(given.codes.glob("*.json"))) < given.wait:
        time.sleep(0.5)
    start = time.time()
    queue: multiprocessing.Queue[Batch] = multiprocessing.Queue(64)
    crew = [
        multiprocessing.Process(target=feed, args=(given.codes, given.tokenizer, i, queue))
        for i in range(given.feeders)
    ]
    for process in crew:
        process.daemon = True
        process.start()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = ModelConfig.read(given.tokenizer)
    trainer = Trainer(Speaker(config.talker), device)
    steps, spent = 0, 0.0
    if given.state and given.state.exists():
        steps, spent = resume(trainer, given.state)
    if not given.eager:
        trainer.speaker.fuse()
    start -= spent
    held = Rows(Spoken(given.codes), config, Tokenizer.load(given.tokenizer), 99)
    checked = next(held.batches(held=True))
    print(f"talker {count(trainer.speaker.talker)} M, from step {steps}", flush=True)
    saved = said = kept = time.time()
    total = seconds(given.seconds, given.out)
    while (share := (time.time() - start) / total) < 1:
        decay = 0.5 + 0.5 * math.cos(math.pi * min(1, max(0, share - 0.1) / 0.9))
        losses = trainer.step(
            queue.get(), PEAK * min(1, (steps + 1) / WARM) * (0.02 + 0.98 * decay)
        )
        steps += 1
        if steps % 4 == 0 and device == "cuda":
            torch.cuda.synchronize()
        if time.time() - said > 10 or device == "cpu":
            said, total = time.time(), seconds(given.seconds, given.out)
            values = " ".join(f"{name} {float(value):.4f}" for name, value in losses.items())
            files = len(list(given.codes.glob("*.json")))
            place = f"{said - start:.0f} of {total:.0f} s, step {steps}, {files} files"
            values += f" queue {queue.qsize()}"
            print(f"{place} {values} | held {trainer.check(checked)}", flush=True)
        if time.time() - saved > 60:
            saved = time.time()
            save(trainer, given.out)
        if given.state and time.time() - kept > KEEP:
            kept = time.time()
            keep(trainer, given.state, steps, time.time() - start)
    save(trainer, given.out)
    (given.out / "done").touch()
    print(f"{steps} steps in {time.time() - start:.0f} s", flush=True)
    for process in crew:
        process.terminate()


def count(module: nn.Module) -> str:
    return f"{sum(p.numel() for p in module.parameters()) / 1e6:.1f}"


if __name__ == "__main__":
    main()
