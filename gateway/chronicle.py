"""What the log tells of utterances: their number, whose they are, how they end. Never a name of the
client's, nor a word.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from engine import messages as engine

log = logging.getLogger("vivavoce.utterance")


def note_commands(session: str, commands: Iterable[engine.Command]) -> None:
    """Of these, those that open an utterance or end it."""
    for command in commands:
        if isinstance(command, engine.Speak):
            _note(logging.DEBUG, session, command.utterance, "opened")
        elif isinstance(command, engine.Cancel):
            _note(logging.INFO, session, command.utterance, "ended: cancelled or failed")


def note_end(session: str, event: engine.Finished | engine.Failed) -> None:
    """The engine's account of an end."""
    if isinstance(event, engine.Failed):
        _note(logging.WARNING, session, event.utterance, f"failed: {event.code}")
    else:
        _note(logging.INFO, session, event.utterance, f"ended: {event.reason}", event.frames)


def _note(level: int, session: str, utterance: int, what: str, frames: int | None = None) -> None:
    of = {"session": session, "utterance": utterance}
    if frames is None:
        log.log(level, "session %s, utterance %d %s", session, utterance, what, extra=of)
    else:
        of |= {"frames": frames}
        said = "session %s, utterance %d %s, %d frames"
        log.log(level, said, session, utterance, what, frames, extra=of)
