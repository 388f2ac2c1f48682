"""One connection's state machine: messages and events in, commands and messages out. Knows no socket, no clock. PURE.

Laws: every accepted `speak` ends with exactly one `done`; no `audio` of an utterance follows its `done`; closing is
cancelling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine import messages as engine

from . import protocol
from .admission import Keys, Load, admit
from .capabilities import Capabilities
from .deadlines import is_silent, overdue
from .errors import CODES, NO_KEY, NORMAL, PROTOCOL_ERROR, RESTART, Refusal
from .outbox import Outbox
from .utterance import MOVES, Utterance, opened

MEMORY = 256  # names of ended utterances a session remembers


class Session:
    def __init__(
        self,
        name: str,
        subprotocol: str,
        served: Capabilities,
        load: Load,
        keys: Keys,
        *,
        ids: Iterator[int],
        seeds: Iterator[int],
        now: float,
        authorized: bool = False,
    ) -> None:
        self.name = name
        self.subprotocol = subprotocol
        self.served = served
        self.limits = served.limits
        self.load = load
        self.keys = keys
        self.closing: tuple[int, str] | None = None  # code and reason, once the outbox is empty
        self.live: dict[str, Utterance] = {}
        self.outbox = Outbox(self.limits.outbox_high, self.limits.outbox_low)
        self._by_id: dict[int, Utterance] = {}
        self._gone: dict[
            str, tuple[int, bool]
        ] = {}  # name -> engine's id, whether late messages are forgiven
        self._ids = ids
        self._seeds = seeds
        self._commands: list[engine.Command] = []
        self.authorized = authorized or not keys.needed
        self._first = True
        self._holding = False
        self.opened_at = self.heard_at = self.drained_at = self.ticked_at = now
        if self.authorized:
            self._put(served.ready(name), now)

    # Out

    def commands_to_send(self) -> list[engine.Command]:
        commands, self._commands = self._commands, []
        return commands

    def messages_to_send(self, now: float) -> Iterator[dict[str, Any]]:
        """Messages for the client, each gone from the outbox once it is taken. Stop when the socket is full."""
        while self.outbox:
            message = self.outbox.take()
            self.drained_at = now
            self._balance()
            yield message

    @property
    def may_read(self) -> bool:
        """Whether the client's next message may be read: not while its text or our answers pile up."""
        if self.outbox.held:
            return False
        pending = sum(u.pending_chars for u in self.live.values())
        return pending <= self.limits.pending_text_chars

    # In: the client

    def receive_message(self, data: str | bytes, now: float) -> None:
        if self.closing:
            return
        self.heard_at = now
        first, self._first = self._first, False
        try:
            raw = protocol.decode(data, self.subprotocol, self.limits.message_bytes)
            self._admit_type(raw["type"], first)
            self._dispatch(protocol.parse(raw, self.served), now)
        except Refusal as refusal:
            self.refuse(refusal, now)

    def _admit_type(self, kind: str, first: bool) -> None:
        if not self.authorized and kind != "hello":
            raise Refusal(
                "unauthorized", "the first message must be hello with a token", close=NO_KEY
            )
        if kind == "hello" and not first:
            raise Refusal("bad_message", "hello comes first or not at all", close=PROTOCOL_ERROR)
        if first and kind not in protocol.TYPES:
            text = f"the first message must be one of {', '.join(protocol.TYPES)}"
            raise Refusal("bad_message", text, field="type", close=PROTOCOL_ERROR)

    def refuse(self, refusal: Refusal, now: float) -> None:
        """Say no: the connection ends, or the utterance named fails, or only the message falls."""
        if refusal.close:
            self._cancel_all()
            self.outbox.clear()
            self._put(refusal.wire(), now)
            self._close(refusal.close, refusal.code)
        elif utterance := self.live.get(refusal.utterance or ""):
            self._commands.append(engine.Cancel(utterance.id))
            self._fail(utterance, refusal, now)
        else:
            if refusal.utterance is not None:
                self._remember(refusal.utterance, 0, forgiven=True)
            self._put(refusal.wire(), now)

    def connection_lost(self) -> None:
        self._cancel_all()
        self.closing = self.closing or (NORMAL, "")

    def _dispatch(self, message: protocol.Incoming, now: float) -> None:
        match message:
            case protocol.Text():
                self._text(message, now)
            case protocol.Played(name, samples):
                if utterance := self.live.get(name):
                    self._played(utterance, samples)
                elif name not in self._gone:
                    raise _unknown(name)
            case protocol.Speak():
                self._speak(message, now)
            case protocol.Flush(name):
                if utterance := self._move(name, "flush"):
                    utterance.flushes += 1
                    self._commands.append(engine.Flush(utterance.id, utterance.flushes))
            case protocol.End(name):
                if utterance := self._move(name, "end"):
                    utterance.ended = True
                    self._commands.append(engine.End(utterance.id))
            case protocol.Cancel(name):
                self._cancel(list(self.live) if name is None else [name], now)
            case protocol.Ping(ident):
                self._put({"type": "pong"} | ({} if ident is None else {"id": ident}), now)
            case protocol.Hello(token):
                self._hello(token, now)

    def _hello(self, token: str, now: float) -> None:
        if self.authorized and not token:
            return
        if not self.keys.accept(token):
            raise Refusal(
                "unauthorized", "the token opens nothing here", field="hello.token", close=NO_KEY
            )
        if not self.authorized:
            self.authorized = True
            self._put(self.served.ready(self.name), now)

    def _speak(self, message: protocol.Speak, now: float) -> None:
        name = message.utterance
        if name in self.live:
            raise Refusal("duplicate_utterance", "a live utterance has this name", utterance=name)
        continues = self._voice_of(message.continues, name)
        try:
            admit(self.load, len(self.live), self.limits)
        except Refusal as refusal:
            refusal.utterance = name
            raise
        seed = next(self._seeds) if message.seed is None else message.seed
        utterance, speak = opened(message, self.served, next(self._ids), seed, continues, now)
        self._gone.pop(name, None)
        self.live[name] = self._by_id[utterance.id] = utterance
        self._commands.append(speak)
        if self._holding:
            self._commands.append(engine.Hold(utterance.id))

    def _text(self, message: protocol.Text, now: float) -> None:
        utterance = self._move(message.utterance, "text")
        if utterance is None:
            return
        if message.seq is not None and message.seq != utterance.text_seq:
            text = f"text.seq is {message.seq} where {utterance.text_seq} was due"
            raise Refusal("bad_message", text, field="text.seq", utterance=utterance.name)
        utterance.text_seq += 1
        if not message.text:
            return
        utterance.hear(message.text, now)
        if utterance.text_bytes > self.limits.utterance_text_bytes:
            text = f"the utterance's text is over utterance_text_bytes ({self.limits.utterance_text_bytes})"
            raise Refusal("too_large", text, limit="utterance_text_bytes", utterance=utterance.name)
        self._commands.append(engine.Text(utterance.id, message.text))

    def _played(self, utterance: Utterance, samples: int) -> None:
        samples = min(samples, utterance.samples)
        if samples > utterance.played:
            utterance.played = samples
            self._commands.append(engine.Played(utterance.id, samples))

    def _move(self, name: str, kind: str) -> Utterance | None:
        """The live utterance, moved on by the client's `kind`; None where a late message is forgiven."""
        utterance = self.live.get(name)
        if utterance is None:
            if self._gone.get(name, (0, False))[1]:
                return None
            raise _unknown(name)
        if kind not in MOVES[utterance.state]:
            raise Refusal("bad_message", f"{kind} after end", utterance=name)
        utterance.state = MOVES[utterance.state][kind]
        return utterance

    def _cancel(self, names: list[str], now: float) -> None:
        for name in names:
            if utterance := self.live.get(name):
                self._commands.append(engine.Cancel(utterance.id))
                utterance.samples -= self.outbox.drop_audio(name)
                self._done(utterance, "cancelled", None, now)

    def _cancel_all(self) -> None:
        self._commands += [engine.Cancel(u.id) for u in self.live.values()]
        self.live.clear()
        self._by_id.clear()

    def _voice_of(self, continues: str | None, name: str) -> int:
        if continues is None:
            return 0
        if earlier := self.live.get(continues):
            return earlier.id
        ident, _ = self._gone.get(continues, (0, False))
        if not ident:
            text = "speak.continues names no utterance of this connection"
            raise Refusal("unknown_utterance", text, field="speak.continues", utterance=name)
        return ident

    # In: the engine

    def receive_event(self, event: engine.Event, now: float) -> None:
        utterance = self._by_id.get(getattr(event, "utterance", 0))
        if utterance is None:  # cancelled or failed since; late events fall to the floor
            return
        match event:
            case engine.Finished():
                natural = event.reason in ("eos", "empty")
                reason = "text_timeout" if utterance.timed_out and natural else event.reason
                self._done(utterance, reason, event, now)
            case engine.Failed():
                code = event.code if event.code in CODES else "internal"
                retry = 1000 if code in ("busy", "engine_failed") else None
                self._fail(utterance, Refusal(code, event.message, retry_ms=retry), now)
            case _:
                if message := utterance.tell(event, now):
                    self._put(message, now)

    # In: time

    def tick(self, now: float) -> None:
        """Everything that only time brings; call a few times a second."""
        passed, self.ticked_at = now - self.ticked_at, now
        if self.closing:
            return
        for refusal in overdue(self, now):
            self.refuse(refusal, now)
        for utterance in [u for u in self.live.values() if is_silent(u, self.limits, now)]:
            self._time_out(utterance, now)
        if not self.may_read:
            self._play_on(passed)
        if self.load.draining and not self.live:
            self._close(RESTART, "draining")

    def shut(self, now: float) -> None:
        """The drain's time is over: what still speaks is told so, then the connection closes."""
        for utterance in list(self.live.values()):
            self.refuse(
                Refusal("draining", "the server is shutting down", utterance=utterance.name), now
            )
        self._close(RESTART, "draining")

    def _time_out(self, utterance: Utterance, now: float) -> None:
        """End the text for a client that forgot to: what is known is spoken, `done` will say `text_timeout`."""
        utterance.timed_out = True
        utterance.state = MOVES[utterance.state]["end"]
        self._commands.append(engine.End(utterance.id))
        text = f"no text for text_seconds ({self.limits.text_seconds}); what is known is spoken to its end"
        refusal = Refusal("text_timeout", text, limit="text_seconds", utterance=utterance.name)
        self._put(refusal.wire(), now)

    def _play_on(self, passed: float) -> None:
        """While the socket is not read, playback reports wait in it too: take playback to go on, or nothing would."""
        for utterance in self.live.values():
            if utterance.played >= 0:
                self._played(utterance, utterance.played + int(passed * utterance.rate))

    # Ends

    def _done(
        self, utterance: Utterance, reason: str, finished: engine.Finished | None, now: float
    ) -> None:
        del self.live[utterance.name], self._by_id[utterance.id]
        forgiven = not utterance.ended or reason not in ("eos", "empty")
        self._remember(utterance.name, utterance.id, forgiven)
        self._put(utterance.done(reason, finished), now)
        if self.load.draining and not self.live:
            self._close(RESTART, "draining")

    def _fail(self, utterance: Utterance, refusal: Refusal, now: float) -> None:
        utterance.samples -= self.outbox.drop_audio(utterance.name)
        refusal.utterance = utterance.name
        self._put(refusal.wire(), now)
        self._done(utterance, "error", None, now)

    def _remember(self, name: str, ident: int, forgiven: bool) -> None:
        self._gone.pop(name, None)
        self._gone[name] = (ident, forgiven)
        if len(self._gone) > MEMORY:
            del self._gone[next(iter(self._gone))]

    def _close(self, code: int, reason: str) -> None:
        self.closing = self.closing or (code, reason)

    def _put(self, message: dict[str, Any], now: float) -> None:
        if not self.outbox:
            self.drained_at = now
        self.outbox.put(message)
        self._balance()

    def _balance(self) -> None:
        if self.outbox.held != self._holding:
            self._holding = self.outbox.held
            order = engine.Hold if self._holding else engine.Release
            self._commands += [order(ident) for ident in self._by_id]


def _unknown(name: str) -> Refusal:
    return Refusal("unknown_utterance", "no utterance has this name", utterance=name)
