"""How a client comes to a speech socket: one connection, one `ready`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from ssl import SSLContext, SSLError
from typing import Any
from urllib.parse import urlsplit

import msgpack
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from .config import is_loopback
from .speech import SpeechError

Trust = SSLContext | None  # whose certificate is believed; None: whom this machine trusts
SUBPROTOCOL = Subprotocol("vivavoce.v1.msgpack")
HELLO = {"type": "hello", "client": "vivavoce-python"}
OPEN_SECONDS = 15.0
PING_TIMEOUT = 60.0  # pongs queue behind audio under load


async def dial(url: str, token: str | None, tls: Trust) -> tuple[ClientConnection, dict[str, Any]]:
    """An open socket and the server's `ready`. Raises SpeechError, and OSError when nothing
    answers.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    secure: dict[str, Any] = {} if tls is None else {"ssl": tls}
    try:
        socket = await open_socket(
            url,
            subprotocols=[SUBPROTOCOL],
            additional_headers=headers,
            compression=None,
            open_timeout=OPEN_SECONDS,
            ping_timeout=PING_TIMEOUT,
            proxy=None if is_loopback(urlsplit(url).hostname or "") else True,
            **secure,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        code = "busy" if status in (429, 502, 503, 504) else "refused"
        text = f"no speech socket at {url}: HTTP status {status}"
        raise SpeechError(code, text) from error
    except (WebSocketException, ValueError, SSLError) as error:
        raise SpeechError("refused", f"no speech socket at {url}: {error}") from error
    except OSError as error:
        raise OSError(error.errno, f"nothing answers at {url}") from error
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            with suppress(ConnectionClosed):  # the refusal that came before it says why
                await socket.send(msgpack.packb(HELLO))
            ready: dict[str, Any] = msgpack.unpackb(await socket.recv())
    except ConnectionClosed as closed:
        raise lost(closed) from closed
    except BaseException:
        await socket.close()
        raise
    if ready["type"] != "ready":
        await socket.close()
        raise SpeechError.read(ready)
    return socket, ready


def lost(closed: ConnectionClosed) -> SpeechError:
    frame = closed.rcvd
    if frame is None:
        return SpeechError("connection_lost", "the connection broke")
    reason = f"{frame.code} {frame.reason}".strip()
    return SpeechError("connection_lost", f"the server closed the connection: {reason}")
