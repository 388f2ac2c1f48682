"""Where `vivavoce say` puts its audio: a WAV file, standard output or the speakers."""

from __future__ import annotations

import asyncio
import errno
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from .listener import Utterance
from .speaker import Speaker
from .wav import WavFile

RATE = 24_000  # of the codec
REPORT_SECONDS = 0.2  # between reports of what has been played


class Sink(Protocol):
    """Where audio goes: a file or the speakers."""

    async def write(self, pcm: bytes) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


class FileSink:
    """A WAV file, or standard output for "-". What was there is replaced with the first audio."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if str(path) == "-" and sys.stdout is None:
            raise OSError(errno.EBADF, "standard output is closed")
        self._wav: WavFile | None = None
        self._made = str(path) != "-" and not path.exists()
        if str(path) != "-":
            path.open("ab").close()  # raises now rather than after the first word

    async def write(self, pcm: bytes) -> None:
        await asyncio.to_thread(self._file().write, pcm)

    async def drain(self) -> None:
        self._file()  # a text without a word is a file without a sample

    def close(self) -> None:
        if self._wav:
            with suppress(BrokenPipeError):
                self._wav.close()
        elif self._made:
            self.path.unlink(missing_ok=True)

    def _file(self) -> WavFile:
        if self._wav is None:
            stdout = str(self.path) == "-"
            file: BinaryIO = sys.stdout.buffer if stdout else self.path.open("wb")
            self._wav = WavFile(file, RATE)
        return self._wav


class SpeakerSink:
    def __init__(self) -> None:
        self.speaker = Speaker(RATE)
        self.write = self.speaker.write
        self.drain = self.speaker.drain
        self.close = self.speaker.close

    async def report(self, utterance: Utterance) -> None:
        """Tell the server what has been heard."""
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            await utterance.played(self.speaker.played)
