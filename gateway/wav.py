"""A WAV file that is valid while it grows: s16le, one channel. Knows nothing of speech."""

from __future__ import annotations

import struct
from types import TracebackType
from typing import BinaryIO

UNKNOWN = 0xFFFF_FFFF  # the size players take as "until the end"
HEADER = 44


def header(rate: int, data_bytes: int = UNKNOWN) -> bytes:
    """RIFF header for `data_bytes` of samples; without it, of a stream of unknown length."""
    riff = UNKNOWN if data_bytes == UNKNOWN else min(data_bytes + HEADER - 8, UNKNOWN)
    form = struct.pack(
        "<4sI4s4sIHHIIHH", b"RIFF", riff, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16
    )
    return form + struct.pack("<4sI", b"data", data_bytes)


class WavFile:
    """Writes as it goes; `close` puts the length into the header where the file can seek."""

    def __init__(self, file: BinaryIO, rate: int) -> None:
        self._file = file
        self._rate = rate
        self.bytes = 0
        file.write(header(rate))

    def write(self, pcm: bytes) -> None:
        self._file.write(pcm)
        self._file.flush()
        self.bytes += len(pcm)

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            if self._file.seekable():
                self._file.seek(0)
                self._file.write(header(self._rate, self.bytes))
        finally:
            self._file.close()

    def __enter__(self) -> WavFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
