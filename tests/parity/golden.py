"""What the reference package made, kept for runs without it.

python -m tests.parity.golden writes the files again; weights are a function of their names.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.config import CodecConfig
from tests.parity.cases import CUSTOM, DESIGNED, Case

FOLDER = Path(__file__).parent.parent / "golden"
CODES, SAMPLES = FOLDER / "codes.json.gz", FOLDER / "samples.npy"
FRAMES, HEARD, EVERY = 40, 100, 13  # codes a case; codec frames; of whose samples one in EVERY
EAGER = 2.0  # weight of EOS in the talker's head: rows end, at unequal times


@dataclass(frozen=True)
class Setting:
    kind: str
    size: str
    layout: str
    eager: float

    @property
    def cases(self) -> list[Case]:
        return CUSTOM if self.kind == "custom_voice" else DESIGNED

    def __str__(self) -> str:
        return " ".join(map(str, (self.kind, self.size, self.layout, self.eager)))


SETTINGS = [
    Setting(kind, size, layout, eager)
    for layout in ("full", "stream")
    for kind, size, eager in (
        ("voice_design", "1b7", 0.0),
        ("voice_design", "0b6", 0.0),
        ("voice_design", "1b7", EAGER),
        ("custom_voice", "1b7", 0.0),
    )
]


def codec_input(config: CodecConfig) -> Tensor:
    """Codes [1, q, HEARD]."""
    shape = (1, config.num_quantizers, HEARD)
    random = np.random.RandomState(0).randint(config.codebook_size, size=shape)
    return torch.from_numpy(random)


def codes() -> dict[str, list[Tensor]]:
    """The reference's codes [T, q] of each case, by setting."""
    stored = json.loads(gzip.decompress(CODES.read_bytes()))
    return {name: [torch.tensor(c) for c in said] for name, said in stored.items()}


def samples() -> Tensor:
    """One in EVERY of the reference's samples of `codec_input`."""
    return torch.from_numpy(np.load(SAMPLES))


def _said() -> Iterator[tuple[str, list[list[list[int]]]]]:
    from tests.parity import test_codes

    for setting in SETTINGS:
        yield str(setting), [c.tolist() for c in test_codes.expected(setting)]


def main() -> None:
    from engine.models.shapes import CODEC
    from tests.engine.tiny import codec_json
    from tests.parity import reference

    content = json.dumps(dict(_said()), separators=(",", ":")).encode()
    CODES.write_bytes(gzip.compress(content, mtime=0))
    decoder = reference.codec(codec_json())
    reference.fill(decoder, CODEC, seed=0)
    with torch.no_grad():
        made = decoder(codec_input(CodecConfig.parse(codec_json())))
    np.save(SAMPLES, made[0, 0, ::EVERY].numpy())


if __name__ == "__main__":
    main()
