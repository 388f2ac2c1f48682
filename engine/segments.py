"""Where a segment ends. Pure policy over text: no clock, no tokens, no state.

An utterance is one or more segments, each one prefill-to-EOS run of the talker (architecture:
Segments). Sentence ends come from an injected `split` (sentencex: pieces join to the text), so that
"Dr. Lee", "3.14" and URLs are none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from engine.text import speech_seconds

Split = Callable[[str], list[str]]

_CLAUSE = re.compile(r"[,;:)]+(?=\s)|\s[–—-](?=\s)|[、，；：]")
_WORD = re.compile(r"\S(?=\s)")


@dataclass(frozen=True)
class SegmentPolicy:
    """Seconds of speech or of clock, and words."""

    start_words: int = 2  # the first segment speaks from here on
    resume_words: int = 6  # after silence: this many, or `quiet` without text
    segment_seconds: float = 12.0
    carry_seconds: float = 12.0
    stall_lead: float = 0.12  # lead at which known words are closed off
    slow_lead: float = 0.06  # the same while text still comes
    quiet: float = 0.3  # no delta for so long: the last word is complete


def sentence_ends(text: str, split: Split, complete: bool) -> list[int]:
    """Offsets behind each sentence; the last one counts only when the text is `complete`."""
    ends, at = [], 0
    pieces = split(text)
    for i, piece in enumerate(pieces):
        if piece.strip() and (complete or "".join(pieces[i + 1 :]).strip()):
            ends.append(at + len(piece.rstrip()))
        at += len(piece)
    return ends


def group_end(
    text: str, split: Split, complete: bool, policy: SegmentPolicy
) -> tuple[int, bool] | None:
    """End of the segment that starts with `text`, and whether more text could not make it longer.

    Whole sentences up to `segment_seconds`; one longer sentence is cut at the clause, else the
    word, nearest to it. None: no end is known yet.
    """
    ends = sentence_ends(text, split, complete)
    fitting = [e for e in ends if speech_seconds(text[:e]) <= policy.segment_seconds]
    if fitting:
        return fitting[-1], complete or len(fitting) < len(ends) or _overlong(text, policy)
    if _overlong(text, policy):
        return cut_long(text, policy), True
    return None


def _overlong(text: str, policy: SegmentPolicy) -> bool:
    return speech_seconds(text) > policy.segment_seconds


def cut_long(text: str, policy: SegmentPolicy, start: int = 1) -> int:
    """The clause end, else the word end, at or behind `start` that is nearest to `segment_seconds`
    of `text`.
    """
    target = policy.segment_seconds
    clauses = [m.end() for m in _CLAUSE.finditer(text) if m.end() >= start]
    near = [e for e in clauses if abs(speech_seconds(text[:e]) - target) <= target / 2]
    choices = near or [m.end() for m in _WORD.finditer(text) if m.end() >= start]
    if not choices:  # no space at all: wherever the time is up
        choices = [*range(start, len(text) + 1)] or [len(text)]
    return min(choices, key=lambda e: abs(speech_seconds(text[:e]) - target))
