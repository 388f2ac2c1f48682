"""Where a server's speech socket is, from what people write. PURE."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

PATH = "/v1/speech"
_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


def speech_url(text: str) -> str:
    """The socket's URL for a URL or HOST[:PORT]; ValueError, in words, where it is neither."""
    try:
        parts = urlsplit(text if "://" in text else f"ws://{text}")
        good = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port or an IPv6 address that is none
        good = False
    if not good:
        raise ValueError(f"{text!r} is no server's address; write ws://HOST:PORT or HOST:PORT")
    path = parts.path if parts.path not in ("", "/") else PATH
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, path, parts.query, ""))
