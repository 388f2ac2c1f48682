"""Where a segment ends. Pure policy over text: no clock, no tokens, no state.

An utterance is one or more segments, each one prefill-to-EOS run of the talker (architecture:
Segments). Sentence ends come from an injected `split` (sentencex: pieces join to the text), so that
"Dr. Lee", "3.14" and URLs are none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from engine.guards import most_frames
from engine.text import first_word, speech_seconds

Split = Callable[[str], list[str]]

LOOK = 100  # characters that tell whether a sentence ends before them
CONTROL = 2  # rows of a prompt beside its text's: tts_eos, and the one that yields a frame

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
    rows: int = 1000  # of a KV row: the segment's text and its frames

    @property
    def window(self) -> int:
        """Characters of text that any question about a segment looks at."""
        return self.rows + LOOK


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
    fits = reach(text, policy)
    word = first_word(text) or 0
    ends = near_ends(text, fits, split, complete)
    fitting = [e for e in ends if word < e <= fits]
    overlong = fits < len(text)
    if fitting:
        return fitting[-1], complete or fitting[-1] < ends[-1] or overlong
    return (cut_long(text, policy, word + 1), True) if overlong else None


def near_ends(text: str, fits: int, split: Split, complete: bool) -> list[int]:
    """The sentence ends of a segment of at most `fits` characters, and perhaps the next ones."""
    near = text[: fits + LOOK]
    return sentence_ends(near, split, complete and len(near) == len(text))


def reach(text: str, policy: SegmentPolicy) -> int:
    """Most characters of `text` that fit `segment_seconds`, and a KV row."""
    return bisect_right(_lengths(text, policy), policy.segment_seconds) - 1


def _lengths(text: str, policy: SegmentPolicy) -> list[float]:
    """Seconds of the first 0, 1, ... characters, up to half as long again as a segment should be
    and as far as a KV row holds them. No character has more ids than it has bytes.
    """
    held, rows = [0.0], CONTROL
    for c in text:
        seconds = held[-1] + speech_seconds(c)
        rows += len(c.encode("utf-8", "surrogatepass"))
        too_long = seconds > 1.5 * policy.segment_seconds
        if too_long or rows + most_frames(seconds) > policy.rows:
            break
        held.append(seconds)
    return held


def cut_long(text: str, policy: SegmentPolicy, start: int = 1) -> int:
    """The clause end, else the word end, at or behind `start` that is nearest to `segment_seconds`
    of `text`; without either wherever the time is up, or the KV row full.
    """
    held = _lengths(text, policy)
    most, target = len(held) - 1, policy.segment_seconds
    near = text[: most + 1]

    def far(end: int) -> tuple[float, int]:
        return abs(held[min(end, most)] - target), -end

    def ends(pattern: re.Pattern[str]) -> list[int]:
        return [m.end() for m in pattern.finditer(near) if start <= m.end() <= most]

    clauses = [e for e in ends(_CLAUSE) if far(e)[0] <= target / 2]
    choices = clauses or ends(_WORD) or range(start, max(start, most) + 1)
    return min(choices, key=far)
