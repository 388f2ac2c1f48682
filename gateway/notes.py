"""What a client notes of one utterance, so that another connection can take it up. PURE.

All that was said, and with `journal` asked for all that was told; audio itself is not kept.
"""

from __future__ import annotations

import struct
from typing import Any

PLACE = 4  # bytes of a flush's
SLACK = 1_024  # bytes of a message besides what is counted


class Notes:
    def __init__(self, message_bytes: int, text_bytes: int) -> None:
        self.whole = True  # what was told is known
        self._most = message_bytes - SLACK
        self._text_bytes = text_bytes
        self._said: list[dict[str, Any]] = []
        self._seed: int | None = None
        self._codes = bytearray()
        self._journal = bytearray()
        self._frames = self._flushed = self._words = 0

    def say(self, message: dict[str, Any]) -> None:
        """The `speak`, a `text`, `flush` or `end`."""
        if self.whole:
            self._said.append(message)

    def hear(self, message: dict[str, Any]) -> None:
        """A message of the server's about this utterance."""
        match message["type"]:
            case "started":
                self._seed = message["seed"]
            case "audio" if "codes" in message and message["seq"] == self._frames:
                self._frames += 1
                self._codes += message["codes"]
            case "audio":
                self._forget()
            case "journal":
                self._journal += message["record"]
            case "flushed":
                self._flushed += 1
            case "words":
                self._words += len(message["words"])
        if len(self._codes) + len(self._journal) > self._most:
            self._forget()

    def again(self) -> list[dict[str, Any]]:
        """What is said to a server that knows nothing of it."""
        speak, *said = self._said
        speak = {k: v for k, v in speak.items() if k != "continues"}  # of a connection that is gone
        if self._seed is not None:
            speak["seed"] = self._seed
        return self._resume(speak, said) if self._frames else [speak, *said]

    def _resume(self, speak: dict[str, Any], said: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the message has no room for follows as it was said."""
        name = speak["utterance"]
        end = [{"type": "end", "utterance": name}] if speak.pop("end", False) else []
        said = [{"type": "text", "utterance": name, "text": speak.pop("text", "")}, *end, *said]
        voice = sum(len(str(v).encode()) for v in speak.values())
        room = self._most - len(self._codes) - len(self._journal) - voice
        room = min(room, self._text_bytes)
        text, flushes, ended = "", b"", False
        while said and not ended:
            message = said.pop(0)
            piece = message.get("text", "")
            head = piece.encode()[: max(0, room)].decode(errors="ignore")
            text += head
            room -= len(head.encode()) + (PLACE if message["type"] == "flush" else 0)
            if head != piece or room < 0:
                said.insert(0, message | {"text": piece[len(head) :]} if piece else message)
                break
            ended = message["type"] == "end"
            if message["type"] == "flush":
                flushes += struct.pack("<I", len(text))
        resume = {
            "seed": speak.pop("seed"),
            "text": text,
            "ended": ended,
            "codes": bytes(self._codes),
            "seq": self._frames,
            "flushes": flushes,
            "flushed": min(self._flushed, len(flushes) // 4),
            "words": self._words,
            "journal": bytes(self._journal),
        }
        return [speak | {"resume": resume}, *said]

    def _forget(self) -> None:
        self.whole = False
        self._said.clear()
        self._codes.clear()
        self._journal.clear()
