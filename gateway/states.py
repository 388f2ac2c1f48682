"""An utterance's states, and what moves it from one to another. PURE."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    WAITING = "waiting"  # for a slot; text may come
    SEALED = "waiting, its text has ended"
    OPEN = "open"  # speaking or about to; text may come
    DRAINING = "draining"  # text ended, audio coming


# What moves an utterance, and where to. A move that is not here is the client's mistake; cancel, a
# finish and a failure are legal everywhere and end it.
MOVES: dict[State, dict[str, State]] = {
    State.WAITING: {
        "text": State.WAITING,
        "flush": State.WAITING,
        "end": State.SEALED,
        "started": State.OPEN,
    },
    State.SEALED: {"started": State.DRAINING},
    State.OPEN: {"text": State.OPEN, "flush": State.OPEN, "end": State.DRAINING},
    State.DRAINING: {},
}
