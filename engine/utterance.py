"""One utterance: text in, rows out, frames back. Pure; the clock is an argument.

It is one or more segments over one timeline. One speaks; the next is staged: its text is fixed and
its prompt prefilled beside the frames of the one that speaks, so that a join costs no gap.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine import messages, prompt
from engine.carry import Carry, Speaking, Spoken, carry
from engine.guards import FRAMES_PER_SECOND, budget
from engine.means import Means
from engine.messages import Audio, Event, Finished, Flushed, Progress, Speak
from engine.plan import Decode, Made, Prefill
from engine.playback import Playback
from engine.segment import Segment
from engine.segmenter import Segmenter
from engine.text import speech_seconds

STAGE_AT = 0.5  # of a segment's expected frames: from here on the next one takes the text there is


class Utterance:
    def __init__(
        self, speak: Speak, slot: int, means: Means, now: float, voice: Sequence[Spoken] = ()
    ) -> None:
        """`voice`: what an earlier utterance left to carry. Raises ValueError for a language or
        speaker there is not.
        """
        self.id, self.slot = speak.utterance, slot
        self._speak, self._means = speak, means
        self._opening = prompt.opening(
            means.config, means.encode, speak.instruct, speak.language, speak.speaker
        )
        self._text = Segmenter(
            means.pretokens, means.split(speak.language), means.policy, speak.layout, now
        )
        self._spoken = list(voice)
        self._current: Segment | None = None
        self._staged: Segment | None = None
        self._codes: list[bytes] = []
        self._draws = 0
        self._said = 0  # offset up to which segments have ended
        self._playback = Playback()
        self._carries = speak.carry == "context" and means.config.generation.carry
        self._held = False
        self._starved_at: float | None = None
        self._guarded = ""
        self._events: list[Event] = []
        self.text_wait = 0.0
        self.segments = 0
        self.reason = ""  # set once the utterance is over
        self.push(speak.text, now)
        if speak.ended:
            self.end()

    def push(self, text: str, now: float) -> None:
        self._text.push(text, now)

    def flush(self, flush: int) -> None:
        self._text.flush(flush)

    def end(self) -> None:
        self._text.end()

    def hold(self, held: bool) -> None:
        self._held = held

    def played(self, seconds: float, now: float) -> None:
        self._playback.report(seconds, now)

    @property
    def frames(self) -> int:
        return len(self._codes)

    @property
    def starved(self) -> bool:
        return self._starved_at is not None

    def voice(self) -> list[Spoken]:
        """What an utterance that continues this one carries."""
        return self._spoken[-1:]

    def events(self) -> list[Event]:
        """Drain what happened since the last call."""
        events, self._events = self._events, []
        return events

    # One step

    def rows(self, now: float) -> list[Prefill | Decode]:
        """What this utterance does in the next step; nothing when it may not run."""
        if self._held or (self._speak.live and self._playback.lead(now) > self._means.max_lead):
            return []
        self._settle()
        if self.reason:
            return []
        if self._current is None:
            if self._staged is None:
                self._staged = self._open(now)
            if self._staged is None:
                return self._starve(now)
            self._current, self._staged = self._staged, None
            rows: list[Prefill | Decode] = list(self._begin(self._current))
        else:
            text = self._feed(self._current, now)
            if text is None:
                return self._starve(now)
            rows = [self._decode(self._current, text)]
        self._run(now)
        return rows + self._stage(now)

    def commit(self, made: Made, now: float) -> None:
        """One draw has come back."""
        s = self._current
        assert s is not None, "a row ran without a segment"
        s.draws += 1
        self._draws += 1
        if made.ended:
            return self._finish(s)
        s.frames += 1
        self._codes.append(made.codes)
        self._playback.add(1 / FRAMES_PER_SECOND, now)
        self._events.append(Audio(self.id, self.frames - 1, made.pcm, made.codes))
        text = self._text.text[s.start : s.end]
        stop = s.guard.observe(made.codes, made.level, s.frames, text, s.fed)
        if stop is None and s.position + 1 >= self._means.positions:
            stop = "length"
        if stop:
            self._guarded = stop
            self._finish(s)
        if self.frames >= min(
            self._speak.max_frames or self._means.max_frames, self._means.max_frames
        ):
            self.reason = "length"
        return None

    def finished(self, queue: float) -> Finished:
        return Finished(self.id, self.reason, self.frames, self.segments, self.text_wait, queue)

    # Segments

    def _settle(self) -> None:
        """Answer the flushes that are reached, and end when all is said."""
        if self._current is None:
            self._events += [
                Flushed(self.id, flush, self.frames) for flush in self._text.reached(self._said)
            ]
            if self._staged is None and self._text.over(self._said):
                self.reason = self._guarded or ("eos" if self.frames else "empty")

    def _finish(self, s: Segment) -> None:
        assert s.end is not None or self._guarded, "a segment ended before its text did"
        end = s.end if s.end is not None else s.tokenised
        first = self.frames - s.frames
        self._spoken.append(Spoken(self._text.text[s.start : end], tuple(self._codes[first:])))
        self._text.cursor = max(self._text.cursor, end)
        self._said, self._current = end, None
        self._settle()

    def _open(self, now: float) -> Segment | None:
        """The next segment, if its text is known well enough."""
        s = self._current
        lead = self._playback.lead(now)
        span = self._text.open(
            now, lead, first=not self._spoken, speaking=s is not None, hurry=self._half_said(s)
        )
        if span is None:
            return None
        start, end = span
        segment = Segment(
            self.segments,
            start,
            end,
            "full",
            2 * self.slot + self.segments % 2,
            list(self._opening),
        )
        segment.tokenised = start
        self.segments += 1
        if end is None:
            segment.layout = "stream"
            first = self._next_id(segment)
            assert first is not None, "a stream segment opens on a word"
            segment.base += prompt.stream(self._means.config, first)
        else:
            self._write_prompt(segment, context=self._carries)
        return segment

    def _write_prompt(self, segment: Segment, context: bool) -> None:
        """The full layout; with `context`, behind the last whole segments if the KV row has room
        for them.
        """
        means, text = self._means, self._text.text[segment.start : segment.end]
        past = self._carry() if context else None
        if past is not None:
            rows = prompt.carried(means.config, means.encode(past.text), means.encode(text), 0)
            if len(self._opening) + len(rows) + past.expected + budget(text) <= means.positions:
                segment.base, segment.carried = [*self._opening, *rows], past.codes
                return
        segment.base = [*self._opening, *prompt.full(means.config, means.encode(text.lstrip()))]
        segment.carried, segment.prefilled = (), 0

    def _carry(self) -> Carry | None:
        s = self._current
        text = self._text.text[s.start : s.end] if s else ""
        speaking = Speaking(text, self._codes, self.frames - s.frames) if s else None
        return carry(self._spoken, speaking, self._means.policy.carry_seconds)

    def _begin(self, s: Segment) -> list[Prefill]:
        """The rest of the segment's prompt; it speaks from this step on."""
        if (
            s.carried
            and s.length + budget(self._text.text[s.start : s.end]) > self._means.positions
        ):
            self._write_prompt(s, context=False)  # the carried segment ran longer than expected
        self._events.append(
            messages.Segment(
                self.id, s.index, s.start, -1 if s.end is None else s.end, s.layout, self.frames
            )
        )
        if s.end is not None:
            self._events.append(Progress(self.id, s.end, self.frames))
        return self._chunks(s, last=True)

    def _stage(self, now: float) -> list[Prefill]:
        """One chunk of the next segment's prompt, beside the frames of this one."""
        if self._current is None or self._current.end is None:
            return []
        if self._staged is None:
            self._staged = self._open(now)
        return self._chunks(self._staged, last=False) if self._staged else []

    def _half_said(self, s: Segment | None) -> bool:
        if s is None or s.end is None:
            return False
        return s.frames >= STAGE_AT * FRAMES_PER_SECOND * speech_seconds(
            self._text.text[s.start : s.end]
        )

    # Rows

    def _chunks(self, s: Segment, last: bool) -> list[Prefill]:
        means = self._means
        return s.chunks(
            self.id, self.slot, means.chunk, means.config.tts_pad_token_id, self._draws, last
        )

    def _decode(self, s: Segment, text: int) -> Decode:
        return Decode(
            self.id, self.slot, s.kv_row, s.position, text, self._draws, s.draws < 2 or not s.fed
        )

    def _feed(self, s: Segment, now: float) -> int | None:
        """The text token of the next step; None: the segment is starved."""
        config = self._means.config
        if s.layout == "full" or s.eos_fed:
            return config.tts_pad_token_id
        if s.end is None:
            starved = not s.ids and s.tokenised >= self._text.limit(s.start)
            s.end = self._text.close(s.start, s.tokenised, starved, now, self._playback.lead(now))
            if s.end is not None:
                self._events.append(
                    messages.Segment(self.id, s.index, s.start, s.end, s.layout, self.frames)
                )
        token = self._next_id(s)
        if token is None and s.end is not None:
            s.eos_fed = True
            return config.tts_eos_token_id
        return token

    def _next_id(self, s: Segment) -> int | None:
        """One id of the open segment's text, tokenised by pre-token, so that its end can still
        move.
        """
        if not s.ids:
            limit = self._text.limit(s.start) if s.end is None else s.end
            rest = self._text.text[s.tokenised : limit]
            if not rest:
                return None
            _, length = self._means.pretokens(rest)[0]
            s.ids = self._means.encode(rest[:length])
            s.tokenised += length
            self._events.append(Progress(self.id, s.tokenised, self.frames))
        return s.ids.pop(0)

    def _starve(self, now: float) -> list[Prefill | Decode]:
        if self._starved_at is None:
            self._starved_at = now
        return []

    def _run(self, now: float) -> None:
        if self._starved_at is not None:
            self.text_wait += now - self._starved_at
            self._starved_at = None
