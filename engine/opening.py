"""Whether an engine can speak an utterance at all, and the rows its prompts begin with. Pure."""

from __future__ import annotations

from engine import prompt
from engine.means import Means
from engine.messages import PREDICTOR_RANGES, TALKER_RANGES, Speak

ROOM = 0.25  # of a KV row: the least that a voice leaves to text and frames


class Refused(Exception):
    """What an engine does not speak. `code` as in Failed."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def opening(speak: Speak, means: Means) -> list[prompt.Row]:
    """The prompt's rows before the text. Raises Refused."""
    for name, ranges in (("talker", TALKER_RANGES), ("predictor", PREDICTOR_RANGES)):
        if outside := getattr(speak, name).outside(ranges):
            said = f"{name}'s sampling is out of range: {', '.join(outside)}"
            raise Refused("bad_message", said)
    if not 0 <= speak.seed < 1 << 63:
        raise Refused("bad_message", "the seed is out of range")
    try:
        rows = prompt.opening(
            means.config, means.encode, speak.instruct, speak.language, speak.speaker
        )
    except ValueError as error:
        raise Refused("unsupported", str(error)) from None
    most = int(means.positions * (1 - ROOM))
    if len(rows) > most:
        text = f"the description is too long: {len(rows)} tokens, where {most} leave room to speak"
        raise Refused("too_large", text)
    return rows
