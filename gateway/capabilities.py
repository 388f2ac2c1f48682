"""What the loaded model and this gateway can do; validation, `ready` and HTTP share it. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.messages import PREDICTOR_RANGES as PREDICTOR_RANGES
from engine.messages import TALKER_RANGES as TALKER_RANGES
from engine.messages import Ready, Sampling

from . import formats
from .config import Limits

PROTOCOL = "vivavoce.v1"
SUBPROTOCOLS = ("vivavoce.v1.msgpack", "vivavoce.v1.json")
FRAME_RATE = 12.5  # codec frames a second (model.md section 1)
MAX_SEED = 2**53 - 1  # what a JavaScript number holds exactly

VOICES = {"voice_design": "design", "custom_voice": "speaker", "base": "clone"}


@dataclass(frozen=True)
class Capabilities:
    model: str
    kind: str
    languages: tuple[str, ...]  # lower case, "auto" first
    speakers: tuple[str, ...]
    rate: int
    frame_samples: int
    codebooks: int
    slots: int
    device: str
    seconds: float  # the longest utterance
    talker: Sampling
    predictor: Sampling
    limits: Limits
    spell_numbers: bool = False  # before the engine gets them

    @classmethod
    def of(cls, ready: Ready, limits: Limits) -> Capabilities:
        formats.served(ready.rate)  # libraries load now, and hold up no client
        return cls(
            model=ready.model,
            kind=ready.kind,
            languages=("auto", *sorted({n.lower() for n in ready.languages} - {"auto"})),
            speakers=tuple(ready.speakers),
            rate=ready.rate,
            frame_samples=ready.frame_samples,
            codebooks=ready.codebooks,
            slots=ready.slots,
            device=ready.device,
            seconds=min(limits.utterance_seconds, ready.max_frames / FRAME_RATE),
            talker=ready.talker,
            predictor=ready.predictor,
            limits=limits,
            spell_numbers=ready.spell_numbers,
        )

    @property
    def formats(self) -> tuple[formats.Format, ...]:
        """The default first."""
        return formats.served(self.rate)

    def facts(self) -> dict[str, Any]:
        """What `ready` and /v1/capabilities both say."""
        facts: dict[str, Any] = {
            "protocol": PROTOCOL,
            "model": self.model,
            "kind": self.kind,
            "voice": VOICES[self.kind],
            "languages": list(self.languages),
            "rate": self.rate,
            "frame_samples": self.frame_samples,
            "formats": [format._asdict() for format in self.formats],
            "limits": asdict(self.limits) | {"utterance_seconds": self.seconds},
        }
        if self.speakers:
            facts["speakers"] = list(self.speakers)
        return facts

    def ready(self, session: str, limits: Mapping[str, int]) -> dict[str, Any]:
        """The first message; `limits` are the key's own."""
        ready = {"type": "ready", "session": session} | self.facts()
        ready["limits"] |= limits
        return ready

    def report(self) -> dict[str, Any]:
        """The body of GET /v1/capabilities."""
        predictor = asdict(self.predictor)
        del predictor["repetition_penalty"]
        return self.facts() | {
            "subprotocols": list(SUBPROTOCOLS),
            "device": self.device,
            "slots": self.slots,
            "sampling": asdict(self.talker) | {"predictor": predictor},
            "ranges": {k: list(v) for k, v in TALKER_RANGES.items()}
            | {"predictor": {k: list(v) for k, v in PREDICTOR_RANGES.items()}},
            "pace": ["live", "fast"],
            "layout": ["auto", "stream", "full"],
            "carry": ["context", "none"],
            "clean": ["auto", "off"],
        }
