"""An utterance that goes on behind its last frame: what it had decided, and the frames to say again
unheard. Pure.

The same operations give the same numbers, a shorter way to the same state does not: the segment
that speaks runs again from its prompt on, a step a frame, with its codes given. Segments before it
need no talker any more; of their frames the codec must hear the last few.
"""

from __future__ import annotations

import array
from collections import deque
from itertools import pairwise

from engine.carry import Spoken
from engine.config import ModelConfig
from engine.guards import RUN
from engine.history import Resume, Segment, Voice
from engine.opening import Refused

ECHOES = 4  # frames of the codec a step


class Replay:
    def __init__(self, resume: Resume, config: ModelConfig, reach: int, most: int) -> None:
        """`reach`: frames that the codec looks back; `most`: of an utterance. Raises Refused."""
        self.told = bool(resume.segments)  # else segments end where EOS is drawn again
        frames = split(resume.codes, config)
        if len(frames) > most:
            raise Refused("bad_message", f"the codes are of {len(frames)} frames, over {most}")
        if not all(0 <= i < config.talker.text_vocab_size for i in resume.ids):
            raise Refused("bad_message", "an id is no text token's")
        self.ids, self.offset = list(resume.ids), resume.offset
        begun, self.staged = _told(resume, len(frames))
        self.current = begun[-1] if begun else None
        first = self.current.frame if self.current else 0
        self.before = frames[:first]
        self.spoken = [Spoken(a.text, tuple(frames[a.frame : b.frame])) for a, b in pairwise(begun)]
        self.guarded = next((s.stop for s in reversed(begun[:-1]) if s.stop), "")
        self.frames = len(frames)
        self._forced = deque(frames[first:])
        # the guard hears levels: its last RUN frames are exact too
        self._echoes = deque(frames[max(0, min(first, len(frames) - reach - RUN)) : first])
        # where the codec begins
        self.codec_frame = first - len(self._echoes)

    @property
    def over(self) -> bool:
        return not self._forced and not self._echoes

    @property
    def forced(self) -> bytes:
        """The codes of the next frame, where they are known."""
        return self._forced[0] if self._forced else b""

    @property
    def cursor(self) -> int:
        """The stable text before it has segments."""
        last = self.staged or self.current
        return 0 if last is None else max(last.first, last.last)

    @property
    def segments(self) -> int:
        last = self.staged or self.current
        return 0 if last is None else last.index + 1

    def echoes(self) -> tuple[bytes, ...]:
        """What the codec hears in the next step."""
        count = min(ECHOES, len(self._echoes))
        return tuple(self._echoes.popleft() for _ in range(count))

    def take_staged(self) -> Segment | None:
        """The segment that was staged beside the one that speaks."""
        staged, self.staged = self.staged, None
        return staged

    def advance(self) -> None:
        """The next frame has been said again."""
        if self._forced:
            self._forced.popleft()


def continued(voice: Voice | None, config: ModelConfig) -> list[Spoken]:
    """What an utterance that goes on with `voice` carries. Raises Refused."""
    return [Spoken(voice.text, tuple(split(voice.codes, config)))] if voice else []


def split(codes: bytes, config: ModelConfig) -> list[bytes]:
    """Frames of codes. Raises Refused."""
    size = 2 * config.talker.num_code_groups
    if len(codes) % size:
        raise Refused("bad_message", f"a frame's codes have {size} bytes here")
    values = array.array("H", codes)
    if values and max(values) >= config.codec.codebook_size:
        raise Refused("bad_message", f"a code is not below {config.codec.codebook_size}")
    return [codes[at : at + size] for at in range(0, len(codes), size)]


def _told(resume: Resume, frames: int) -> tuple[list[Segment], Segment | None]:
    """The segments that have begun, and the one that has not. Raises Refused."""
    begun = [s for s in resume.segments if s.frame >= 0]
    staged = [s for s in resume.segments if s.frame < 0]
    segments = begun + staged
    fits = len(staged) <= 1 and [s.index for s in segments] == list(range(len(segments)))
    fits = fits and not any(s.layout != "full" for s in staged)
    at = said = 0
    for s in segments:
        open_end = s.last < 0 and s.layout == "stream" and s is segments[-1]
        closed = s.first <= s.last and s.layout in ("full", "stream")
        fits = fits and (open_end or closed) and said <= s.first
        fits = fits and 0 <= s.carried and 0 <= s.draw and (s.frame < 0 or at <= s.frame <= frames)
        at, said = max(at, s.frame), max(s.first, s.last)
    if not fits or (begun and begun[0].frame) or (staged and not begun):
        raise Refused("bad_message", "the entries are not those of an utterance with these codes")
    return begun, staged[0] if staged else None
