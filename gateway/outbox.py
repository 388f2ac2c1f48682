"""What waits to be written to one client, with its two water marks. PURE.

Law: `held` turns true when the backlog rises above `high`, false when it falls below `low`, and at
no other time.
"""

from __future__ import annotations

from collections import deque
from typing import Any

OVERHEAD = 128  # bytes a queued message costs besides its audio
BEHIND = ("audio", "words", "journal")  # mean nothing without the audio before them


class Outbox:
    def __init__(self, high: int, low: int) -> None:
        assert 0 < low < high
        self.high = high
        self.low = low
        self.bytes = 0
        self.held = False
        self._messages: deque[dict[str, Any]] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: dict[str, Any]) -> None:
        self._messages.append(message)
        self.bytes += _size(message)
        if self.bytes > self.high:
            self.held = True

    def take(self) -> dict[str, Any]:
        message = self._messages.popleft()
        self._shrink(_size(message))
        return message

    def clear(self) -> None:
        self._messages.clear()
        self._shrink(self.bytes)

    def drop_audio(self, utterance: str) -> int:
        """Forget the queued audio of `utterance` and what describes it; returns how many samples
        that were.
        """
        kept: deque[dict[str, Any]] = deque()
        samples = 0
        for message in self._messages:
            if message["type"] in BEHIND and message["utterance"] == utterance:
                samples += message.get("samples", 0)
                self._shrink(_size(message))
            else:
                kept.append(message)
        self._messages = kept
        return samples

    def holds_audio(self, utterance: str) -> bool:
        return any(m["type"] == "audio" and m["utterance"] == utterance for m in self._messages)

    def _shrink(self, size: int) -> None:
        self.bytes -= size
        if self.bytes < self.low:
            self.held = False


def _size(message: dict[str, Any]) -> int:
    pcm = message.get("pcm") or message.get("record")
    return OVERHEAD + len(pcm) if pcm else OVERHEAD
