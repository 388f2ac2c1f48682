"""What the loaded model and this gateway can do; validation, `ready` and HTTP share it. PURE."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from engine.messages import Ready, Sampling

from .audio import ENCODINGS
from .config import Limits

PROTOCOL = "vivavoce.v1"
SUBPROTOCOLS = ("vivavoce.v1.msgpack", "vivavoce.v1.json")
FRAME_RATE = 12.5  # codec frames a second (model.md section 1)
MAX_SEED = 2**53 - 1  # what a JavaScript number holds exactly

# Ranges of seed-features.md E7, both ends included.
TALKER_RANGES = {
    "temperature": (0.01, 2.0),
    "top_k": (0, 3072),
    "top_p": (0.0, 1.0),
    "repetition_penalty": (0.1, 2.0),
}
PREDICTOR_RANGES = {"temperature": (0.01, 2.0), "top_k": (0, 2048), "top_p": (0.0, 1.0)}

VOICES = {"voice_design": "design", "custom_voice": "speaker", "base": "clone"}


@dataclass(frozen=True)
class Capabilities:
    model: str
    kind: str
    languages: tuple[str, ...]  # lower case, "auto" first
    speakers: tuple[str, ...]
    rate: int
    frame_samples: int
    slots: int
    device: str
    seconds: float  # the longest utterance
    talker: Sampling
    predictor: Sampling
    limits: Limits

    @classmethod
    def of(cls, ready: Ready, limits: Limits) -> Capabilities:
        return cls(
            model=ready.model,
            kind=ready.kind,
            languages=("auto", *sorted({n.lower() for n in ready.languages} - {"auto"})),
            speakers=tuple(ready.speakers),
            rate=ready.rate,
            frame_samples=ready.frame_samples,
            slots=ready.slots,
            device=ready.device,
            seconds=min(limits.utterance_seconds, ready.max_frames / FRAME_RATE),
            talker=ready.talker,
            predictor=ready.predictor,
            limits=limits,
        )

    @property
    def formats(self) -> list[dict[str, Any]]:
        return [{"encoding": encoding, "rate": self.rate} for encoding in ENCODINGS]

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
            "formats": self.formats,
            "limits": asdict(self.limits) | {"utterance_seconds": self.seconds},
        }
        if self.speakers:
            facts["speakers"] = list(self.speakers)
        return facts

    def ready(self, session: str) -> dict[str, Any]:
        return {"type": "ready", "session": session} | self.facts()

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
            "clean": ["auto"],
        }
