"""What the gateway is told once, at its start. `__main__` alone reads the environment."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from ssl import SSLContext
from typing import Any

from .keys import Grant

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))

_HERE = Path(__file__).resolve().parent
WEB = _HERE / "web" if (_HERE / "web").is_dir() else _HERE.parent / "web"  # wheel, checkout


@dataclass(frozen=True)
class Limits:
    """Every bound a client can meet, as `ready.limits` states it. Sizes: bytes; times: seconds."""

    message_bytes: int = 131_072  # one WebSocket message, before it is decoded
    description_bytes: int = 4_096
    text_bytes: int = 32_768  # the text of one speak or text message
    utterance_text_bytes: int = 1_048_576  # all text of one utterance
    pending_text_chars: int = (
        262_144  # received and not yet fed to the talker; beyond it the socket is not read
    )
    messages_per_second: int = 2_000  # more wait in the socket
    utterances: int = 16  # live ones on one connection
    utterance_seconds: float = 655.36  # of audio; the engine's own limit when that is lower
    first_message_seconds: float = 10.0  # until the key arrives, where keys are needed
    queue_seconds: float = 10.0
    text_seconds: float = 60.0  # an open utterance without text
    idle_seconds: float = 600.0  # a connection without messages and live utterances
    stall_seconds: float = 10.0  # a client that drains nothing
    address_connections: int = 256  # open at once from one address
    address_handshakes_per_minute: int = 600
    outbox_high: int = 262_144  # above it the connection's utterances are held ...
    outbox_low: int = 65_536  # ... below it they go on

    @classmethod
    def of(cls, pairs: Iterable[str]) -> Limits:
        """The defaults with `name=value` pairs in place of some. Raises ValueError."""
        kinds: dict[str, Any] = {f.name: type(f.default) for f in fields(cls)}
        values: dict[str, Any] = {}
        for pair in pairs:
            name, _, value = pair.partition("=")
            if name not in kinds:
                raise ValueError(f"no limit {name!r}; there are {', '.join(kinds)}")
            kind = kinds[name]
            try:
                values[name] = kind(value)
            except ValueError:
                what = "a whole number" if kind is int else "a number"
                raise ValueError(f"{name} must be {what}") from None
            if not 0 < values[name] < 2**53:  # what JSON holds everywhere
                raise ValueError(f"{name} must be above 0 and finite")
        limits = cls(**values)
        if limits.outbox_low >= limits.outbox_high:
            raise ValueError("outbox_low must be below outbox_high")
        return limits


@dataclass(frozen=True)
class EngineArguments:
    """Handed to the engine process as they are; "" and 0 leave the engine's own default.

    The gateway counts who may wait; the engine's `queue` must only never be the tighter bound.
    """

    model: str = ""
    device: str = "auto"
    weights: str = ""
    slots: int = 0
    queue: int = 0

    @property
    def arguments(self) -> list[str]:
        pairs = {
            "--model": self.model,
            "--device": self.device,
            "--weights": self.weights,
            "--slots": self.slots or "",
            "--queue": self.queue or "",
        }
        return [f"{flag}={value}" for flag, value in pairs.items() if value]


@dataclass(frozen=True)
class GatewayConfig:
    host: str = "127.0.0.1"
    port: int = 8000
    origins: tuple[str, ...] = ()  # besides the page's own
    keys: Mapping[bytes, Grant] = field(default_factory=dict)  # by digest; empty: none is asked for
    proxies: tuple[Network, ...] = ()  # whose X-Forwarded-For and -Proto are believed
    spared: tuple[Network, ...] = LOOPBACK  # no limits by address here
    tls: SSLContext | None = None
    queue: int = 64  # utterances that may wait for a slot, all connections together
    drain_seconds: float = 5.0
    ping_seconds: float = 20.0
    worker: tuple[str, ...] = ("-m", "engine.worker")  # what the interpreter runs as the engine
    engine: EngineArguments = field(default_factory=EngineArguments)
    limits: Limits = field(default_factory=Limits)
    web: Path = WEB

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`, a bare name or address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
