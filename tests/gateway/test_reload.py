"""`vivavoce key`, the flags of the door, and a terminal that goes away."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import signal
import subprocess
import sys

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from gateway.keys import grants

from .house import MSGPACK, ROOT, asynchronous
from .test_serve import READY, serving


def key(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway", "key", *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, cwd=ROOT)


def test_a_key_is_drawn_and_shown_once_beside_its_line() -> None:
    made = key("alice")
    secret = made.stderr.split()[-1]
    assert len(secret) == 32
    assert made.stdout == f"alice: sha256:{hashlib.sha256(secret.encode()).hexdigest()}\n"
    (grant,) = grants([made.stdout]).values()
    assert grant.name == "alice"


def test_a_key_from_a_pipe_is_hashed() -> None:
    made = key("--stdin", given="sesame\n")
    digest = hashlib.sha256(b"sesame").hexdigest()
    assert (made.returncode, made.stdout, made.stderr) == (0, f"sha256:{digest}\n", "")
    for given in ("", "\n", "two words\n"):
        assert key("--stdin", given=given).returncode == 2
    wrong = key("al ice")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "a name has 1 to 32" in " ".join(wrong.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--trust-proxy", "localhost"], "--trust-proxy"),
        (["--trust-proxy", "10.0.0.1/8"], "host bits set"),
        (["--log-level", "loud"], "debug, info, warning or error"),
    ],
)
@asynchronous
async def test_wrong_flags_are_told(arguments: list[str], words: str) -> None:
    async with serving(*arguments) as served:
        assert await served.status() == 2
        log = "".join(served.lines)
        assert words in log
        assert "Traceback" not in log


@asynchronous
async def test_a_trusted_proxy_says_for_whom_it_speaks() -> None:
    limits = ("--limit", "address_handshakes_per_minute=1")
    async with serving("--trust-proxy", "127.0.0.1", *limits) as served:
        port = int((await served.line(READY))[1])
        url = f"ws://127.0.0.1:{port}/v1/speech"
        for address, opens in (("198.51.100.1", True), ("198.51.100.2", True)):
            for again in (False, True):
                headers = {"X-Forwarded-For": f"6.6.6.6, {address}"}
                opening = connect(
                    url,
                    subprotocols=[MSGPACK],  # type: ignore[list-item]
                    additional_headers=headers,
                    proxy=None,
                )
                if again:
                    with pytest.raises(InvalidStatus, match="429"):
                        await opening
                else:
                    async with opening as ws:
                        assert (b"ready" in await ws.recv()) is opens


@asynchronous
async def test_without_keys_a_hang_up_changes_nothing() -> None:
    async with serving() as served:
        port = int((await served.line(READY))[1])
        served.process.send_signal(signal.SIGHUP)
        await served.line("0 keys read again")
        async with connect(f"ws://127.0.0.1:{port}/v1/speech?format=json", proxy=None) as ws:
            assert "ready" in str(await ws.recv())


@asynchronous
async def test_a_server_ends_with_its_terminal() -> None:
    ours, theirs = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "serve", "--worker", "tests.gateway.fake_engine"),
        stdin=theirs,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PORT": "0"},
    )
    os.close(theirs)
    assert process.stderr
    while not re.search(READY, (await process.stderr.readline()).decode()):
        pass
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    assert b"draining" in await process.stderr.read()
    assert await process.wait() == 0
