"""What dashboard, alerts and the operators' page name is what a gateway at work tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gateway.metrics import REASONS

from .house import ROOT, asynchronous, gateway, http, peer

MONITOR = ROOT / "tools" / "monitor"
DASHBOARD = json.loads((MONITOR / "grafana/dashboards/vivavoce.json").read_text("utf-8"))
ALERTS = [
    rule
    for group in yaml.safe_load((MONITOR / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
UNITS = ("_seconds", "_total", "_bytes", "_ratio", "_info", "_fds")
COUNTS = {"connections", "live", "slots", "ready", "running", "waiting", "starved", "held"}

_METRIC = re.compile(r"\b(?:vivavoce|process)_\w+")
_LABEL = re.compile(r'(code|reason|le)=~?"([^"$]+)"')


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in ALERTS)
    yield from (target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])


@pytest.fixture(scope="module")
def told() -> list[Any]:
    """The families of a real /metrics behind real utterances and a refused request."""
    texts: list[str] = []

    @asynchronous
    async def speak() -> None:
        async with gateway() as server, peer(server) as client:
            await client.speak("u", "one two three four", end=True)
            await client.until("done")
            await http(server, "GET", "/nowhere")
            texts.append((await http(server, "GET", "/metrics"))[2].decode())

    speak()
    return list(text_string_to_metric_families(texts[0]))


def test_whatever_is_asked_for_is_told(told: list[Any]) -> None:
    names = {sample.name for family in told for sample in family.samples}
    labels = {pair for family in told for s in family.samples for pair in s.labels.items()}
    asked = list(expressions())
    assert len(asked) > 30
    for expression in asked:
        assert set(_METRIC.findall(expression)) <= names, expression
        for label, values in _LABEL.findall(expression):
            assert {(label, v) for v in values.split("|")} <= labels, expression


def test_a_name_ends_in_its_unit_and_is_on_the_operators_page(told: list[Any]) -> None:
    for family in told:
        name = family.name + ("_total" if family.type == "counter" else "")
        if name.startswith("vivavoce_"):
            assert name.endswith(UNITS) or name.removeprefix("vivavoce_") in COUNTS, name
        if not name.startswith(("process_", "vivavoce_engine_process_")):
            assert f"`{name}`" in PAGE, name


def test_histograms_are_whole(told: list[Any]) -> None:
    histograms = [f for f in told if f.type == "histogram"]
    assert {f.name for f in histograms} == {
        "vivavoce_ttfa_seconds",
        "vivavoce_frame_gap_seconds",
        "vivavoce_playback_lead_seconds",
        "vivavoce_engine_step_seconds",
    }
    for family in histograms:
        buckets = [s for s in family.samples if s.name.endswith("_bucket")]
        values = [s.value for s in buckets]
        (count,) = [s.value for s in family.samples if s.name.endswith("_count")]
        assert buckets[-1].labels["le"] == "+Inf"
        assert values == sorted(values)
        assert values[-1] == count > 0, family.name


def test_reasons_are_those_of_the_protocol() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text("utf-8")
    assert all(f"`{reason}`" in page for reason in REASONS)


def test_every_alert_says_what_to_do() -> None:
    section = PAGE.partition("## Alerts")[2].partition("\n## ")[0]
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)
    for rule in ALERTS:
        assert f"| {rule['alert']} |" in section
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("page", "warn")


def test_panels_have_their_own_ids_and_the_source_that_is_set_up() -> None:
    folder = MONITOR / "grafana/provisioning"
    (source,) = yaml.safe_load((folder / "datasources/prometheus.yml").read_text())["datasources"]
    assert yaml.safe_load((folder / "dashboards/vivavoce.yml").read_text())["providers"]
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {panel["datasource"]["uid"] for panel in panels} == {source["uid"]}
    scrape = yaml.safe_load((MONITOR / "prometheus.yml").read_text())
    assert scrape["rule_files"] == ["alerts.yml"]
    assert scrape["scrape_configs"][0]["job_name"] == "vivavoce"
