"""Who may come in and who may speak now: keys, origins, load. PURE."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from .config import Limits, is_loopback
from .errors import Refusal

RETRY_MS = 1_000  # a slot comes free within seconds; clients add their own jitter


@dataclass
class Load:
    """How full the house is: kept by the server and the engines, read by every session."""

    slots: int = 0
    queue: int = 0
    live: int = 0  # utterances, speaking or waiting
    ready: bool = False  # an engine has spoken a frame and is alive
    draining: bool = False


def admit(load: Load, name: str, mine: int, limits: Limits) -> None:
    """Raise the Refusal that keeps the utterance `name` out; `mine` others are the connection's."""
    if load.draining:
        text = "the server is shutting down"
        raise Refusal("draining", text, utterance=name, retry_ms=RETRY_MS)
    if mine >= limits.utterances:
        text = f"the connection has {mine} live utterances, as many as utterances allows"
        raise Refusal("too_many", text, utterance=name, limit="utterances")
    if not load.ready:
        text = "the engine is starting"
        raise Refusal("busy", text, utterance=name, retry_ms=2 * RETRY_MS)
    if load.live >= load.slots + load.queue:
        text = f"all {load.slots} slots and {load.queue} places in the queue are taken"
        raise Refusal("busy", text, utterance=name, retry_ms=RETRY_MS)


class Keys:
    """SHA-256 digests of the keys that open the door; none: the door is open."""

    def __init__(self, digests: Iterable[bytes]) -> None:
        self._digests = tuple(digests)

    @property
    def needed(self) -> bool:
        return bool(self._digests)

    def accept(self, token: str) -> bool:
        """Compares with every key, in time that tells nothing of any."""
        digest = hashlib.sha256(token.encode()).digest()
        found = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(found) or not self._digests


def digests(lines: Iterable[str]) -> frozenset[bytes]:
    """Keys, one a line: plain, or `sha256:` and 64 hex digits; `#` opens a comment."""
    found = set()
    for line in lines:
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if key.startswith("sha256:"):
            digest = bytes.fromhex(key.removeprefix("sha256:"))
            if len(digest) != 32:
                raise ValueError("sha256: needs 64 hex digits")
            found.add(digest)
        else:
            found.add(hashlib.sha256(key.encode()).digest())
    return frozenset(found)


def origin_allowed(origin: str | None, host: str, allowed: Iterable[str], loopback: bool) -> bool:
    """Whether a browser page from `origin` may speak here; no origin is no browser.

    `host` is the request's Host header. On a loopback address a name that is not this machine's is
    refused even when both agree, or a page elsewhere could point its own name at us (DNS
    rebinding).
    """
    if origin is None:
        return True
    if origin.rstrip("/") in {a.rstrip("/") for a in allowed}:
        return True
    try:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return False
        same = parts.netloc.lower() == host.lower()
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return same and (not loopback or is_loopback(name) or _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
