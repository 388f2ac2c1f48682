"""All audio as codes, packed to ten bits, with what was said; and weights in parts that travel."""

from __future__ import annotations

import gzip
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from engine.voices.training import sizes
from engine.voices.training.audio import Audio
from engine.voices.training.encoder import Encoder, Quantiser
from engine.voices.training.generate import FRAME

BITS = 10
PART = 1_550_000  # frames in a file: 15.5 MB
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
        _, code, _ = quantiser(z.float())
        made.append(
            code[:, :, MARGIN:-MARGIN].transpose(1, 2).reshape(-1, sizes.LEVELS).short().cpu()
        )
    return torch.cat(made)[:frames]


def pack(codes: NDArray[np.int16]) -> bytes:
    bits = (codes[:, :, None] >> np.arange(BITS)) & 1
    return np.packbits(bits.astype(np.uint8).reshape(-1)).tobytes()


def unpack(packed: bytes) -> NDArray[np.int16]:
    bits = np.unpackbits(np.frombuffer(packed, np.uint8)).reshape(-1, sizes.LEVELS, BITS)
    return (bits.astype(np.int16) << np.arange(BITS, dtype=np.int16)).sum(-1).astype(np.int16)


def write(encoder: Encoder, quantiser: Quantiser, audio: Audio, out: Path) -> None:
    start = time.time()
    made = encode(encoder, quantiser, audio.pcm[: audio.filled]).numpy()
    for part in range(0, len(made), PART):
        (out / f"codes{part // PART}.bin").write_bytes(pack(made[part : part + PART]))
    with gzip.open(out / "phones.gz", "wb", compresslevel=5) as file:
        file.write(np.concatenate(audio.phones).tobytes())
    with gzip.open(out / "groups.json.gz", "wt", compresslevel=6) as file:
        json.dump(audio.groups, file)
    print(f"{len(made)} frames of codes in {time.time() - start:.0f} s", flush=True)


@dataclass
class Spoken:
    """`codes` [N, levels] of everything; `groups`: tags, said [[text, frames]], at (first frame);
    `phones` [N, 4]: what sounds in each 20 ms.
    """

    codes: NDArray[np.int16]
    groups: list[dict[str, Any]]
    phones: NDArray[np.uint8]

    @classmethod
    def read(cls, folder: Path) -> Spoken:
        parts = sorted(folder.glob("codes*.bin"))
        codes = np.concatenate([unpack(part.read_bytes()) for part in parts])
        with gzip.open(folder / "phones.gz") as file:
            phones = np.frombuffer(file.read(), np.uint8).reshape(-1, 4)
        with gzip.open(folder / "groups.json.gz", "rt") as file:
            return cls(codes, json.load(file), phones)
