"""`vivavoce say` as a process of its own, against the real gateway; and its parts."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import signal
import sys
import wave
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path

import pytest

from gateway.keys import grants
from gateway.say import Source
from gateway.server import Server
from gateway.wav import HEADER, WavFile
from tests.gateway.house import ROOT, asynchronous, gateway, until

FRAME = 1_920
SECOND = 24_000


async def say(server: Server, *arguments: str, stdin: int = DEVNULL) -> Process:
    url = f"ws://127.0.0.1:{server.port}/v1/speech"
    command = ["-m", "gateway", "say", "--url", url, "--voice", "a calm man", *arguments]
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, stdin=stdin, stdout=PIPE, stderr=PIPE, cwd=ROOT
    )


def frames(path: Path) -> int:
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (SECOND, 1, 2)
        return file.getnframes()


@asynchronous
async def test_a_text_becomes_a_wav_file(tmp_path: Path) -> None:
    out = tmp_path / "x.wav"
    async with gateway() as server:
        process = await say(server, "one two three four", "--seed", "7", "--out", str(out))
        _, told = await process.communicate()
    assert process.returncode == 0
    assert frames(out) == 12 * FRAME
    assert re.search(r"^first audio after \d+ ms$", told.decode(), re.MULTILINE)
    assert re.search(r"0\.96 s of speech · RTF [\d.]+ · seed 7$", told.decode(), re.MULTILINE)


@pytest.mark.parametrize(("raw", "words"), [([], 2), (["--raw"], 3)])
@asynchronous
async def test_marks_are_said_on_request(raw: list[str], words: int, tmp_path: Path) -> None:
    out = tmp_path / "x.wav"
    async with gateway() as server:
        process = await say(server, "**one** 🎉 two", "--out", str(out), *raw)
        await process.communicate()
    assert frames(out) == 3 * words * FRAME


@asynchronous
async def test_a_pipe_is_spoken_while_it_is_written() -> None:
    async with gateway() as server:
        process = await say(server, "--stdin", "--out", "-", stdin=PIPE)
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"well, here ")
        await process.stdin.drain()
        head = await process.stdout.readexactly(HEADER + 2 * FRAME)
        assert head.startswith(b"RIFF")
        process.stdin.write(b"we are")  # only now, with audio in hand
        process.stdin.close()
        rest = await process.stdout.read()
        assert await process.wait() == 0
    assert len(head) + len(rest) == HEADER + 2 * FRAME * 12


@asynchronous
async def test_ctrl_c_leaves_a_valid_file(tmp_path: Path) -> None:
    out = tmp_path / "x.wav"
    async with gateway() as server:
        process = await say(server, "--stdin", "--out", str(out), stdin=PIPE)
        assert process.stdin
        assert process.stderr
        process.stdin.write(b"one two three ")
        await process.stdin.drain()
        assert b"first audio" in await process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
        assert server.load.live == 0
    assert 0 < frames(out) <= 9 * FRAME
    assert frames(out) == (out.stat().st_size - HEADER) // 2


@asynchronous
async def test_sigterm_ends_it_too(tmp_path: Path) -> None:
    async with gateway() as server:
        process = await say(server, "--stdin", "--out", str(tmp_path / "x.wav"), stdin=PIPE)
        assert process.stdin
        assert process.stderr
        process.stdin.write(b"one two three ")
        await process.stdin.drain()
        assert b"first audio" in await process.stderr.readline()
        process.terminate()
        assert await process.wait() == 143
    assert frames(tmp_path / "x.wav") > 0


@asynchronous
async def test_a_guarded_stop_is_no_success(tmp_path: Path) -> None:
    async with gateway() as server:
        process = await say(server, "#loop", "--out", str(tmp_path / "x.wav"))
        _, told = await process.communicate()
    assert process.returncode == 1
    assert b"not whole: guard_loop" in told


@asynchronous
async def test_a_failure_is_said_and_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "x.wav"
    async with gateway() as server:
        process = await say(server, "#fail", "--out", str(out))
        _, told = await process.communicate()
    assert process.returncode == 1
    assert told.decode().strip() == "asked to fail"
    assert not out.exists()


@asynchronous
async def test_a_failure_leaves_an_older_file_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "x.wav"
    out.write_bytes(b"older")
    async with gateway() as server:
        process = await say(server, "#fail", "--out", str(out))
        assert await process.wait() == 1
    assert out.read_bytes() == b"older"


@asynchronous
async def test_where_nothing_answers(tmp_path: Path) -> None:
    async with gateway() as server:
        pass
    process = await say(server, "hello", "--out", str(tmp_path / "x.wav"))
    _, told = await process.communicate()
    assert process.returncode == 1
    assert told.decode().startswith("nothing answers at ws://127.0.0.1:")


@asynchronous
async def test_a_key_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = grants(["sesame"])
    out = tmp_path / "x.wav"
    async with gateway(keys=keys) as server:
        refused = await say(server, "hello", "--out", str(out))
        _, told = await refused.communicate()
        assert refused.returncode == 1
        assert b"token" in told
        assert not out.exists()
        monkeypatch.setenv("VIVAVOCE_TOKEN", "sesame")
        assert await (await say(server, "hello", "--out", str(out))).wait() == 0
    assert frames(out) == 3 * FRAME


@pytest.mark.parametrize("arguments", [[], ["hello", "--stdin"]])
@asynchronous
async def test_a_text_or_a_pipe(arguments: list[str], tmp_path: Path) -> None:
    out = str(tmp_path / "x.wav")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "say", *arguments, "--out", out,
        stdin=DEVNULL, stderr=PIPE, cwd=ROOT,
    )  # fmt: skip
    _, told = await process.communicate()
    assert process.returncode == 2
    assert b"either a text or --stdin" in told


@asynchronous
async def test_a_folder_that_is_not_there_is_told_before_anything_else(tmp_path: Path) -> None:
    async with gateway() as server:
        process = await say(server, "hello", "--out", str(tmp_path / "no" / "x.wav"))
        _, told = await process.communicate()
    assert process.returncode == 2
    assert b"Cannot write" in told
    assert b"No such file or directory" in told


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("--stdin <&-", 2, "Standard input is closed."),
        ("$'\\xff'", 2, "The text is not UTF-8."),
        ("hello --voice $'\\xff'", 2, "--voice is not UTF-8."),
        ("hello --language $'\\xff'", 2, "--language is not UTF-8."),
        ("hello --token $'\\xff' --url ws://127.0.0.1:9/", 2, "--token is not UTF-8."),
        ("hello --url nonsense.invalid", 1, "nothing answers at ws://nonsense.invalid/v1/speech"),
        ("hello --url http://127.0.0.1:9/", 1, "nothing answers at ws://127.0.0.1:9/v1/speech"),
        ("hello --url ws://[", 2, "--url: 'ws://[' is no server's address"),
        ("hello --url ws://h:x/", 2, "--url: 'ws://h:x/' is no server's address"),
        ("hello --device tpu", 2, "auto, cpu or cuda"),
        ("hello --url ws://127.0.0.1:9/ --out - >&-", 2, "standard output is closed"),
    ],
)
@asynchronous
async def test_what_cannot_be_said_is_told(
    command: str, status: int, words: str, tmp_path: Path
) -> None:
    shell = f"exec {sys.executable} -m gateway say --out {tmp_path}/x.wav {command}"
    process = await asyncio.create_subprocess_exec("bash", "-c", shell, stderr=PIPE, cwd=ROOT)
    _, told = await process.communicate()
    assert process.returncode == status
    assert words in told.decode()
    assert "Traceback" not in told.decode()
    assert os.listdir(tmp_path) == []


@asynchronous
async def test_a_full_disk_is_told() -> None:
    async with gateway() as server:
        process = await say(server, "one two three", "--out", "/dev/full")
        _, told = await process.communicate()
    assert process.returncode == 1
    assert b"No space left on device" in told
    assert b"Traceback" not in told


@asynchronous
async def test_a_second_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "say", "hello", "--out", str(tmp_path / "x.wav"),
        stderr=PIPE, cwd=ROOT, env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    await until(lambda: any(name.startswith("vivavoce-") for name in os.listdir(tmp_path)))
    process.send_signal(signal.SIGINT)
    await asyncio.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):  # a fast machine is done by then
        process.send_signal(signal.SIGINT)
    _, told = await process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in told
    assert os.listdir(tmp_path) == []


@asynchronous
async def test_without_a_sound_card_it_asks_for_a_file() -> None:
    script = (
        "import sys; sys.modules['sounddevice'] = None\n"
        "from gateway.say import run\n"
        "sys.exit(run(text='hello'))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stderr=PIPE, cwd=ROOT
    )
    _, told = await process.communicate()
    assert process.returncode == 2
    assert b"sounddevice is not installed" in told
    assert b"--out" in told


@asynchronous
async def test_a_character_split_over_two_reads_comes_whole() -> None:
    reading, writing = os.pipe()
    pieces = Source().pieces(reading)
    os.write(writing, b"W\xc3")
    assert await anext(pieces) == "W"
    os.write(writing, b"\xb6rter \xf0\x9f")
    assert await anext(pieces) == "örter "
    os.close(writing)
    assert [piece async for piece in pieces] == ["\ufffd"]
    os.close(reading)


def test_a_wav_that_cannot_seek_says_that_its_length_is_unknown() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def close(self) -> None:
            self.whole = self.getvalue()

    pipe = Pipe()
    with WavFile(pipe, SECOND) as wav:
        wav.write(bytes(8))
    assert pipe.whole[4:8] == pipe.whole[40:44] == b"\xff\xff\xff\xff"
    assert len(pipe.whole) == HEADER + 8


def test_a_wav_in_a_file_knows_its_length(tmp_path: Path) -> None:
    with WavFile((tmp_path / "x.wav").open("wb"), SECOND) as wav:
        wav.write(bytes(2 * SECOND))
    assert frames(tmp_path / "x.wav") == SECOND


@asynchronous
async def test_a_server_is_named_as_people_write_it(tmp_path: Path) -> None:
    async with gateway() as server:
        for url in (f"localhost:{server.port}", f"http://127.0.0.1:{server.port}/"):
            process = await say(server, "one", "--out", str(tmp_path / "x.wav"), "--url", url)
            assert await process.wait() == 0
            assert frames(tmp_path / "x.wav") == 3 * FRAME


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--model", "x"], "--model and --device are the server's own at --url: leave them out."),
        (
            ["--device", "cpu"],
            "--model and --device are the server's own at --url: leave them out.",
        ),
        (["--url", "ftp://x"], "--url: 'ftp://x' is no server's address"),
    ],
)
@asynchronous
async def test_what_cannot_be_meant_is_said(arguments: list[str], told: str) -> None:
    async with gateway() as server:
        process = await say(server, "one", "--out", "-", *arguments)
        out, error = await process.communicate()
    assert process.returncode == 2
    assert out == b""
    assert error.decode().startswith(told)


@asynchronous
async def test_a_key_that_lacks_is_asked_for() -> None:
    async with gateway(keys=grants(["secret"])) as server:
        process = await say(server, "one", "--out", "-")
        _, error = await process.communicate()
    assert process.returncode == 1
    assert error.decode().strip().endswith("(--token or VIVAVOCE_TOKEN gives it)")
