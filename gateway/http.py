"""Plain HTTP on the WebSocket's port: the page, health, capabilities, metrics. Knows no session."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from .admission import Load
from .capabilities import Capabilities
from .config import is_loopback
from .metrics import Metrics

SPEECH = "/v1/speech"
QUERY_KEYS = {"token", "key", "api_key", "apikey", "access_token", "authorization"}

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".wasm": "application/wasm",
    ".wav": "audio/wav",
}

_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(self)",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; media-src 'self' blob:; worker-src 'self'; connect-src 'self'{socket}; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HOST = re.compile(r"[A-Za-z0-9.\-]+(:\d+)?|\[[0-9a-fA-F:.]+\](:\d+)?")


class Pages:
    """Answers every request that is not the speech socket's handshake."""

    def __init__(self, web: Path, load: Load, metrics: Metrics, *, secure: bool = False) -> None:
        self.web = web.resolve()
        self.secure = secure
        self.load = load
        self.metrics = metrics
        self.capabilities: Capabilities | None = None

    def answer(self, request: Request) -> Response | None:
        """The response to `request`; None for a handshake that may go on."""
        response = self._answer(request)
        if response is None:
            return None
        if request.method == "HEAD":
            response.body = b""
        host = header(request.headers, "Host") or ""
        if self.secure and not is_loopback(re.sub(r":\d+$", "", host)):
            response.headers["Strict-Transport-Security"] = "max-age=31536000"
        if response.status_code >= 400:
            self.metrics.refused.labels(response.status_code).inc()
        return response

    def turn_away(self, seconds: int) -> Response:
        """The answer to an address that has too many connections or comes too often."""
        text = f"Too many connections from your address: come again in {seconds} s.\n"
        response = _text(HTTPStatus.TOO_MANY_REQUESTS, text)
        response.headers["Retry-After"] = str(seconds)
        self.metrics.refused.labels(response.status_code).inc()
        return response

    def _speech(self, request: Request, query: str) -> Response | None:
        if QUERY_KEYS & {name.lower() for name, _ in parse_qsl(query, keep_blank_values=True)}:
            text = "A key never goes into the URL: send Authorization: Bearer, or hello.token.\n"
            return _text(HTTPStatus.BAD_REQUEST, text)
        if request.method == "HEAD" or "Upgrade" not in request.headers:
            response = _text(HTTPStatus.UPGRADE_REQUIRED, "This path speaks WebSocket only.\n")
            response.headers["Upgrade"] = "websocket"
            return response
        return None

    def _answer(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD"):
            response = _text(HTTPStatus.METHOD_NOT_ALLOWED, "This port answers GET and HEAD.\n")
            response.headers["Allow"] = "GET, HEAD"
            return response
        try:
            url = urlsplit(request.path)
        except ValueError:
            return _text(HTTPStatus.BAD_REQUEST, "The path is no path.\n")
        if url.path == SPEECH:
            return self._speech(request, url.query)
        match url.path:
            case "/health/live":
                return _json(HTTPStatus.OK, {"live": True})
            case "/health/ready":
                return self._ready()
            case "/v1/capabilities":
                if self.capabilities is None:
                    return _json(
                        HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the engine is starting"}
                    )
                return _json(HTTPStatus.OK, self.capabilities.report())
            case "/metrics":
                return _respond(
                    HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", self.metrics.text()
                )
        return self._file(url.path, header(request.headers, "Host") or "")

    def _ready(self) -> Response:
        load = self.load
        ready = load.ready and not load.draining
        state = "ready" if ready else "draining" if load.draining else "the engine is starting"
        body = {"ready": ready, "state": state, "slots": load.slots, "live": load.live}
        return _json(HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, body)

    def _file(self, path: str, host: str) -> Response:
        found = self._find(unquote(path))
        if found is None:
            return _text(HTTPStatus.NOT_FOUND, "There is nothing here.\n")
        kind = TYPES.get(found.suffix, "application/octet-stream")
        response = _respond(HTTPStatus.OK, kind, found.read_bytes())
        # Older browsers do not count the page's own socket as 'self'.
        socket = f" ws://{host} wss://{host}" if _HOST.fullmatch(host) else ""
        response.headers["Content-Security-Policy"] = _POLICY.format(socket=socket)
        return response

    def _find(self, path: str) -> Path | None:
        """The file under `web`, never one outside, whatever dots and links the path holds."""
        if "\0" in path or "\\" in path or any(part.startswith(".") for part in path.split("/")):
            return None
        try:
            found = (self.web / (path.lstrip("/") or "index.html")).resolve()
            return found if found.is_relative_to(self.web) and found.is_file() else None
        except OSError:
            return None


def is_handshake(request: Request) -> bool:
    return request.path.partition("?")[0] == SPEECH and "Upgrade" in request.headers


def header(headers: Headers, name: str) -> str | None:
    """The header's value; several are one with commas in it, as RFC 9110 reads them."""
    return ", ".join(headers.get_all(name)) or None


def _text(status: HTTPStatus, text: str) -> Response:
    return _respond(status, TYPES[".txt"], text.encode())


def _json(status: HTTPStatus, body: object) -> Response:
    return _respond(status, TYPES[".json"], json.dumps(body).encode() + b"\n")


def _respond(status: HTTPStatus, kind: str, body: bytes) -> Response:
    headers = Headers(_SAFE)
    headers["Content-Type"] = kind
    headers["Content-Length"] = str(len(body))
    headers["Cache-Control"] = "no-cache"
    headers["Connection"] = "close"
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    return Response(status.value, status.phrase, headers, body)
