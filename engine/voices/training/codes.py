"""Audio as codes, with what was said; and weights in half precision.

usage: python -m engine.voices.training.codes SHARDS CODEC OUT
Encodes each shard that generate.py has finished and deletes its audio, until SHARDS/stop exists.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from engine.voices.training import audio, sizes
from engine.voices.training.encoder import Encoder, Quantiser
from engine.voices.training.generate import FRAME

PIECE, MARGIN = 512, 16  # frames encoded at once, and of context on either side


EXACT = ("sums", "usage", "running_mean", "running_var")


def save(state: dict[str, Tensor], path: Path) -> None:
    """Weights in half precision, sums and statistics as they are; whole or not at all."""
    kept = {
        name: (tensor if name.endswith(EXACT) or not tensor.is_floating_point() else tensor.half())
        for name, tensor in state.items()
    }
    torch.save({n: t.detach().cpu().clone() for n, t in kept.items()}, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


@torch.no_grad()
def encode(encoder: Encoder, quantiser: Quantiser, pcm: Tensor, batch: int = 64) -> Tensor:
    """int16 PCM [N * 1920] of any length -> codes [N, levels] int16, on the CPU."""
    frames = len(pcm) // FRAME
    made = []
    for first in range(0, frames, PIECE * batch):
        pieces = []
        for start in range(first, min(first + PIECE * batch, frames), PIECE):
            left, right = (start - MARGIN) * FRAME, (start + PIECE + MARGIN) * FRAME
            piece = pcm[max(0, left) : right]
            pieces.append(nn.functional.pad(piece, (max(0, -left), 0)))
            pieces[-1] = nn.functional.pad(
                pieces[-1], (0, (PIECE + 2 * MARGIN) * FRAME - len(pieces[-1]))
            )
        with torch.autocast(pcm.device.type, torch.bfloat16, enabled=pcm.is_cuda):
            z = encoder(torch.stack(pieces).float() / 32_768)
        _, _, code, _ = quantiser(z.float())
        made.append(
            code[:, :, MARGIN:-MARGIN].transpose(1, 2).reshape(-1, sizes.LEVELS).short().cpu()
        )
    return torch.cat(made)[:frames]


def learned(folder: Path, device: str) -> tuple[Encoder, Quantiser]:
    """Encoder and quantiser of train_codec.py."""
    encoder = Encoder(sizes.WIDTH).to(device)
    quantiser = Quantiser(sizes.LEVELS, sizes.WIDTH, sizes.CODES).to(device)
    both = nn.ModuleDict({"encoder": encoder, "quantiser": quantiser}).eval()
    both.load_state_dict(torch.load(folder / "encoder.pt", map_location=device))
    return encoder, quantiser


class Spoken:
    """`codes` [N, levels] and `sounds` [N, 8] of the shards seen so far; `groups`: tags, said
    [[text, frames]], at (first frame). `held` are the groups of the shard that is only judged on.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: set[str] = set()
        self._parts: list[tuple[NDArray[np.int16], NDArray[np.uint8]]] = []
        self.groups: list[dict[str, Any]] = []
        self.held: list[dict[str, Any]] = []

    def poll(self) -> int:
        """Take in new files; how many there are."""
        for path in sorted(self._folder.glob("*.json")):
            if path.name in self._seen:
                continue
            self._seen.add(path.name)
            with np.load(path.with_suffix(".npz")) as file:
                self._parts.append((file["codes"], file["sounds"]))
            groups = json.loads(path.read_text())
            into = self.held if path.stem == audio.HELD else self.groups
            into += [{**group, "part": len(self._parts) - 1} for group in groups]
        return len(self._seen)

    def part(self, group: dict[str, Any]) -> tuple[NDArray[np.int16], NDArray[np.uint8]]:
        return self._parts[group["part"]]


def main() -> None:
    shards, codec, out = map(Path, sys.argv[1:4])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder, quantiser = learned(codec, device)
    out.mkdir(parents=True, exist_ok=True)
    start, frames, done = time.time(), 0, 0
    while True:
        stop = (shards / "stop").exists()
        for path in sorted(shards.glob("*.json")):
            shard = audio.read(path)
            codes = encode(encoder, quantiser, torch.from_numpy(shard.pcm).to(device)).numpy()
            np.savez(out / f"{path.stem}.npz", codes=codes, sounds=shard.sounds)
            (out / "new").write_text(json.dumps(shard.groups))
            (out / "new").replace(out / path.name)
            if path.stem != audio.HELD:
                path.with_suffix(".i16").unlink()
            path.rename(path.with_suffix(".done"))
            frames, done = frames + len(codes), done + 1
            if done % 200 == 0:
                hours = frames * FRAME / 24_000 / 3600
                print(f"{time.time() - start:.0f} s {done} shards {hours:.1f} h", flush=True)
        if stop:
            return
        time.sleep(2)


if __name__ == "__main__":
    main()
