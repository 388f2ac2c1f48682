"""What only time makes wrong: late keys, slow queues, clients that neither read nor speak. PURE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .admission import RETRY_MS
from .config import Limits
from .errors import NO_KEY, NORMAL, Refusal
from .utterance import State, Utterance

if TYPE_CHECKING:
    from .session import Session


def overdue(session: Session, now: float) -> Iterator[Refusal]:
    """A Refusal for everything of `session` whose time is over; it carries them out one by one."""
    limits = session.limits
    if not session.authorized:
        if now - session.opened_at > limits.first_message_seconds:
            text = f"no hello within first_message_seconds ({limits.first_message_seconds})"
            yield Refusal("unauthorized", text, limit="first_message_seconds", close=NO_KEY)
        return
    for utterance in list(session.live.values()):
        yield from _overdue(utterance, limits, now)
    if session.outbox and now - session.drained_at > limits.stall_seconds:
        for utterance in [u for u in session.live.values() if session.outbox.holds_audio(u.name)]:
            text = f"nothing was read for stall_seconds ({limits.stall_seconds})"
            yield Refusal("slow_client", text, limit="stall_seconds", utterance=utterance.name)
    if not session.live and now - session.heard_at > limits.idle_seconds:
        text = f"no message for idle_seconds ({limits.idle_seconds})"
        yield Refusal("idle_timeout", text, limit="idle_seconds", close=NORMAL)


def _overdue(utterance: Utterance, limits: Limits, now: float) -> Iterator[Refusal]:
    waiting = utterance.state in (State.WAITING, State.SEALED)
    name = utterance.name
    if waiting and now - utterance.opened_at > limits.queue_seconds:
        text = f"no slot came free within queue_seconds ({limits.queue_seconds})"
        yield Refusal("busy", text, limit="queue_seconds", utterance=name, retry_ms=RETRY_MS)
    elif utterance.state is State.OPEN and now - utterance.last_text_at > limits.text_seconds:
        text = f"no text for text_seconds ({limits.text_seconds}); what is known is spoken"
        yield Refusal("text_timeout", text, limit="text_seconds", utterance=name)
