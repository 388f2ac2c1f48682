"""Whole frames as CUDA graphs: the codes of the plain engine, whatever the company."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from engine import checkpoint
from engine.checkpoint import Loaded
from engine.config import EngineConfig
from engine.engine import Engine
from engine.messages import Audio, Event, Sampling, Speak
from tests.engine import tiny

ROOT = Path(__file__).parent.parent.parent
TEXT = "The quick brown fox jumps over the lazy dog. It was a bright cold day in April."
SAMPLED = Sampling(temperature=0.9, top_k=50, repetition_penalty=1.05)
GREEDY = Sampling(greedy=True)
NUCLEUS = Sampling(temperature=0.9, top_k=0, top_p=0.8)


def wide() -> dict[str, Any]:
    """Sizes that the kernels take; `tiny` itself is for PyTorch's operations."""
    config = tiny.config_json()
    talker = config["talker_config"]
    talker |= {
        "hidden_size": 256,
        "intermediate_size": 384,
        "head_dim": 64,
        "text_hidden_size": 128,
    }
    predictor = talker["code_predictor_config"]
    predictor |= {"hidden_size": 128, "intermediate_size": 256, "head_dim": 32}
    talker["vocab_size"] = predictor["vocab_size"] + 1024
    return config


SIZES = pytest.mark.parametrize("config", [tiny.config_json(), wide()], ids=["tiny", "wide"])


def on_cuda(plain: Loaded, dtype: torch.dtype, device: str = "cuda") -> Loaded:
    """The same weights on the GPU."""
    talker, codec = checkpoint.empty(plain.config, device)
    talker = talker.to(dtype)
    for mine, theirs in ((talker, plain.talker), (codec, plain.codec)):
        state = theirs.state_dict()
        mine.load_state_dict({name: state[name] for name in mine.state_dict()})
        mine.fold()
    return Loaded(plain.name, plain.config, talker, codec, plain.tokenizer)


def spoken(loaded: Loaded, device: str, speaks: list[list[Speak]]) -> dict[int, list[Audio]]:
    """Each list of utterances begins three steps after the one before."""
    slots = sum(len(s) for s in speaks)
    config = EngineConfig(device=device, slots=max(slots, 2), graphs=device == "cuda")
    engine = Engine(loaded, config, lambda: 0.0)
    engine.warm_up()
    events: list[Event] = []
    for group in speaks:
        for commands in (group, [], []):
            events += engine.step(commands)
    while engine.busy:
        events += engine.step([])
    found: dict[int, list[Audio]] = {}
    for event in events:
        if isinstance(event, Audio):
            found.setdefault(event.utterance, []).append(event)
    return found


def speak(n: int, s: Sampling = SAMPLED, frames: int = 12) -> Speak:
    return Speak(
        n, "a calm man", seed=n, text=TEXT, ended=True, max_frames=frames, live=False, talker=s,
        predictor=s,
    )  # fmt: skip


def test_the_bench_says_what_graphs_need() -> None:
    command = [sys.executable, "-m", "engine.bench", "--graphs", "--device", "cpu"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 2
    assert "--graphs needs --device cuda and Triton" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.gpu
@SIZES
@pytest.mark.parametrize("s", [GREEDY, SAMPLED, NUCLEUS], ids=["greedy", "sampled", "nucleus"])
def test_in_fp32_the_codes_are_those_of_the_cpu(
    config: dict[str, Any], s: Sampling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    tiny.write_checkpoint(tmp_path, config)
    plain = checkpoint.load(str(tmp_path), "cpu", print, "full")
    right = spoken(plain, "cpu", [[speak(1, s), speak(2, s)]])
    found = spoken(on_cuda(plain, torch.float32), "cuda", [[speak(1, s), speak(2, s)]])
    for n in (1, 2):
        assert [a.codes for a in found[n]] == [a.codes for a in right[n]]
        assert len(found[n]) == 12
        for mine, theirs in zip(found[n], right[n], strict=True):
            a, b = (torch.frombuffer(bytearray(x.pcm), dtype=torch.int16) for x in (mine, theirs))
            assert int((a.int() - b.int()).abs().max()) <= 2


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_company_never_changes_the_codes(dtype: torch.dtype, tmp_path: Path) -> None:
    tiny.write_checkpoint(tmp_path, wide())
    loaded = on_cuda(checkpoint.load(str(tmp_path), "cpu", print, "full"), dtype)
    alone = spoken(loaded, "cuda", [[speak(1, frames=40)]])[1]
    others = [[speak(n, frames=n) for n in range(2 + 5 * i, 7 + 5 * i)] for i in range(4)]
    among = spoken(loaded, "cuda", [others[0], [speak(1, frames=40)], *others[1:]])[1]
    assert [a.codes for a in among] == [a.codes for a in alone]
    assert len(alone) == 40
