"""One connection's state machine: messages and events in, commands and messages out. PURE.

Laws: every accepted `speak` ends with exactly one `done`; no `audio` of an utterance follows its
`done`; closing is cancelling. Knows no socket and no clock: `now` is seconds on any monotonic one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine import messages as engine

from . import protocol
from .admission import Load, admit
from .capabilities import Capabilities
from .deadlines import keep_time, overdue
from .errors import CODES, NORMAL, RESTART, Refusal, unknown
from .keys import Keys, Visitor
from .memory import Memory
from .opening import opened
from .outbox import Outbox
from .states import MOVES
from .utterance import Event, Utterance, pending_over


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
        key: bytes = b"",
        address: str = "",
    ) -> None:
        self.name = name
        self.subprotocol = subprotocol
        self.served = served
        self.limits = served.limits
        self.load = load
        self.visitor = Visitor(keys, key, address)
        self.live: dict[str, Utterance] = {}
        self.outbox = Outbox(self.limits.outbox_high, self.limits.outbox_low)
        self.closing: tuple[int, str] | None = None  # code and reason, once the outbox is empty
        self.opened_at = self.heard_at = self.drained_at = now
        self._by_id: dict[int, Utterance] = {}
        self._ended = Memory()
        self._ids = ids
        self._seeds = seeds
        self._commands: list[engine.Command] = []
        self._first, self._holding = True, False
        if self.visitor.authorized:
            self._put(served.ready(name, self.visitor.limits), now)

    # Out

    def commands_to_send(self) -> list[engine.Command]:
        commands, self._commands = self._commands, []
        return commands

    def messages_to_send(self, now: float) -> Iterator[dict[str, Any]]:
        """Each message leaves the outbox as it is taken; stop taking when the socket is full."""
        while self.outbox:
            message = self.outbox.take()
            self.drained_at = now
            if self.outbox.held != self._holding:
                self._balance()
            yield message

    @property
    def may_read(self) -> bool:
        """Whether the client may be read: not while its text, or our answers, pile up."""
        most, fed = self.limits.pending_text_chars, [u for u in self.live.values() if not u.stuck]
        return not self.outbox.held and not pending_over(most, fed)

    # In: the client

    def receive_message(self, data: str | bytes, now: float) -> None:
        if self.closing:
            return
        self.heard_at = now
        first, self._first = self._first, False
        raw: dict[str, Any] = {}
        try:
            raw = protocol.decode(data, self.subprotocol, self.limits.message_bytes)
            protocol.check_order(raw["type"], first, self.visitor.authorized)
            self._dispatch(protocol.parse(raw, self.served), now)
        except Refusal as refusal:
            name = refusal.utterance
            if name is not None and name not in self.live and raw.get("type") == "speak":
                self._ended.forgive(name)
            self.refuse(refusal, now)

    def refuse(self, refusal: Refusal, now: float) -> None:
        """Say no: the connection ends, or the named utterance fails, or the message falls."""
        utterance = self.live.get(refusal.utterance or "")
        if refusal.close:
            self._cancel_all()
            self.outbox.clear()
            self._put(refusal.wire(), now)
            self._close(refusal.close, refusal.code)
        elif utterance and refusal.code != "text_timeout":
            self._commands.append(engine.Cancel(utterance.id))
            self._fail(utterance, refusal, now)
        else:
            if utterance:  # what is known is spoken to its end; then `done` says why it ended
                utterance.timed_out = True
                utterance.state = MOVES[utterance.state]["end"]
                self._commands += utterance.end()
            self._put(refusal.wire(), now)

    def connection_lost(self) -> None:
        self._cancel_all()
        self._close(NORMAL, "")

    def _dispatch(self, message: protocol.Incoming, now: float) -> None:
        match message:
            case protocol.Text():
                self._text(message, now)
            case protocol.Played(name, samples):
                self._played(name, samples)
            case protocol.Speak():
                self._speak(message, now)
            case protocol.Flush(name):
                if utterance := self._move(name, "flush"):
                    self._say(utterance, utterance.flush(), now)
            case protocol.End(name):
                if utterance := self._move(name, "end"):
                    self._say(utterance, utterance.end(), now)
            case protocol.Cancel(name, played):
                self._cancel(list(self.live) if name is None else [name], played, now)
            case protocol.Ping(ident):
                self._put({"type": "pong"} | ({} if ident is None else {"id": ident}), now)
            case protocol.Hello(token):
                self._hello(token, now)

    def _hello(self, token: str, now: float) -> None:
        if self.visitor.show(token):
            self._put(self.served.ready(self.name, self.visitor.limits), now)

    def _speak(self, message: protocol.Speak, now: float) -> None:
        name = message.utterance
        if name in self.live:
            text = "a live utterance has this name"
            raise Refusal("duplicate_utterance", text, utterance=name)
        continues = self._voice_of(message.continues, name)
        admit(self.load, self.limits, len(self.live), self.visitor, message, now)
        seed = next(self._seeds) if message.chosen is None else message.chosen
        ident = next(self._ids)
        utterance, speak = opened(message, self.served, ident, seed, continues, now)
        self._ended.drop(name)
        self.live[name] = self._by_id[ident] = utterance
        self._say(utterance, [speak], now)
        if self._holding:
            self._commands.append(engine.Hold(ident))

    def _voice_of(self, continues: str | None, name: str) -> int:
        """The engine's id of the utterance whose voice goes on; 0: none asked for."""
        if continues is None:
            return 0
        earlier = self.live.get(continues)
        ident = earlier.id if earlier else self._ended.ident(continues)
        if not ident:
            raise unknown(name, "speak.continues")
        return ident

    def _text(self, message: protocol.Text, now: float) -> None:
        if utterance := self._move(message.utterance, "text"):
            self.visitor.take(utterance.name, len(message.text), now)
            text = utterance.hear(message.text, message.seq, self.limits.utterance_text_bytes, now)
            self._say(utterance, [engine.Text(utterance.id, text)] if text else [], now)

    def _say(self, utterance: Utterance, commands: list[engine.Command], now: float) -> None:
        """Hand text on, and tell the client once that words were left out of it."""
        self._commands += commands
        if warning := utterance.warn():
            self._put(warning, now)

    def _played(self, name: str, samples: int) -> None:
        utterance = self.live.get(name)
        if utterance is None:
            if name not in self._ended:  # playback outlives an utterance
                raise unknown(name)
        elif (samples := min(samples, utterance.samples)) >= utterance.played:
            utterance.played = samples
            self._commands.append(engine.Played(utterance.id, utterance.from_wire(samples)))

    def _move(self, name: str, kind: str) -> Utterance | None:
        """The live utterance, moved on by `kind`; None where a late message is forgiven."""
        utterance = self.live.get(name)
        if utterance is None:
            if self._ended.forgives(name):
                return None
            raise unknown(name)
        if kind not in MOVES[utterance.state]:
            if utterance.timed_out:
                return None
            raise Refusal("bad_message", f"{kind} after end", utterance=name)
        utterance.state = MOVES[utterance.state][kind]
        return utterance

    def _cancel(self, names: list[str], played: int | None, now: float) -> None:
        live = [self.live[n] for n in names if n in self.live]
        for utterance in live:
            self._commands.append(engine.Cancel(utterance.id))
            utterance.samples -= self.outbox.drop_audio(utterance.name)
            heard = played if len(live) == 1 else None  # of several it tells nothing
            self._done(utterance, "cancelled", None, now, heard)

    def _cancel_all(self) -> None:
        self._commands += [engine.Cancel(u.id) for u in self.live.values()]
        self.live.clear()
        self._by_id.clear()

    # In: the engine and time

    def receive_event(self, event: Event, now: float) -> None:
        """An event of one utterance; of one cancelled or failed since, it falls to the floor."""
        utterance = self._by_id.get(getattr(event, "utterance", 0))
        if utterance is None:
            return
        if isinstance(event, engine.Audio):  # nearly all are
            for message in utterance.sound(event, now):
                self._put(message, now)
            return
        match event:
            case engine.Finished(_, reason):
                late = utterance.timed_out and reason in ("eos", "empty")
                self._done(utterance, "text_timeout" if late else reason, event, now)
            case engine.Failed(_, code, text):
                retry = self.load.line.retry_ms() if code == "busy" else None
                retry = 1000 if code == "engine_failed" else retry
                code = code if code in CODES else "internal"
                self._fail(utterance, Refusal(code, text, retry_ms=retry), now)
            case _:
                for message in utterance.tell(event, now):
                    self._put(message, now)

    def tick(self, now: float, listening: bool = True) -> None:
        """What only time brings, a few times a second; `listening`: no input lies unread."""
        if self.closing:
            return
        keep_time(self, now, listening)
        for refusal in overdue(self, now):
            self.refuse(refusal, now)
        if self.load.draining and not self.live:
            self._close(RESTART, "draining")

    def shut(self, now: float) -> None:
        """The drain's time is over: what still speaks is told so, then the connection closes."""
        for name in list(self.live):
            self.refuse(Refusal("draining", "the server is shutting down", utterance=name), now)
        self._close(RESTART, "draining")

    # Ends

    def _done(
        self,
        utterance: Utterance,
        reason: str,
        finished: engine.Finished | None,
        now: float,
        played: int | None = None,
    ) -> None:
        del self.live[utterance.name], self._by_id[utterance.id]
        self.heard_at = now  # idleness begins here
        forgiven = not utterance.ended or reason not in ("eos", "empty")
        self._ended.add(utterance.name, utterance.id, forgiven=forgiven)
        for message in utterance.close(reason, finished, now, played):
            self._put(message, now)
        if self.load.draining and not self.live:
            self._close(RESTART, "draining")

    def _fail(self, utterance: Utterance, refusal: Refusal, now: float) -> None:
        utterance.samples -= self.outbox.drop_audio(utterance.name)
        refusal.utterance = utterance.name
        self._put(refusal.wire(), now)
        self._done(utterance, "error", None, now)

    def _close(self, code: int, reason: str) -> None:
        self.closing = self.closing or (code, reason)

    def _put(self, message: dict[str, Any], now: float) -> None:
        if not self.outbox:
            self.drained_at = now
        self.outbox.put(message)
        if self.outbox.held != self._holding:
            self._balance()

    def _balance(self) -> None:
        self._holding = self.outbox.held
        order = engine.Hold if self._holding else engine.Release
        self._commands += [order(ident) for ident in self._by_id]
