"""Lay trained parts out as a checkpoint folder of the hub.

usage: python -m engine.voices.training.export TOKENIZER CODEC LM FOLDER
TOKENIZER: the folder of tokens.py; CODEC: that of train_codec.py; LM: that of train_lm.py.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.models.shapes import CODEC, TALKER
from engine.voices.training import sizes

EXTRACTOR = {
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "sampling_rate": 24_000,
}


def quantiser(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The decoder's codebooks from the quantiser that learned them; statistics folded away."""
    made: dict[str, Tensor] = {}
    for ours, theirs in (("first", "rvq_first"), ("rest", "rvq_rest")):
        part = {
            n.split(".", 2)[2]: t.float()
            for n, t in state.items()
            if n.startswith(f"quantiser.{ours}.")
        }
        prefix = f"{CODEC}quantizer.{theirs}."
        entries = part["sums"] / part["usage"].clamp(min=1e-5)[:, :, None]
        for level, table in enumerate(entries):
            book = f"{prefix}vq.layers.{level}._codebook."
            made[book + "embedding_sum"], made[book + "cluster_usage"] = (
                table,
                torch.ones(len(table)),
            )
        spread = torch.rsqrt(part["norm.running_var"] + 1e-5)
        made[prefix + "input_proj.weight"] = part["into.weight"] * spread[:, None, None]
        made[prefix + "output_proj.weight"] = part["out.weight"]
    return made


def decoder(folder: Path) -> dict[str, Tensor]:
    """speech_tokenizer/model.safetensors, F16."""
    state = torch.load(folder / "codec.pt", map_location="cpu")
    made = {CODEC + name: tensor for name, tensor in state.items()}
    made |= quantiser(torch.load(folder / "encoder.pt", map_location="cpu"))
    return {name: tensor.half().contiguous() for name, tensor in made.items()}


def talker(folder: Path) -> dict[str, Tensor]:
    """model.safetensors, BF16."""
    made: dict[str, Tensor] = {}
    for part in sorted(folder.glob("lm*.pt")):
        state = torch.load(part, map_location="cpu")
        made |= {TALKER + n: t.contiguous() for n, t in state.items()}
    return made


def write(tokenizer: Path, codec: Path, lm: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copyfile(tokenizer / name, folder / name)
    sizes.write(folder)
    listing = json.dumps(EXTRACTOR, indent=2) + "\n"
    for place in (folder, folder / "speech_tokenizer"):
        (place / "preprocessor_config.json").write_text(listing)
    save_file(talker(lm), folder / "model.safetensors", {"format": "pt"})
    save_file(decoder(codec), folder / "speech_tokenizer" / "model.safetensors", {"format": "pt"})


def main() -> None:
    write(*map(Path, sys.argv[1:5]))
    total = sum(f.stat().st_size for f in Path(sys.argv[4]).rglob("*") if f.is_file())
    print(f"{total / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
