"""What operators see, as Prometheus text. No label ever holds text, keys or addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from engine.messages import Ready, Status

from .admission import Load
from .buckets import Buckets
from .errors import CODES
from .keys import Keys

disable_created_metrics()  # type: ignore[no-untyped-call]  # a time for each series, which nobody asks for

_TTFA = (0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10)
_GAP = (0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.16, 0.25, 0.5, 1, 2, 5)
_LEAD = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.2, 1.6, 2, 3, 5, 10, 30)
_STEP = (0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.2, 0.5, 1)
REASONS = (
    *("eos", "empty", "cancelled", "length", "guard_silence", "guard_loop"),
    *("text_timeout", "error"),
)  # of a `done`


@dataclass(slots=True)
class Pace:
    """When an utterance's last frame came, and when a player that never stops runs dry."""

    at: float = 0.0  # 0: none came
    dry_at: float = 0.0


class Metrics(Collector):
    """Counters of one gateway. The busy ones are plain integers, read when Prometheus asks."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.keys = Keys()
        self.status: Status | None = None
        self.connections = 0
        self.sent_bytes = 0
        self.sent_messages = 0
        self.received_bytes = 0
        self.received_messages = 0
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.engine_pid = 0  # of the engine now running; 0: none
        self.held: Callable[[], int] = lambda: 0  # utterances whose client reads too slowly
        self.frame_gap, self.lead = Buckets(_GAP), Buckets(_LEAD)
        self._frame_seconds = 0.0
        ProcessCollector(registry=self.registry)
        ProcessCollector("vivavoce_engine", lambda: self.engine_pid, registry=self.registry)
        self.utterances = Counter(
            "vivavoce_utterances", "Utterances ended, by reason", ["reason"], registry=self.registry
        )
        self.errors = Counter(
            "vivavoce_errors", "Errors sent, by code", ["code"], registry=self.registry
        )
        self.restarts = Counter(
            "vivavoce_engine_restarts",
            "Times an engine process was started again",
            registry=self.registry,
        )
        self.revived = Counter(
            "vivavoce_utterances_revived",
            "Utterances that went on in a fresh engine",
            registry=self.registry,
        )
        self.refused = Counter(
            "vivavoce_http_refused",
            "HTTP requests refused, by status",
            ["status"],
            registry=self.registry,
        )
        self.ttfa = Histogram(
            "vivavoce_ttfa_seconds",
            "First text received to first audio, at the server",
            buckets=_TTFA,
            registry=self.registry,
        )
        self.step = Histogram(
            "vivavoce_engine_step_seconds",
            "Wall time of the engine's latest step, at each of its reports",
            buckets=_STEP,
            registry=self.registry,
        )
        for reason in REASONS:  # a rate needs its zero
            self.utterances.labels(reason)
        for code in CODES:
            self.errors.labels(code)

    def sent(self, message: dict[str, Any], size: int) -> None:
        self.sent_bytes += size
        self.sent_messages += 1
        kind = message["type"]
        if kind == "done":
            self.utterances.labels(message["reason"]).inc()
            if message["ttfa_ms"] is not None:
                self.ttfa.observe(message["ttfa_ms"] / 1000)
        elif kind == "error":
            self.errors.labels(message["code"]).inc()

    def received(self, size: int) -> None:
        self.received_bytes += size
        self.received_messages += 1

    def frame(self, pace: Pace, now: float) -> None:
        """A frame of the utterance has come."""
        if pace.at:
            self.frame_gap.observe(now - pace.at)
            self.lead.observe(max(0.0, pace.dry_at - now))
        pace.at = now
        pace.dry_at = max(pace.dry_at, now) + self._frame_seconds

    def engine_ready(self, ready: Ready, pid: int) -> None:
        self.engine_pid, self.status = pid, None
        self._frame_seconds = ready.frame_samples / ready.rate

    def engine_status(self, status: Status) -> None:
        if self.status is None or status.steps > self.status.steps:
            self.step.observe(status.step)
        self.status = status

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        status = self.status if self.load.ready else None
        running, starved = (status.running, status.starved) if status else (0, 0)
        held = self.held()
        gauges: dict[str, tuple[float, str]] = {
            "connections": (self.connections, "Open WebSocket connections"),
            "live": (self.load.live, "Live utterances, speaking or waiting"),
            "slots": (self.load.slots, "Utterances that can speak at once"),
            "ready": (
                int(self.load.ready and not self.load.draining),
                "1 when new utterances are welcome",
            ),
            "running": (running, "Utterances in a slot"),
            "waiting": (
                self.load.line.waiting + (status.waiting if status else 0),
                "Utterances waiting for a slot",
            ),
            "starved": (starved, "Utterances in a slot without text"),
            "starved_ratio": (starved / max(1, running), "Of those in a slot, without text"),
            "held": (held, "Live utterances whose client reads too slowly"),
            "held_ratio": (held / max(1, self.load.live), "Of the live ones, held"),
        }
        for name, (value, help_text) in gauges.items():
            yield GaugeMetricFamily(f"vivavoce_{name}", help_text, value)
        counters = {
            "sent_bytes": (self.sent_bytes, "Bytes of messages sent"),
            "sent_messages": (self.sent_messages, "Messages sent"),
            "received_bytes": (self.received_bytes, "Bytes of messages received"),
            "received_messages": (self.received_messages, "Messages received"),
            "engine_steps": (status.steps if status else 0, "Steps of the engine now running"),
            "engine_frames": (status.frames if status else 0, "Frames of the engine now running"),
        }
        for name, (value, help_text) in counters.items():
            yield CounterMetricFamily(f"vivavoce_{name}", help_text, value)
        for name, buckets, help_text in (
            ("frame_gap", self.frame_gap, "Between two frames of one utterance"),
            ("playback_lead", self.lead, "Speech a listener still had when the next frame came"),
        ):
            name = f"vivavoce_{name}_seconds"
            counts = buckets.cumulative()
            yield HistogramMetricFamily(name, help_text, counts, buckets.total)
        yield from self._by_key()

    def _by_key(self) -> Iterator[Metric]:
        """What keys with a name have used."""
        utterances = CounterMetricFamily(
            "vivavoce_key_utterances", "Utterances accepted, by key", labels=["key"]
        )
        chars = CounterMetricFamily(
            "vivavoce_key_chars", "Characters of text received, by key", labels=["key"]
        )
        for account in self.keys.named:
            utterances.add_metric([account.grant.name], account.utterances)
            chars.add_metric([account.grant.name], account.chars)
        yield from (utterances, chars)
