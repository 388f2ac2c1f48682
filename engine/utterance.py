"""One utterance: text in, rows out, frames back. Pure; the clock is an argument.

It is one or more segments over one timeline. One speaks; the next is staged: its text is fixed and
its prompt prefilled beside the frames of the one that speaks, so that a join costs no gap.
"""

from __future__ import annotations

from engine import history
from engine.carry import Speaking, Spoken
from engine.composing import UNFIT, Composer
from engine.guards import FRAMES_PER_SECOND, budget
from engine.history import Resume, Settled
from engine.means import Means
from engine.messages import Audio, Event, Finished, Flushed, Progress, Speak
from engine.opening import Refused
from engine.plan import Decode, Echo, Made, Prefill, StepRow
from engine.playback import Playback
from engine.replay import Replay, continued
from engine.segment import Segment
from engine.text import speech_seconds

STAGE_AT = 0.5  # of a segment's expected frames: from here on the next one takes the text there is


class Utterance:
    def __init__(self, speak: Speak, slot: int, means: Means, now: float) -> None:
        """Raises Refused for what this engine cannot speak."""
        self.id, self.slot = speak.utterance, slot
        self._speak, self._means = speak, means
        self._composer = Composer(speak, slot, means, now)
        self._text = self._composer.text
        self._spoken = continued(speak.voice, means.config)
        self._current: Segment | None = None
        self._staged: Segment | None = None
        self._codes: list[bytes] = []
        self._draws = 0
        self._passed = 0  # the client's characters that are fed or cannot be said
        self._playback = Playback()
        self._held = False
        self._starved_at: float | None = None
        self._guarded = ""
        self._events: list[Event] = []
        self.text_wait = 0.0
        self.segments = 0
        self.reason = ""  # set once the utterance is over
        self._most = min(speak.max_frames or means.max_frames, means.max_frames)
        self.replay = Replay(speak.resume or Resume(), means.config, means.reach, self._most)
        self.push(speak.text, now)
        if speak.ended:
            self.end()
        if speak.resume:
            self._restore(speak.resume, now)

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

    def events(self) -> list[Event]:
        """Drain what happened since the last call."""
        events, self._events = self._events, []
        settled, self._text.settled = self._text.settled, []
        return [*(Settled(self.id, chars) for chars in settled), *events]

    # One step

    def rows(self, now: float) -> list[StepRow]:
        """What this utterance does in the next step; nothing when it may not run."""
        far = self._speak.live and self._playback.ahead(now) > self._means.max_lead
        if self.replay.over and (self._held or far):
            return []
        if codes := self.replay.echoes():
            return [Echo(self.id, self.slot, codes)]
        self._text.read()
        self._settle()
        if self.reason:
            return []
        if self._current is None:
            if self._staged is None:
                self._staged = self._open(now)
            if self._staged is None:
                self._progress(self._text.passed())
                return self._starve(now)
            self._current, self._staged = self._staged, None
            rows: list[StepRow] = list(self._begin(self._current))
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
        self.replay.advance()
        if self.frames > self.replay.frames:
            self._playback.add(1 / FRAMES_PER_SECOND, now)
            frame = Audio(self.id, self.frames - 1, made.pcm, made.codes, made.levels)
            self._events.append(frame)
        text = self._text.between(s.start, s.end)
        stop = s.guard.observe(made.codes, made.level, s.frames, text, s.fed)
        if stop is None and s.position + 1 >= self._means.positions:
            stop = "length"
        if stop:
            self._guarded = stop
            self._finish(s)
        if self.frames >= self._most:
            self.reason = "length"
        return None

    def finished(self, queue: float) -> Finished:
        return Finished(self.id, self.reason, self.frames, self.segments, self.text_wait, queue)

    # Segments

    def _settle(self) -> None:
        """Answer the flushes that are reached, and end when all is said."""
        if self._current is None:
            said = self._staged.start if self._staged else self._text.cursor
            self._events += [
                Flushed(self.id, flush, self.frames) for flush in self._text.reached(said)
            ]
            if self._staged is None and self._text.over(said):
                self.reason = self._guarded or ("eos" if self.frames else "empty")

    def _finish(self, s: Segment) -> None:
        assert s.end is not None or self._guarded, "a segment ended before its text did"
        first = self.frames - s.frames
        s.end = s.tokenised if s.end is None else s.end
        if self._guarded:
            self._tell(s, first)
        self._spoken.append(Spoken(self._text.between(s.start, s.end), tuple(self._codes[first:])))
        self._text.cursor = max(self._text.cursor, s.end)
        self._current = None
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
        segment = self._composer.make(self.segments, span, self._spoken, self._speaking())
        self.segments += 1
        self._note_tokens(segment)
        if s is not None:
            self._tell(segment, -1)
        return segment

    def _restore(self, resume: Resume, now: float) -> None:
        """Stand where the utterance stood before the segment that speaks again."""
        replay = self.replay
        self._composer.restore(resume, replay.cursor, now)
        self._passed = resume.chars
        self._playback.restore(replay.frames / FRAMES_PER_SECOND, now)
        self._spoken += replay.spoken
        self._codes = replay.before
        self.segments = replay.segments
        self._guarded = replay.guarded
        if replay.current:
            self._draws = replay.current.draw
            self._staged = self._again(replay.current)

    def _again(self, told: history.Segment) -> Segment:
        replay = self.replay
        return self._composer.again(told, replay.ids, replay.offset, self._spoken, self._speaking())

    def _speaking(self) -> Speaking | None:
        s = self._current
        text = self._text.between(s.start, s.end) if s else ""
        return Speaking(text, self._codes, self.frames - s.frames) if s else None

    def _begin(self, s: Segment) -> list[Prefill]:
        """The rest of the segment's prompt; it speaks from this step on."""
        most = budget(self._text.between(s.start, s.end))
        if s.carried and s.length + most > self._means.positions:
            self._composer.write(s, None)  # the carried segment ran longer than expected
        s.draw = self._draws
        self._tell(s, self.frames)
        if s.end is not None:
            self._progress(self._text.chars(s.end))
        return self._chunks(s, last=True)

    def _stage(self, now: float) -> list[Prefill]:
        """One chunk of the next segment's prompt, beside the frames of this one."""
        if self._current is None or self._current.end is None:
            return []
        if self._staged is None:
            if told := self.replay.take_staged():
                self._staged = self._again(told)
            elif not self._decided:
                self._staged = self._open(now)
        return self._chunks(self._staged, last=False) if self._staged else []

    @property
    def _decided(self) -> bool:
        """What is decided here was decided before, and told."""
        return self.replay.told and not self.replay.over

    def _half_said(self, s: Segment | None) -> bool:
        if s is None or s.end is None:
            return False
        expected = FRAMES_PER_SECOND * speech_seconds(self._text.between(s.start, s.end))
        return s.frames >= STAGE_AT * expected

    # Rows

    def _chunks(self, s: Segment, last: bool) -> list[Prefill]:
        pad = self._means.config.tts_pad_token_id
        forced = self.replay.forced
        return s.chunks(self.id, self.slot, self._means.chunk, pad, last, forced)

    def _decode(self, s: Segment, text: int) -> Decode:
        barred = s.draws < 2 or not s.fed or self._decided
        at, forced = s.position, self.replay.forced
        return Decode(self.id, self.slot, s.kv_row, at, text, self._draws, barred, forced)

    def _feed(self, s: Segment, now: float) -> int | None:
        """The text token of the next step; None: the segment is starved."""
        config = self._means.config
        if s.layout == "full" or s.eos_fed:
            return config.tts_pad_token_id
        if s.end is None and not self._decided:
            starved = not s.ids and s.tokenised >= self._text.limit(s.start)
            s.end = self._text.close(s.start, s.tokenised, starved, now, self._playback.lead(now))
            if s.end is not None:
                self._tell(s, self.frames - s.frames)
        token = self._composer.next_id(s)
        self._note_tokens(s)
        if token is None and s.end is not None:
            s.eos_fed = True
            return config.tts_eos_token_id
        if token is None and self._decided:
            raise Refused("bad_message", UNFIT)
        return token

    def _note_tokens(self, s: Segment) -> None:
        if self._composer.tokens:
            self._events += self._composer.tokens
            self._composer.tokens = []
            self._progress(self._text.chars(s.tokenised))

    def _tell(self, s: Segment, frame: int) -> None:
        """`frame`: where it begins; -1: another still speaks."""
        text, end = self._text, s.end
        span = (text.chars(s.start), -1 if end is None else text.chars(end))
        told = history.Segment(
            *(self.id, s.index, *span, s.layout, frame, s.draw, s.past, s.start),
            *(-1 if end is None else end, "" if end is None else text.between(s.start, end)),
            self._guarded,
        )
        self._events.append(told)

    def _progress(self, chars: int) -> None:
        if chars > self._passed:
            self._passed = chars
            self._events.append(Progress(self.id, chars, self.frames))

    def _starve(self, now: float) -> list[StepRow]:
        if self._starved_at is None:
            self._starved_at = now
        return []

    def _run(self, now: float) -> None:
        if self._starved_at is not None:
            self.text_wait += now - self._starved_at
            self._starved_at = None
