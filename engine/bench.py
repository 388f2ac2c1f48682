"""Engine speed beside its floor: TTFA, step time, RTF by number of streams, and a frame by part.

With --random CONFIG.json the weights are random, of the sizes in that file and in the
codec.config.json beside it. The floor is the time to read the weights of one frame (the code
predictor's once a pass) at the memory bandwidth that a large copy reaches in the same run. Prints a
table and ends with one JSON line.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from engine import checkpoint
from engine.checkpoint import Loaded
from engine.config import EngineConfig
from engine.engine import Engine
from engine.guards import FRAMES_PER_SECOND
from engine.messages import Audio, Sampling, Speak
from engine.runner import Runner
from engine.sampling import draw

DESCRIPTION = "A calm older man, low and dry, who takes his time over every word."
TEXT = (
    "The harbour was quiet when we came in, and the lamps along the wall had just been lit. "
    "Nobody asked where we had been. They gave us bread, and a place by the fire, and let us sleep."
)


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed(call: Callable[[], object], device: str, repeats: int = 20) -> dict[str, float]:
    """Milliseconds of `call`, after three warm-ups: median, min, max, n."""
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        synchronise(device)
        start = time.perf_counter()
        call()
        synchronise(device)
        times.append((time.perf_counter() - start) * 1e3)
    return {"median": median(times), "min": min(times), "max": max(times), "n": repeats}


def bandwidth(device: str) -> float:
    """Bytes a second of a large copy, read and written bytes counted."""
    size = (1 << 30) if device == "cuda" else (1 << 27)
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / timed(lambda: target.copy_(source), device)["median"] * 1e3


def frame_bytes(loaded: Loaded) -> dict[str, int]:
    """Weight bytes one frame must read at least."""

    def size(module: torch.nn.Module) -> int:
        return sum(p.numel() * p.element_size() for p in module.parameters())

    talker, predictor = loaded.talker, loaded.talker.code_predictor
    passes = loaded.config.talker.num_code_groups - 1
    return {
        "talker": size(talker.model.layers) + size(talker.codec_head),
        "code predictor": passes * size(predictor.model.layers) + size(predictor.lm_head),
        "codec": size(loaded.codec),
    }


def parts(loaded: Loaded, config: EngineConfig, rows: int) -> dict[str, dict[str, float]]:
    """Milliseconds of a frame's parts at `rows` rows, on scratch and free slots, context 128."""
    runner = Runner(loaded, replace(config, slots=max(rows, config.slots)))
    slots, device, talker = runner.slots, config.device, loaded.talker
    row = torch.arange(rows, device=device)
    seeds, counters = slots.seeds[row], torch.zeros_like(row)
    hidden = torch.randn(
        rows, loaded.config.talker.hidden_size, device=device, dtype=slots.cache.keys.dtype
    )
    codes = torch.randint(0, 512, (rows, loaded.config.talker.num_code_groups), device=device)
    positions = torch.full((rows,), 127, device=device)
    default = Sampling()
    for slot in range(rows):
        slots.open(slot, Speak(slot, "", seed=slot, talker=default, predictor=default))

    def pick(logits: torch.Tensor, codebook: int) -> torch.Tensor:
        return draw(logits, slots.predictor, row, seeds, counters, codebook)

    with torch.inference_mode():
        return {
            "talker": timed(lambda: talker.step(hidden, slots.cache, row, positions), device),
            "code predictor": timed(
                lambda: talker.code_predictor.complete(
                    hidden, codes[:, 0], talker.model.codec_embedding, pick
                ),
                device,
            ),
            "codec": timed(lambda: loaded.codec(codes[:, :, None], slots.codec, row), device),
        }


