"""What a `speak` becomes: an utterance here, and the command that tells the engine of it. PURE."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from engine import messages as engine

from . import english
from .capabilities import FRAME_RATE, Capabilities
from .protocol import Speak
from .resuming import resumed
from .script import Script
from .states import State
from .utterance import Utterance


def opened(
    message: Speak, served: Capabilities, ident: int, seed: int, continues: int, now: float
) -> tuple[Utterance, engine.Speak]:
    """A new utterance and the command that tells the engine of it."""
    utterance = Utterance(
        name=message.utterance,
        id=ident,
        seed=seed,
        rate=served.rate,
        frame_samples=served.frame_samples,
        format=message.format or served.formats[0],
        progress=message.progress,
        journal=message.journal,
        words=message.words,
        opened_at=now,
        script=Script(message.clean == "auto", english.say if served.spell_numbers else None),
        state=State.SEALED if message.ends else State.WAITING,
        ended=message.ends,
    )
    sampling = message.sampling
    speak = engine.Speak(
        utterance=ident,
        instruct=message.voice.instruct,
        seed=seed,
        speaker=message.voice.speaker,
        language=message.language,
        talker=sampling.talker if sampling else served.talker,
        predictor=sampling.predictor if sampling else served.predictor,
        layout=message.layout,
        carry=message.carry,
        max_frames=ceil((message.max_seconds or served.seconds) * FRAME_RATE),
        live=message.pace == "live",
        continues=continues,
    )
    most = served.limits.utterance_text_bytes
    if message.resume:
        speak = resumed(utterance, speak, message.resume, message.text, message.end, most)
    else:
        text = utterance.hear(message.text, None, most, now)
        text += utterance.script.rest() if message.end else ""
        speak = replace(speak, text=text, ended=message.end)
    utterance.text_seq = 0  # counts text messages; the text of speak is none
    return utterance, speak
