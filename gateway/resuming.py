"""An utterance that goes on behind what its client has: the field, and what it becomes. PURE.

Law: the client's word is checked for its form here and for its sense by the engine; whoever makes
it up gets speech, an error, and nobody else's words.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

from engine import messages as engine

from . import fields as check
from .capabilities import FRAME_RATE, Capabilities
from .encoder import Plain
from .errors import Refusal
from .fields import Field, read
from .journal import Journal
from .records import Continued, Decision
from .records import read as decisions

if TYPE_CHECKING:
    from .utterance import Utterance


@dataclass(frozen=True)
class Resume:
    """`speak.resume`."""

    seed: int
    text: str  # that was sent; the rest follows
    ended: bool
    codes: bytes  # of `seq` frames
    seq: int
    flushes: tuple[int, ...]  # characters of `text` before each
    flushed: int  # of them are answered
    words: int  # were told
    journal: list[Decision]

    def agree(self, seed: int | None, text: str, continues: str | None) -> None:
        """The rest of the `speak` says nothing else. Raises Refusal."""
        if seed is not None and seed != self.seed:
            said = "speak.seed is not the seed of speak.resume"
            raise Refusal("bad_message", said, field="speak.seed")
        if continues is not None:
            said = "speak.continues has no meaning with speak.resume: the journal has the voice"
            raise Refusal("bad_message", said, field="speak.continues")
        if text and self.ended:
            raise Refusal("bad_message", "text after end", field="speak.text")


def binary(value: Any, path: str, served: Capabilities) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise check.wrong(path, "binary", value)
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise Refusal("bad_message", f"{path} is not base64", field=path) from None


def places(value: Any, path: str, served: Capabilities) -> tuple[int, ...]:
    """Little-endian 32-bit integers that never fall."""
    data = binary(value, path, served)
    if len(data) % 4:
        raise Refusal("bad_message", f"{path} holds 32-bit integers", field=path)
    found = struct.unpack(f"<{len(data) // 4}I", data)
    if any(a > b for a, b in pairwise(found)):
        raise Refusal("bad_message", f"{path} must never fall", field=path)
    return found


def journal(value: Any, path: str, served: Capabilities) -> list[Decision]:
    """Records; of segments none before the one before it."""
    try:
        found, known = decisions(binary(value, path, served)), 0
        for segment in (d for d in found if isinstance(d, engine.Segment)):
            if not 0 <= segment.index <= known:
                raise ValueError("a segment without the one before it")
            known = max(known, segment.index + 1)
        return found
    except ValueError as error:
        text = f"{path} is not the records of journal messages: {check.short(str(error))}"
        raise Refusal("bad_message", text, field=path) from None


def resume(value: Any, path: str, served: Capabilities) -> Resume:
    most = ceil(served.seconds * FRAME_RATE)
    values = read(
        value,
        path,
        {
            "seed": Field(check.seed),
            "text": Field(check.text),
            "ended": Field(check.boolean, False),
            "codes": Field(binary),
            "seq": Field(check.integer(0, most)),
            "flushes": Field(places, ()),
            "flushed": Field(check.integer(0, 2**31), 0),
            "words": Field(check.integer(0, 2**31), 0),
            "journal": Field(journal, []),
        },
        served,
    )
    kept = Resume(**values)
    size = 2 * served.codebooks
    if len(kept.codes) != kept.seq * size:
        text = f"{path}.codes must hold {path}.seq frames of {size} bytes"
        raise Refusal("bad_message", text, field=f"{path}.codes")
    if kept.flushes and kept.flushes[-1] > len(kept.text):
        text = f"{path}.flushes are behind {path}.text"
        raise Refusal("bad_message", text, field=f"{path}.flushes")
    if kept.flushed > len(kept.flushes):
        text = f"{path}.flushed is more than {path}.flushes has"
        raise Refusal("bad_message", text, field=f"{path}.flushed")
    return kept


def resumed(
    utterance: Utterance, speak: engine.Speak, kept: Resume, text: str, end: bool, most: int
) -> engine.Speak:
    """What the engine is told, once `utterance` stands where the client's was. `text` and `end`
    follow what was kept; `most`: bytes of text. Raises Refusal.
    """
    if not isinstance(utterance.encoder, Plain):
        said = "speak.format lags behind its frames; speak.resume takes those at the model's rate"
        raise Refusal("unsupported", said, field="speak.format", utterance=utterance.name)
    now = utterance.opened_at
    known = engine.Resume(codes=kept.codes, answered=kept.flushed)
    journal = Journal(replace(speak, resume=known))
    for command in _said(utterance, kept, text, end, most):
        journal.command(command)
    voice = None
    for decision in kept.journal:
        if isinstance(decision, Continued):
            voice = engine.Voice(decision.text, decision.codes)
            continue
        journal.event(decision)
        utterance.tell(decision, now)
    utterance.decisions.clear()
    _place(utterance, kept.seq, kept.words)
    return replace(speak, voice=voice, resume=journal.resume())


def _place(utterance: Utterance, frames: int, words: int) -> None:
    """Its client has so many frames, and was told so many words."""
    utterance.frames = utterance.seq = frames
    samples = frames * utterance.frame_samples
    utterance.samples = utterance.resumed = utterance.to_wire(samples)
    utterance.heard.restore(utterance.steps(samples), words)


def _said(
    utterance: Utterance, kept: Resume, text: str, end: bool, most: int
) -> Iterator[engine.Command]:
    """All of the client's text, flushes and end, as the engine hears them."""
    at, now = 0, utterance.opened_at
    for place in kept.flushes:
        yield engine.Text(utterance.id, utterance.hear(kept.text[at:place], None, most, now))
        yield from utterance.flush()
        at = place
    for rest in (kept.text[at:], text):
        yield engine.Text(utterance.id, utterance.hear(rest, None, most, now))
    if kept.ended or end:
        yield from utterance.end()
