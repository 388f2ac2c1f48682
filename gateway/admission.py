"""Which pages may come in, and who may speak now. PURE."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from .config import Limits, is_loopback
from .errors import Refusal
from .keys import Visitor
from .line import Line
from .protocol import Speak

RETRY_MS = 1_000  # for what passes within seconds; clients add their own jitter

_PORTS = {"http": 80, "https": 443}
_LOCAL = (".local", ".internal", ".home.arpa")  # never in public DNS (RFC 6762, ICANN, RFC 8375)


@dataclass
class Load:
    """How full the house is: kept by the server and the engines, read by every session."""

    slots: int = 0
    queue: int = 0
    live: int = 0  # utterances, speaking or waiting
    ready: bool = False  # an engine has spoken a frame and is alive
    reviving: bool = False  # or the next one will soon: utterances may wait for it
    draining: bool = False
    line: Line = field(default_factory=Line)


def admit(
    load: Load, limits: Limits, mine: int, visitor: Visitor, speak: Speak, now: float
) -> None:
    """Raise the Refusal that keeps an utterance out; `mine` others are the connection's."""
    name = speak.utterance
    if load.draining:
        text = "the server is shutting down"
        raise Refusal("draining", text, utterance=name, retry_ms=RETRY_MS)
    if mine >= limits.utterances:
        text = f"the connection has {mine} live utterances, as many as utterances allows"
        raise Refusal("too_many", text, utterance=name, limit="utterances")
    if not (load.ready or load.reviving):
        text = "the engine is starting"
        raise Refusal("busy", text, utterance=name, retry_ms=2 * RETRY_MS)
    if load.live >= load.slots + load.queue and not load.line.yields(visitor.share):
        text = f"all {load.slots} slots and {load.queue} places in the queue are taken"
        raise Refusal("busy", text, utterance=name, retry_ms=load.line.retry_ms())
    visitor.open(name, speak.chars, load.line.live(visitor.share), now)


def origin_allowed(
    origin: str | None, host: str, allowed: Iterable[str], strict: bool, scheme: str = ""
) -> bool:
    """Whether a browser page from `origin` may speak here; no origin is no browser.

    `host` is the request's Host header, `scheme` that of the page as far as we know. `strict`
    refuses a name that public DNS may hold even when both agree, or a page elsewhere could point
    its own name at us (DNS rebinding).
    """
    if origin is None:
        return True
    if origin.rstrip("/") in {a.rstrip("/") for a in allowed}:
        return True
    try:
        parts = urlsplit(origin)
        if "@" in origin + host or parts.path:
            return False
        ours = urlsplit(f"{parts.scheme}://{host}")
        same = bool(parts.hostname) and _place(parts) == _place(ours)
    except ValueError:
        return False
    if parts.scheme not in _PORTS or (scheme and parts.scheme != scheme) or not same:
        return False
    return not strict or _is_private(ours.hostname or "")


def _place(url: SplitResult) -> tuple[str | None, int | None]:
    return url.hostname, url.port or _PORTS.get(url.scheme)


def _is_private(name: str) -> bool:
    """Whether nobody elsewhere can give `name` an address: it is one, or not in public DNS."""
    return is_loopback(name) or _is_address(name) or "." not in name or name.endswith(_LOCAL)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
