"""The log of a real server process: one JSON object a line, with whose utterance it tells of."""

from __future__ import annotations

import json
import re
import signal

import pytest

from .house import asynchronous
from .test_serve import serving, speaking


@pytest.mark.parametrize("level", ["info", "debug"])
@asynchronous
async def test_a_line_is_an_object_that_names_session_and_utterance(level: str) -> None:
    arguments = ("--log-format", "json", "--log-level", level, "--drain-seconds", "5")
    async with serving(*arguments) as served:
        ready = await served.line(r"ready: open http://localhost:(\d+)/")
        async with speaking(int(ready[1])) as client:
            await client.send(type="cancel", utterance="u")
            await client.until("done")
            await client.speak("v", "Geheimnis ", voice={"design": "Flüstern"}, end=True)
            await client.until("done", reason="eos")
            await client.speak("w", "Geheimnis #fail", voice={"design": "Flüstern"}, end=True)
            await client.until("done", reason="error")
        served.process.send_signal(signal.SIGTERM)
        assert await served.status() == 0
    lines = [json.loads(line) for line in served.lines]
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert {"level", "logger", "message"} <= line.keys()
        known = {"time", "level", "logger", "message", "session", "utterance", "frames"}
        assert line.keys() <= known
    told = [line for line in lines if "utterance" in line]
    (session,) = {line["session"] for line in lines if "session" in line}
    assert {line["session"] for line in told} == {session}
    ends = [line for line in told if "opened" not in line["message"]]
    assert [line["utterance"] for line in ends] == [1, 2, 3]
    assert ends[1]["frames"] == 3
    for line, end in zip(ends, ("cancelled", "eos", "failed: internal"), strict=True):
        assert end in line["message"]
    assert len(told) - len(ends) == (3 if level == "debug" else 0)
    assert "Geheimnis" not in "".join(served.lines)
