"""What is said when a message cannot be served: stable codes, close codes, one exception. PURE."""

from __future__ import annotations

from typing import Any

# Close codes: RFC 6455 section 7.4.1, and two of our own.
NORMAL = 1000
GOING_AWAY = 1001
PROTOCOL_ERROR = 1002
UNSUPPORTED_DATA = 1003
INVALID_DATA = 1007
TOO_BIG = 1009
INTERNAL = 1011
RESTART = 1012
TRY_LATER = 1013
NO_KEY = 4401
FOREIGN_ORIGIN = 4403

CODES = (
    "bad_message",
    "unsupported",
    "unknown_utterance",
    "duplicate_utterance",
    "too_large",
    "too_many",
    "unauthorized",
    "forbidden_origin",
    "rate_limited",
    "busy",
    "draining",
    "slow_client",
    "idle_timeout",
    "text_timeout",
    "engine_failed",
    "internal",
)


class Refusal(Exception):
    """A client's mistake or our refusal.

    `close` is the WebSocket close code when the connection ends with it, else 0. `utterance` is
    filled in by whoever knows it; `field` and `limit` name what was wrong or broken.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str = "",
        limit: str = "",
        utterance: str | None = None,
        retry_ms: int | None = None,
        close: int = 0,
    ) -> None:
        assert code in CODES, code
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.limit = limit
        self.utterance = utterance
        self.retry_ms = retry_ms
        self.close = close

    def wire(self) -> dict[str, Any]:
        """The `error` message of docs/protocol.md."""
        error: dict[str, Any] = {"type": "error", "code": self.code, "message": self.message}
        for name in ("utterance", "field", "limit", "retry_ms"):
            value = getattr(self, name)
            if value is not None and value != "":
                error[name] = value
        error["fatal"] = bool(self.close)
        return error


def unknown(utterance: str, field: str = "utterance") -> Refusal:
    """`field` of a message about `utterance` names no utterance of the connection."""
    text = f"{field} names no utterance of this connection"
    return Refusal("unknown_utterance", text, field=field, utterance=utterance)
