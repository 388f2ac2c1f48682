"""Opus by libopus, where PyAV (the extra `opus`) brings it: one packet a frame of 80 ms. PURE.

A decoder of any of Opus's rates takes the packets, so the model's own samples go in and nothing is
resampled. What is decoded lags by the encoder's look-ahead.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from .audio import Samples

if TYPE_CHECKING:
    import av

ENCODING = "opus"
RATES = (8000, 16000, 24000, 48000)  # those of ours that Opus has (RFC 6716 section 2)
CLOCK = 48000  # samples a second that the look-ahead is counted in (RFC 7845 section 4.2)
FIX = "the server needs PyAV: pip install 'vivavoce[opus]'"
_MODEL_RATES = (8000, 12000, 16000, 24000, 48000)  # that libopus takes in
_BIT_RATE = 32_000  # mean; speech of 12 kHz bandwidth in one channel
_OPTIONS = {
    "application": "audio",
    "frame_duration": "80",
    "compression_level": "5",  # 0.37 ms a frame; 10 takes 0.48 ms
}


@cache
def missing() -> str:
    """Why there is no Opus here, and what helps; "" where there is."""
    try:
        from av.codec import Codec
    except ImportError:
        return FIX
    try:
        Codec("libopus", "w")
    except ValueError:
        return "the server's PyAV was built without libopus: install PyAV's own wheel"
    return ""


def takes(rate: int) -> bool:
    """Whether sound of a model of `rate` can be encoded."""
    return rate in _MODEL_RATES


class Opus:
    """One stream of packets, each of as many samples as one frame of the model has."""

    def __init__(self, rate: int) -> None:
        import av

        codec = av.CodecContext.create("libopus", "w")
        assert isinstance(codec, av.AudioCodecContext)
        codec.sample_rate = rate
        codec.layout = "mono"
        codec.format = "s16"
        codec.bit_rate = _BIT_RATE
        codec.time_base = Fraction(1, rate)
        codec.options = _OPTIONS
        codec.open()
        head = codec.extradata  # an OpusHead: RFC 7845 section 5.1
        assert head is not None
        self.lookahead = int.from_bytes(head[10:12], "little")  # samples at `CLOCK`
        self._codec = codec
        self._rate = rate
        self._taken = 0

    def encode(self, samples: Samples) -> bytes:
        """The packet of one frame."""
        import av

        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")
        frame.sample_rate = self._rate
        frame.pts = self._taken
        self._taken += len(samples)
        return self._packet(frame)

    def finish(self) -> bytes:
        """The packet that begins with the last `lookahead` samples; nothing goes in after."""
        return self._packet(None)

    def _packet(self, frame: av.AudioFrame | None) -> bytes:
        (packet,) = self._codec.encode(frame)
        return bytes(packet)
