"""What was said to and by one utterance's engine: enough for another engine to go on. PURE.

Law: between two batches of events the journal and what the client was told agree: a frame that is
not in it was not sent, a decision that is not in it was not heard.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from engine import messages as engine

Mark = tuple[int, int]  # characters before it; a flush's number, SETTLED or ENDED


class Journal:
    def __init__(self, speak: engine.Speak) -> None:
        self.speak = replace(speak, text="", ended=False, resume=None)
        self.started = False
        self.deaths = self.trials = 0  # of engines, since its last frame; of those while on trial
        self._text: list[str] = []
        self._chars = 0
        self._marks: list[Mark] = []
        self._segments: dict[int, engine.Segment] = {}
        self._tokens: list[engine.Tokens] = []  # of the segment begun last
        self._codes = bytearray()
        self._size = 0  # of a frame's
        self._answered = 0
        self._passed = 0
        self._held = False
        self._played = -1
        if speak.resume:
            self._take(speak.resume)
        self._say(speak.text)
        if speak.ended:
            self._mark(engine.ENDED)

    def command(self, command: engine.Command) -> None:
        """Note what the gateway says."""
        match command:
            case engine.Text(_, text):
                self._say(text)
            case engine.Flush(_, flush):
                self._mark(flush)
            case engine.End():
                self._mark(engine.ENDED)
            case engine.Hold():
                self._held = True
            case engine.Release():
                self._held = False
            case engine.Played(_, samples):
                self._played = samples

    def event(self, event: engine.Event) -> bool:
        """Note what the engine says. Returns whether the client must hear of it."""
        if isinstance(event, engine.Audio):  # nearly all are
            self._size = len(event.codes)
            self.deaths = self.trials = 0
            self._codes += event.codes
            return True
        match event:
            case engine.Progress(_, chars):
                self._passed = max(self._passed, chars)
            case engine.Segment():
                self._segments[event.index] = event
                if event.layout == "full" and event.frame >= 0:
                    self._tokens.clear()  # of the open segment before it
            case engine.Tokens(_, segment):
                if self._tokens and self._tokens[-1].segment != segment:
                    self._tokens.clear()
                self._tokens.append(event)
            case engine.Settled(_, chars):
                mark = (chars, engine.SETTLED)
                self._marks.insert(bisect_left(self._marks, chars, key=lambda m: m[0]), mark)
            case engine.Flushed(_, flush):
                self._answered = flush
            case engine.Started():
                again, self.started = self.started, True
                return not again
        return True

    def revival(self) -> list[engine.Command]:
        """What a fresh engine is told, so that it goes on at the next frame."""
        ident = self.speak.utterance
        commands: list[engine.Command] = [replace(self.speak, resume=self.resume())]
        if self._held:
            commands.append(engine.Hold(ident))
        if self._played >= 0:
            commands.append(engine.Played(ident, self._played))
        return commands

    def resume(self) -> engine.Resume:
        ids = [i for tokens in self._tokens for i in tokens.ids]
        return engine.Resume(
            said=self._said(),
            codes=bytes(self._codes),
            segments=[self._segments[i] for i in sorted(self._segments)],
            ids=ids,
            offset=self._tokens[-1].offset if self._tokens else 0,
            answered=self._answered,
            chars=self._passed,
        )

    def voice(self, reason: str = "") -> engine.Voice | None:
        """Its last whole segment: `reason` is why the utterance ended, "" while it lives."""
        if not self._size:
            return None
        begun = [s for _, s in sorted(self._segments.items()) if s.frame >= 0]
        ends = [s.frame for s in begun[1:]]
        if reason in ("eos", "guard_silence", "guard_loop"):
            ends.append(len(self._codes) // self._size)
        if not begun or not ends:
            return None
        last, end, size = begun[len(ends) - 1], ends[-1], self._size
        return engine.Voice(last.text, bytes(self._codes[last.frame * size : end * size]))

    def _take(self, resume: engine.Resume) -> None:
        """What the client kept of an utterance."""
        for item in resume.said:
            if isinstance(item, str):
                self._say(item)
            else:
                self._mark(item)
        self._segments = {s.index: s for s in resume.segments}
        self._codes += resume.codes
        self._answered, self._passed = resume.answered, resume.chars
        if resume.ids:
            segment = max((s.index for s in resume.segments if s.frame >= 0), default=0)
            self._tokens = [engine.Tokens(self.speak.utterance, segment, resume.offset, resume.ids)]

    def _say(self, text: str) -> None:
        if text:
            self._text.append(text)
            self._chars += len(text)

    def _mark(self, number: int) -> None:
        self._marks.append((self._chars, number))

    def _said(self) -> list[str | int]:
        """Text and marks in their order."""
        text, at = "".join(self._text), 0
        said: list[str | int] = []
        for chars, number in self._marks:
            if chars > at:
                said.append(text[at:chars])
            said.append(number)
            at = max(at, chars)
        return [*said, text[at:]] if text[at:] else said
