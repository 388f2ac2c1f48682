"""What every utterance of an engine shares: the model's words and limits. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.config import ModelConfig
from engine.segments import SegmentPolicy, Split
from engine.text import Pretokens


@dataclass(frozen=True)
class Means:
    """What every utterance of an engine shares."""

    config: ModelConfig
    encode: Callable[[str], list[int]]
    pretokens: Pretokens
    split: Callable[[str], Split]  # by language
    policy: SegmentPolicy
    positions: int  # of a KV row
    chunk: int  # rows of a prefill call
    max_frames: int
    max_lead: float  # seconds
    rate: int  # samples a second
    reach: int = 0  # frames that the codec looks back
