"""TLS: what it is served from, who speaks over it, and what abrupt ends do to it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from gateway import tls
from gateway.client import SpeechError
from gateway.client import connect as open_client
from gateway.tls import WrongFile

from .house import MSGPACK, ROOT, Peer, asynchronous, gateway, until
from .test_serve import serving

READY = r"ready: open https://localhost:(\d+)/"


def certificate(folder: Path, name: str, *options: str) -> tuple[Path, Path]:
    """A self-signed certificate of localhost and its key."""
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-days", "2", "-subj", f"/CN={name}", "-out", str(paths[0]), "-keyout"),
            *(str(paths[1]), "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *(options or ["-nodes"]),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return paths


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"), "one")


def trusting(path: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=path)


def test_what_cannot_be_served_from_is_told(pair: tuple[Path, Path], tmp_path: Path) -> None:
    cert, key = pair
    _, other = certificate(tmp_path, "other")
    _, locked = certificate(tmp_path, "locked", "-passout", "pass:secret")
    text = tmp_path / "text"
    text.write_text("no certificate")
    wrong = {
        (cert, tmp_path / "none"): "none cannot be read: No such file",
        (tmp_path / "none", key): "none cannot be read: No such file",
        (cert, other): "other.key is not the key of the certificate in",
        (cert, locked): "locked.key is encrypted: take the password off",
        (text, key): "no certificate chain and private key in PEM",
        (cert, text): "no certificate chain and private key in PEM",
        (key, cert): "no certificate chain and private key in PEM",
    }
    for files, words in wrong.items():
        with pytest.raises(WrongFile, match=words):
            tls.context(*files)


@asynchronous
async def test_the_page_and_the_socket_over_tls(pair: tuple[Path, Path]) -> None:
    async with gateway(tls=tls.context(*pair)) as server:
        options = {"subprotocols": [MSGPACK], "proxy": None, "ssl": trusting(pair[0])}
        url = f"wss://localhost:{server.port}/v1/speech"
        async with connect(url, **options) as ws:  # type: ignore[arg-type]
            client = Peer(ws)
            await client.speak("u", "some words to say", end=True)
            assert (await client.until("done"))[-1]["reason"] == "eos"
        for origin, opens in (("https", True), ("http", False)):
            page = f"{origin}://localhost:{server.port}"
            async with connect(url, origin=page, **options) as ws:  # type: ignore[arg-type]
                assert ((await Peer(ws).next())["type"] == "ready") is opens
        for host, strict in (("voice.example", True), ("localhost", False), ("[::1]:1", False)):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=options["ssl"], server_hostname="localhost"
            )
            writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            head = (await reader.read()).partition(b"\r\n\r\n")[0].decode()
            writer.close()
            assert head.startswith("HTTP/1.1 200")
            assert ("Strict-Transport-Security: max-age=" in head) is strict


@asynchronous
async def test_only_new_enough_tls_is_spoken(pair: tuple[Path, Path]) -> None:
    async with gateway(tls=tls.context(*pair)) as server:
        old = trusting(pair[0])
        with pytest.warns(DeprecationWarning):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("DEFAULT@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=old, server_hostname="localhost"
            )
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")  # no TLS at all
        assert b"HTTP" not in await reader.read()
        writer.close()


@asynchronous
async def test_the_client_library_checks_the_certificate(pair: tuple[Path, Path]) -> None:
    async with gateway(tls=tls.context(*pair)) as server:
        url = f"wss://localhost:{server.port}/v1/speech"
        with pytest.raises(SpeechError, match="certificate") as caught:
            async with open_client(url):
                pass
        assert caught.value.code == "refused"
        async with open_client(url, tls=trusting(pair[0])) as client:
            utterance = await client.speak("calm", "some words")
            assert (await utterance.done()).reason == "eos"


@asynchronous
async def test_say_over_tls(pair: tuple[Path, Path], tmp_path: Path) -> None:
    async with gateway(tls=tls.context(*pair)) as server:
        url = f"wss://localhost:{server.port}/v1/speech"
        for options, status in (
            ([], 1),
            (["--ca", str(pair[0])], 0),
            (["--insecure"], 0),
            (["--ca", str(tmp_path / "none")], 2),
            (["--ca", str(pair[1])], 2),
        ):
            out = tmp_path / "out.wav"
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gateway", "say", "Hi", "--url", url, "--out", str(out)),
                *options,
                stderr=asyncio.subprocess.PIPE,
                cwd=ROOT,
            )
            _, words = await process.communicate()
            assert process.returncode == status, (options, words)
            assert b"Traceback" not in words
            assert (out.exists() and out.stat().st_size > 44) is (status == 0)
            out.unlink(missing_ok=True)


@asynchronous
async def test_abrupt_ends_leave_no_trace(pair: tuple[Path, Path]) -> None:
    """F47: nothing is written after the close began, whatever end the socket comes to."""
    async with serving("--tls-cert", str(pair[0]), "--tls-key", str(pair[1])) as served:
        port = int((await served.line(READY))[1])
        url, context = f"wss://localhost:{port}/v1/speech", trusting(pair[0])

        async def drop(number: int) -> None:
            ws = await connect(url, ssl=context, subprotocols=[MSGPACK], proxy=None)  # type: ignore[list-item]
            client = Peer(ws)
            await client.speak("u", "word " * 200, pace="fast")
            await client.until("audio")
            raw = ws.transport.get_extra_info("socket")
            match number % 5:
                case 0:
                    ws.transport.abort()
                case 1:  # a reset in mid-stream
                    linger = b"\1\0\0\0\0\0\0\0"
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    ws.transport.abort()
                case 2:  # no close_notify: the stream just ends
                    with socket.socket(fileno=os.dup(raw.fileno())) as same:
                        same.shutdown(socket.SHUT_RDWR)
                case 3:  # the close frame and the end cross the audio
                    await client.send(type="cancel")
                    ws.transport.close()
                case 4:  # half of a message, then nothing
                    ws.transport.write(b"\x82\xfe\xff\xff")
                    ws.transport.abort()

        for _ in range(4):
            await asyncio.gather(*(drop(number) for number in range(10)))
        async with connect(url, ssl=context, subprotocols=[MSGPACK], proxy=None) as ws:  # type: ignore[list-item]
            client = Peer(ws)
            await client.speak("u", "some words", end=True)
            assert (await client.until("done"))[-1]["reason"] == "eos"
        served.process.send_signal(signal.SIGTERM)
        assert await served.status() == 0
        assert not [line for line in served.lines if re.search(r" [EW] |Traceback|mistake", line)]


@asynchronous
async def test_a_drain_over_tls_lets_the_last_word_be_read(pair: tuple[Path, Path]) -> None:
    arguments = ("--tls-cert", str(pair[0]), "--tls-key", str(pair[1]), "--drain-seconds", "10")
    async with serving(*arguments) as served:
        port = int((await served.line(READY))[1])
        url, context = f"wss://localhost:{port}/v1/speech", trusting(pair[0])
        async with connect(url, ssl=context, subprotocols=[MSGPACK], proxy=None) as ws:  # type: ignore[list-item]
            client = Peer(ws)
            await client.speak("u", "word " * 10)
            await client.until("audio")
            served.process.send_signal(signal.SIGTERM)
            await served.line("draining 1 live")
            reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
            writer.write(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 503 " in await reader.readline()
            writer.close()
            await client.send(type="end", utterance="u")
            code, seen = await client.closed()
            assert (seen[-1]["reason"], code) == ("eos", 1012)
        assert await served.status() == 0


@asynchronous
async def test_a_hang_up_reads_keys_and_certificate_again(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    cert, key, keys = tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "keys"
    second = certificate(tmp_path, "two")

    def place(files: tuple[Path, Path], lines: str) -> None:
        cert.write_bytes(files[0].read_bytes())
        key.write_bytes(files[1].read_bytes())
        keys.write_text(lines)

    place(pair, "alice: first\n")
    arguments = ("--tls-cert", str(cert), "--tls-key", str(key), "--keys", str(keys))
    async with serving(*arguments, VIVAVOCE_KEYS="fixed") as served:
        port = int((await served.line(READY))[1])

        async def opens(token: str, root: Path) -> bool:
            url, headers = f"wss://localhost:{port}/v1/speech", {"Authorization": f"Bearer {token}"}
            options = {"subprotocols": [MSGPACK], "additional_headers": headers, "proxy": None}
            async with connect(url, ssl=trusting(root), **options) as ws:  # type: ignore[arg-type]
                return bool((await Peer(ws).next())["type"] == "ready")

        assert await opens("first", pair[0])
        url, headers = f"wss://localhost:{port}/v1/speech", {"Authorization": "Bearer first"}
        async with connect(
            url,
            ssl=trusting(pair[0]),
            subprotocols=[MSGPACK],  # type: ignore[list-item]
            additional_headers=headers,
            proxy=None,
        ) as ws:
            client = Peer(ws)
            await client.until("ready")
            place(second, "bob: second\n")
            served.process.send_signal(signal.SIGHUP)
            await served.line("2 keys read again")
            await served.line("certificate read again")
            assert (await client.closed())[0] == 4401  # its key is gone
        assert await opens("second", second[0])
        assert await opens("fixed", second[0])
        assert not await opens("first", second[0])
        with pytest.raises(ssl.SSLError):
            await opens("second", pair[0])
        place((pair[0], second[1]), "secret words of no key\n")
        served.process.send_signal(signal.SIGHUP)
        await served.line(" E vivavoce.reload: the keys stay as they were: --keys: line 1")
        await served.line("the certificate stays as it was: .* is not the key of")
        assert await opens("second", second[0])
        served.process.send_signal(signal.SIGTERM)
        assert await served.status() == 0
        log = "".join(served.lines)
        assert "key bob" in log
        for secret in ("first", "second", "secret", "fixed"):
            assert secret not in log


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--tls-cert"], "go together"),
        (["--tls-key"], "go together"),
        (["--tls-cert", "--tls-key", "swapped"], "in PEM"),
    ],
)
@asynchronous
async def test_half_of_tls_is_told(given: list[str], words: str, pair: tuple[Path, Path]) -> None:
    files = dict(zip(("--tls-cert", "--tls-key"), pair, strict=True))
    if "swapped" in given:
        files = dict(zip(("--tls-key", "--tls-cert"), pair, strict=True))
    arguments = [word for flag in given[:2] if flag in files for word in (flag, str(files[flag]))]
    async with serving(*arguments) as served:
        assert await served.status() == 2
        log = " ".join("".join(served.lines).split())
        assert words in log
        assert "Traceback" not in log


@asynchronous
async def test_handshakes_that_stand_still_end(pair: tuple[Path, Path]) -> None:
    async with gateway(tls=tls.context(*pair)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"\x16\x03\x01")  # the beginning of a hello
        assert await reader.read() == b""
        writer.close()
        await until(lambda: not server.addresses._open)
