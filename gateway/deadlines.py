"""What only time makes wrong: late keys, slow queues, clients that neither read nor speak. PURE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .config import Limits
from .errors import NO_KEY, NORMAL, Refusal
from .keys import gone
from .line import Line
from .states import State
from .utterance import Utterance, pending_over

if TYPE_CHECKING:
    from .session import Session

FED_SECONDS = 1.0  # without a frame: nothing of the utterance's text is being fed


def keep_time(session: Session, now: float, listening: bool) -> None:
    """Text that is not being fed holds up no reading; while none is read, none is missing."""
    live = session.live.values()
    over = pending_over(session.limits.pending_text_chars, live)
    for utterance in live:
        utterance.stuck = over and now - utterance.fed_at > FED_SECONDS
    if not (listening and session.may_read):
        for utterance in live:
            utterance.last_text_at = now


def overdue(session: Session, now: float) -> Iterator[Refusal]:
    """A Refusal for everything of `session` whose time is over; it carries them out one by one."""
    limits = session.limits
    if session.visitor.dismissed:
        yield gone()
        return
    if not session.visitor.authorized:
        if now - session.opened_at > limits.first_message_seconds:
            text = f"no hello within first_message_seconds ({limits.first_message_seconds})"
            yield Refusal("unauthorized", text, limit="first_message_seconds", close=NO_KEY)
        return
    for utterance in list(session.live.values()):
        yield from _overdue(utterance, limits, session.load.line, now)
    if session.outbox and now - session.drained_at > limits.stall_seconds:
        for utterance in [u for u in session.live.values() if session.outbox.holds_audio(u.name)]:
            text = f"nothing was read for stall_seconds ({limits.stall_seconds})"
            yield Refusal("slow_client", text, limit="stall_seconds", utterance=utterance.name)
    busy_at = max(session.heard_at, session.drained_at)
    if not session.live and now - busy_at > limits.idle_seconds:
        text = f"no message for idle_seconds ({limits.idle_seconds})"
        yield Refusal("idle_timeout", text, limit="idle_seconds", close=NORMAL)


def _overdue(utterance: Utterance, limits: Limits, line: Line, now: float) -> Iterator[Refusal]:
    waiting = utterance.state in (State.WAITING, State.SEALED)
    name = utterance.name
    if waiting and now - utterance.opened_at > limits.queue_seconds:
        text = f"no slot came free within queue_seconds ({limits.queue_seconds})"
        yield Refusal("busy", text, limit="queue_seconds", utterance=name, retry_ms=line.retry_ms())
    elif utterance.state is State.OPEN and now - utterance.last_text_at > limits.text_seconds:
        text = f"no text for text_seconds ({limits.text_seconds}); what is known is spoken"
        yield Refusal("text_timeout", text, limit="text_seconds", utterance=name)
