"""A segment and its prompt: its own text, behind what it carries of the voice so far. Pure."""

from __future__ import annotations

from dataclasses import replace

from engine import history, prompt
from engine.carry import Carry, Speaking, Spoken, carry, joined
from engine.guards import budget
from engine.history import Tokens
from engine.means import Means
from engine.messages import Speak
from engine.opening import Refused, opening
from engine.segment import Segment
from engine.segmenter import Segmenter
from engine.text import LONGEST, RUN

UNFIT = "the entries are not those of an utterance with this text"


class Composer:
    """Makes one utterance's segments, and the ids of those that are open."""

    def __init__(self, speak: Speak, slot: int, means: Means, now: float) -> None:
        """Raises Refused for what this engine cannot speak."""
        self._opening = opening(speak, means)
        policy = replace(means.policy, rows=means.positions - len(self._opening))
        split = means.split(speak.language)
        self.text = Segmenter(means.pretokens, split, policy, speak.layout, now)
        self.tokens: list[Tokens] = []  # made since the last look
        self._utterance, self._slot, self._means = speak.utterance, slot, means
        self._carries = speak.carry == "context" and means.config.generation.carry

    def make(
        self, index: int, span: tuple[int, int | None], spoken: list[Spoken], now: Speaking | None
    ) -> Segment:
        """A new segment; one without an end is open."""
        segment = self._bare(index, span, "stream" if span[1] is None else "full")
        if span[1] is None:
            self._stream(segment)
        else:
            past = carry(spoken, now, self._means.policy.carry_seconds)
            self.write(segment, past if self._carries else None)
        return segment

    def restore(self, resume: history.Resume, cursor: int, now: float) -> None:
        """All that was said before; up to `cursor` it is in segments. Raises Refused."""
        self.text.restore(resume.said, resume.answered, cursor, now)
        if max(cursor, resume.offset) > self.text.known:
            raise Refused("bad_message", UNFIT)

    def again(
        self,
        told: history.Segment,
        ids: list[int],
        offset: int,
        spoken: list[Spoken],
        now: Speaking | None,
    ) -> Segment:
        """A segment as it was decided; `ids`: what had become of its text up to `offset`."""
        end = told.last if told.last >= 0 else None
        if end is not None and self.text.between(told.first, end) != told.text:
            raise Refused("bad_message", UNFIT)
        segment = self._bare(told.index, (told.first, end), told.layout)
        if told.layout == "stream":
            segment.ids, segment.tokenised = ids, max(offset, told.first)
            self._stream(segment)
            return segment
        count = told.carried - bool(now)
        taken = spoken[-count:] if count > 0 else []
        self.write(segment, joined(taken, now) if told.carried else None, sure=True)
        if segment.length > self._means.positions:
            raise Refused("bad_message", UNFIT)
        return segment

    def write(self, segment: Segment, past: Carry | None, sure: bool = False) -> None:
        """The full layout, behind `past` if the KV row has room for it, or is `sure` to have."""
        means, text = self._means, self.text.between(segment.start, segment.end)
        if past is not None:
            rows = prompt.carried(means.config, means.encode(past.text), means.encode(text), 0)
            longest = len(self._opening) + len(rows) + past.expected + budget(text)
            if sure or longest <= means.positions:
                segment.base, segment.carried = [*self._opening, *rows], past.codes
                segment.past = past.segments
                return
        rows = prompt.full(means.config, means.encode(text.lstrip()))
        segment.base = [*self._opening, *rows]
        segment.carried, segment.past, segment.prefilled = (), 0, 0

    def next_id(self, s: Segment) -> int | None:
        """One id of the open segment's text, tokenised by pre-token, so that its end can still
        move.
        """
        if not s.ids:
            limit = self.text.limit(s.start) if s.end is None else s.end
            rest = self.text.between(s.tokenised, min(limit, s.tokenised + LONGEST + RUN))
            if not rest:
                return None
            length = min(self._means.pretokens(rest)[0][1], LONGEST)
            s.ids = self._means.encode(rest[:length])
            s.tokenised += length
            self.tokens.append(Tokens(self._utterance, s.index, s.tokenised, tuple(s.ids)))
        return s.ids.pop(0)

    def _bare(self, index: int, span: tuple[int, int | None], layout: str) -> Segment:
        return Segment(index, *span, layout, 2 * self._slot + index % 2, [], tokenised=span[0])

    def _stream(self, segment: Segment) -> None:
        first = self.next_id(segment)
        if first is None:  # a stream segment opens on a word
            raise Refused("bad_message", UNFIT)
        segment.base = [*self._opening, *prompt.stream(self._means.config, first)]
