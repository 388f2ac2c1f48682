"""Our engine's own runner, led step by step: greedy codes and samples of given prompts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine import prompt
from engine.checkpoint import Loaded
from engine.config import EngineConfig
from engine.messages import Sampling, Speak
from engine.plan import Decode, Made, Plan, Prefill, Reset
from engine.prompt import Row
from engine.runner import Runner
from engine.tokenizer import Tokenizer
from tests.engine import voice
from tests.engine.tiny import TOKENIZER
from tests.parity.cases import Case
from tests.parity.golden import Setting

TALKER = Sampling(greedy=True, repetition_penalty=1.05)
PREDICTOR = Sampling(greedy=True, repetition_penalty=1.0)
CHUNK = 16


def tiny(setting: Setting) -> Loaded:
    """The tiny model of a setting."""
    config = voice.config(setting.kind, setting.size)
    talker = voice.talker(setting.size, kind=setting.kind)
    talker.codec_head.weight[config.talker.codec_eos_token_id] *= setting.eager
    return Loaded("tiny", config, talker, voice.codec(), Tokenizer.load(TOKENIZER))


class Speaker:
    """One utterance on slot `slot`: its prompt, then its text token by token."""

    def __init__(self, loaded: Loaded, case: Case, layout: str, slot: int) -> None:
        config, encode = loaded.config, loaded.tokenizer.encode
        text = encode(case.text)
        rows = prompt.opening(config, encode, case.instruct, case.language, case.speaker)
        self.later: list[int] = []
        if layout == "stream":
            rows += prompt.stream(config, text[0])
            self.later = [*text[1:], config.tts_eos_token_id]
        else:
            rows += prompt.full(config, text)
        self.rows: list[Row] = rows
        self.pad, self.slot, self.position = config.tts_pad_token_id, slot, 0
        self.made: list[Made] = []
        self.ended = False

    def chunk(self) -> Prefill:
        start, rows = self.position, tuple(self.rows[self.position : self.position + CHUNK])
        self.position += len(rows)
        emit = self.position == len(self.rows)
        return Prefill(self.slot + 1, self.slot, self.slot, start, rows, emit=emit)

    def step(self) -> Decode:
        text = self.later.pop(0) if self.later else self.pad
        at, draw = self.position, len(self.made)
        self.position += 1
        return Decode(self.slot + 1, self.slot, self.slot, at, text, draw, barred=draw < 2)

    def take(self, made: Made) -> None:
        self.ended = self.ended or made.ended
        if not made.ended:
            self.made.append(made)

    def codes(self) -> Tensor:
        """[T, q]"""
        frames = [np.frombuffer(m.codes, np.int16) for m in self.made]
        return torch.from_numpy(np.stack(frames).astype(np.int64))


def speak(loaded: Loaded, cases: Sequence[Case], layout: str, frames: int) -> list[Tensor]:
    """Codes [T, q] of each case; all speak side by side, each from the step its prompt is done."""
    runner = Runner(loaded, EngineConfig(slots=len(cases), positions=512))
    speakers = [Speaker(loaded, case, layout, slot) for slot, case in enumerate(cases)]
    opening = Speak(0, "", seed=0, talker=TALKER, predictor=PREDICTOR)
    resets = tuple(Reset(s.slot, opening) for s in speakers)
    while True:
        running = [s for s in speakers if not s.ended and len(s.made) < frames]
        if not running:
            return [s.codes() for s in speakers]
        decodes = [s for s in running if s.made]
        prefills = [(s, s.chunk()) for s in running if not s.made]
        plan = Plan(resets, tuple(p for _, p in prefills), tuple(s.step() for s in decodes))
        emitting = decodes + [s for s, p in prefills if p.emit]
        for speaker, made in zip(emitting, runner.run(plan), strict=True):
            speaker.take(made)
        resets = ()
