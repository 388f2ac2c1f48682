"""What a socket brought, handed on in slices, so that one client's flood holds up nobody else.

Laws: nothing is lost or overtakes; while something waits here the socket is not read; a turn of the
loop takes at most one slice of a connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

SLICE = 1_024  # bytes: at most 170 frames, some milliseconds
_HEAD_END = b"\r\n\r\n"


class Intake:
    def __init__(
        self, transport: asyncio.Transport, take: Callable[[bytes], None], rate: int
    ) -> None:
        """`take` gets each slice; `rate`: frames a second, as `count` is told."""
        self.held = False  # what came before is not answered yet
        self._transport = transport
        self._take = take
        self._allowance = Allowance(rate)
        self._left = bytearray()
        self._full = False  # the messages taken so far wait unread
        self._reading = True
        self._next: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()

    def put(self, data: bytes, *, head: bool) -> None:
        """`head`: a request is coming; what follows it is a slice of its own."""
        self._left += data
        waits = self._next or self._full or self.held or self._allowance.wait(time.monotonic())
        if not waits:
            end = self._left.find(_HEAD_END, 0, SLICE) if head else -1
            self._slice(end + len(_HEAD_END) if end >= 0 else SLICE)
        self._go_on()

    def count(self) -> None:
        """A frame was in the slice."""
        self._allowance.take()

    def pause(self) -> None:
        self._full = True
        self._read(False)

    def resume(self) -> None:
        self._full = False
        self._go_on()

    def release(self) -> None:
        """What came before is answered."""
        if self.held:
            self.held = False
            self._go_on()

    def drain(self) -> None:
        """The stream has ended: hand on the rest."""
        while self._left:
            self._slice(SLICE)

    def close(self) -> None:
        self._left.clear()
        if self._next:
            self._next.cancel()

    def _go_on(self) -> None:
        """Plan the next slice, or read on."""
        if self._left:
            self._read(False)
        if self._next or self._full or self.held:
            return
        if self._left:
            pause = self._allowance.wait(time.monotonic())
            later = self._loop.call_later
            self._next = later(pause, self._turn) if pause else self._loop.call_soon(self._turn)
        else:
            self._read(True)

    def _turn(self) -> None:
        self._next = None
        if not (self._full or self.held):
            self._slice(SLICE)
        self._go_on()

    def _slice(self, size: int) -> None:
        piece = bytes(self._left[:size])
        del self._left[:size]
        self._take(piece)

    def _read(self, reading: bool) -> None:
        if reading != self._reading and not self._transport.is_closing():
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()


class Allowance:
    """A bucket that fills by `rate` a second and holds one second's worth."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.left = float(rate)
        self.at = 0.0

    def take(self) -> None:
        self.left -= 1

    def wait(self, now: float) -> float:
        """Seconds until what was taken is paid for."""
        self.left = min(self.rate, self.left + (now - self.at) * self.rate)
        self.at = now
        return 0.0 if self.left >= 0 else -self.left / self.rate
