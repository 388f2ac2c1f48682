"""Our frames are the library's, byte for byte."""

from __future__ import annotations

import pytest
from websockets.frames import Frame, Opcode

from gateway.frames import framed


@pytest.mark.parametrize("size", [0, 1, 125, 126, 255, 256, 3987, 65535, 65536, 70_000])
@pytest.mark.parametrize("text", [True, False])
def test_frames_are_those_of_the_library(size: int, text: bool) -> None:
    data = b"x" * size
    opcode = Opcode.TEXT if text else Opcode.BINARY
    assert framed(data, text=text) == Frame(opcode, data).serialize(mask=False)