def speak(engine: Engine, streams: int, seconds: float, device: str) -> dict[str, Any]:
    """`streams` utterances started together, unpaced: TTFA, RTF of each, step times."""
    frames = round(seconds * FRAMES_PER_SECOND)
    start = time.perf_counter()
    commands = [
        Speak(n + 1, DESCRIPTION, seed=n, text=TEXT, ended=True, max_frames=frames, live=False)
        for n in range(streams)
    ]
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    made: dict[int, int] = {}
    steps = []
    while commands or engine.busy:
        before = time.perf_counter()
        events = engine.step(commands)
        synchronise(device)
        now = time.perf_counter()
        steps.append(now - before)
        commands = []
        for event in events:
            if isinstance(event, Audio):
                first.setdefault(event.utterance, now - start)
                last[event.utterance] = now - start
                made[event.utterance] = event.frame + 1
    audio = sum(made.values()) / FRAMES_PER_SECOND
    return {
        "streams": streams,
        "ttfa_ms": {"median": median(first.values()) * 1e3, "max": max(first.values()) * 1e3},
        "step_ms": {
            "median": median(steps) * 1e3,
            "min": min(steps) * 1e3,
            "max": max(steps) * 1e3,
            "n": len(steps),
        },
        "rtf": max(last[u] / (made[u] / FRAMES_PER_SECOND) for u in made),
        "audio_seconds": audio,
        "audio_seconds_a_second": audio / max(last.values()),
    }


def random(config: Path, device: str) -> Loaded:
    """Random weights by a config file and the codec.config.json beside it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "speech_tokenizer").mkdir()
        shutil.copyfile(config, folder / "config.json")
        codec = config.with_name("codec.config.json")
        shutil.copyfile(codec, folder / "speech_tokenizer" / "config.json")
        return checkpoint.random(folder, device, seed=0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="engine.bench", description=__doc__)
    parser.add_argument("--model", default="", help="folder or hub id; default: embedded voice")
    parser.add_argument("--random", type=Path, help="config file: random weights of its sizes")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--weights", default="auto", choices=["auto", "full", "int8"])
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument(
        "--seconds", type=float, default=8.0, help="audio of each utterance, at most"
    )
    parser.add_argument("--graphs", action="store_true", help="CUDA: whole frames as graphs")
    parser.add_argument("--chunk", type=int, default=EngineConfig.chunk, help="rows of a prefill")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    if options.graphs and not (options.device == "cuda" and find_spec("triton")):
        parser.error("--graphs needs --device cuda and Triton: pip install 'vivavoce[gpu]'")
    if options.threads:
        torch.set_num_threads(options.threads)
    config = EngineConfig(
        device=options.device,
        slots=max(options.streams),
        graphs=options.graphs,
        chunk=options.chunk,
    )
    if options.random:
        loaded = random(options.random, options.device)
    else:
        loaded = checkpoint.load(options.model, options.device, print, options.weights)
    machine = (
        torch.cuda.get_device_name()
        if options.device == "cuda"
        else platform.processor() or platform.machine()
    )
    print(
        f"{loaded.name} on {machine}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    )
    rate, needed = bandwidth(options.device), frame_bytes(loaded)
    result: dict[str, Any] = {"model": loaded.name, "machine": machine, "bandwidth": rate}
    print(f"\ncopy {rate / 1e9:,.0f} GB/s\n\n{'part':16}{'rows':>6}{'ms':>10}{'floor ms':>10}")
    result["parts"] = {}
    for rows in sorted({1, max(options.streams)}):
        result["parts"][rows] = parts(loaded, config, rows)
        for name, t in result["parts"][rows].items():
            print(f"{name:16}{rows:6}{t['median']:10.2f}{needed[name] / rate * 1e3:10.3f}")
    result["floor_ms"] = sum(needed.values()) / rate * 1e3
    engine = Engine(loaded, config, time.monotonic)
    engine.warm_up()
    heads = ("streams", "TTFA ms", "step ms", "max", "RTF", "audio s/s", "x floor")
    print("\n" + "".join(f"{head:>10}" for head in heads))
    result["streams"] = []
    for streams in options.streams:
        r = speak(engine, streams, options.seconds, options.device)
        result["streams"].append(r)
        step, share = r["step_ms"], r["step_ms"]["median"] / result["floor_ms"]
        print(
            f"{streams:10}{r['ttfa_ms']['median']:10.1f}{step['median']:10.2f}{step['max']:10.2f}"
            f"{r['rtf']:10.3f}{r['audio_seconds_a_second']:10.2f}{share:10.1f}"
        )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
