"""What users say, who they are and what opens the door is in no log line and no metric."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import msgpack
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from .house import JSON, MSGPACK, ROOT, Peer, asynchronous
from .test_serve import READY, serving

MARK = "Zwetschgenknödel"
WORDS = f"some {MARK} words "
KEY = "schluessel-am-haken"


async def raw_http(port: int, request: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.encode())
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("log_format", ["text", "json"])
@asynchronous
async def test_no_marked_word_is_written_anywhere(log_format: str) -> None:
    arguments = ("--log-format", log_format, "--log-level", "debug", "--drain-seconds", "0")
    async with serving(*arguments, VIVAVOCE_KEYS=KEY) as served:
        port = int((await served.line(READY))[1])
        url, headers = f"ws://127.0.0.1:{port}/v1/speech", {"Authorization": f"Bearer {KEY}"}

        async def session(subprotocol: str = MSGPACK, token: str = KEY) -> Peer:
            shown = headers | {"Authorization": f"Bearer {token}"}
            options = {"subprotocols": [subprotocol], "additional_headers": shown, "proxy": None}
            return Peer(await connect(url, **options))  # type: ignore[arg-type]

        voice = {"design": MARK}
        for subprotocol in (MSGPACK, JSON):  # success, then every kind of error
            client = await session(subprotocol)
            await client.speak(MARK, WORDS, voice=voice, end=True, progress=True)
            await client.until("done", reason="eos")
            await client.speak(MARK, WORDS + "#fail", voice=voice)
            await client.until("done", reason="error")
            await client.speak(MARK, WORDS, voice=voice)
            await client.send(type="flush", utterance=MARK)
            await client.send(type="text", utterance=MARK, text=WORDS, seq=9)
            await client.until("done", reason="error")
            for wrong in (
                {"type": MARK},
                {"type": "text", "utterance": MARK, MARK: WORDS},
                {"type": "speak", "utterance": MARK, "voice": MARK},
                {"type": "speak", "utterance": MARK, "voice": voice, "language": MARK},
                {"type": "speak", "utterance": MARK, "voice": voice, "text": WORDS * 2000},
                {"type": "end", "utterance": MARK + "!"},
            ):
                await client.send(**wrong)
                await client.until("error")
            await client.socket.send((MARK * 3).encode() if subprotocol == MSGPACK else MARK * 3)
            assert (await client.closed())[0] == 1007
        for token in (MARK.encode().hex(), KEY + "x"):  # a wrong key, in the header
            assert (await (await session(token=token)).closed())[0] == 4401
        for path in (f"/{MARK}", f"/v1/speech?token={KEY}", f"/v1/speech?x={MARK}", "//["):
            path = path.replace("ö", "%C3%B6")
            await raw_http(port, f"GET {path} HTTP/1.1\r\nHost: {KEY}\r\nX-{KEY}: {KEY}\r\n\r\n")
        await raw_http(port, f"{KEY} {KEY} {KEY}\r\n{KEY}\r\n\r\n")
        client = await session()  # a frame broken in mid-word, then one too large
        client.socket.transport.write(b"\x83\x05" + MARK.encode())
        await client.closed()
        client = await session()
        with suppress(ConnectionClosed):  # refused before it is all sent
            await client.socket.send(msgpack.packb({"type": "ping", "id": MARK * 20_000}))
        assert (await client.closed())[0] == 1009
        client = await session()  # lost in mid-speech
        await client.speak(MARK, WORDS * 20, voice=voice)
        await client.until("audio")
        client.socket.transport.abort()
        client = await session()  # the engine dies with the words in its hands
        await client.speak(MARK, WORDS + "#crash", voice=voice)
        await client.until("done", reason="error")
        metrics = await raw_http(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        served.process.send_signal(signal.SIGTERM)
        assert await served.status() == 0
        log = "".join(served.lines)
        assert "session" in log
        assert "engine ended" in log
        assert b'vivavoce_utterances_total{reason="error"}' in metrics
        if log_format == "json":
            log = "".join(json.loads(line)["message"] for line in served.lines)
        for secret in (MARK, "Zwetsch", ascii(MARK)[1:-1], "some", KEY, "127.0.0.1"):
            assert secret not in log, secret
            assert secret.encode() not in metrics, secret


WORKER = """
import sys
from engine import worker
def serve(engine, connection):
    {body}
worker.serve = serve
worker.begin = lambda config: (None, None)
worker.pack = lambda events: b""
sys.exit(worker.main())
"""


@pytest.mark.parametrize(
    "body",
    [
        f"raise ValueError('{MARK}')",
        f"raise KeyError('{MARK}') from ValueError('{MARK}')",
        "import threading; t = threading.Thread(target=lambda: {}['" + MARK + "']); t.start(); "
        "t.join()",
    ],
)
@asynchronous
async def test_an_engine_that_breaks_says_where_and_not_with_what(body: str) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = str(Path(folder) / "engine.sock")
        listener.bind(path)
        listener.listen()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WORKER.format(body=body), "--socket", path, "--device", "cpu"),
            stderr=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        _, words = await process.communicate()
    assert b"Error in <string>:" in words.partition(b" < ")[0]
    assert MARK.encode() not in words
