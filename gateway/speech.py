"""What a gateway's client gets to hold: audio, the account of an utterance, errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple


class SpeechError(Exception):
    """The server's `error`, or the connection's end. `code` is stable: docs/protocol.md lists them.

    Besides those: `connection_lost`, `refused` (no speech socket there).
    """

    def __init__(self, code: str, message: str, retry_ms: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retry_ms = retry_ms

    @classmethod
    def read(cls, error: dict[str, Any]) -> SpeechError:
        return cls(error["code"], error["message"], error.get("retry_ms"))


class Audio(bytes):
    """A piece of speech as bytes, by default s16le. `start` and `samples` place it in samples;
    `skip` of Opus are decoded before those.
    """

    start: int
    samples: int
    skip: int

    @classmethod
    def read(cls, message: dict[str, Any]) -> Audio:
        audio = cls(message["pcm"])
        audio.start = message["start"]
        audio.samples = message["samples"]
        audio.skip = message.get("skip", 0)
        return audio


class Word(NamedTuple):
    """A word as it is spoken: samples of its sound, and where it begins in the client's text."""

    text: str
    start: int
    end: int
    char: int


@dataclass(frozen=True)
class Done:
    """The server's account of an utterance. What it does not say is None."""

    reason: str  # eos | empty | cancelled | length | guard_silence | guard_loop | text_timeout
    samples: int
    segments: int | None = None
    ttfa_ms: float | None = None
    audible_ms: float | None = None
    rtf: float | None = None
    text_wait_ms: float | None = None
    engine_wait_ms: float | None = None
    heard: str | None = None  # of the text, where it was not spoken to its end
    remaining: str | None = None
    estimated: bool | None = None

    @property
    def whole(self) -> bool:
        """Whether the text was spoken to its natural end."""
        return self.reason in ("eos", "empty")

    @classmethod
    def read(cls, message: dict[str, Any]) -> Done:
        return cls(**{f.name: message[f.name] for f in fields(cls) if f.name in message})


class Speech(bytes):
    """All audio of an utterance, with its `rate` and the server's account `done`."""

    rate: int
    done: Done

    @classmethod
    def of(cls, pieces: Iterable[bytes], rate: int, done: Done) -> Speech:
        speech = cls(b"".join(pieces))
        speech.rate = rate
        speech.done = done
        return speech
