"""The page's parts without a browser, in the node that comes with Playwright."""

from __future__ import annotations

import json
import subprocess
from math import ceil
from pathlib import Path

import playwright
import pytest

from .faulty import FRAME, FaultyServer

pytestmark = pytest.mark.browser

HERE = Path(__file__).parent
NODE = Path(playwright.__file__).parent / "driver" / "node"


@pytest.mark.parametrize("file", sorted(path.name for path in HERE.glob("*.test.js")))
def test_part(file: str) -> None:
    command = [str(NODE), "--expose-gc", "--test", "--test-reporter=spec", str(HERE / file)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "fail 0" in run.stdout and "pass 0" not in run.stdout, run.stdout


def test_the_client_serves_a_chatbot_in_node() -> None:
    with FaultyServer() as server:
        url = server.url.replace("http", "ws") + "v1/speech"
        command = [str(NODE), str(HERE / "chatbot.js"), url]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    whole, interrupted = map(json.loads, run.stdout.splitlines())
    text = "Well, here we are. Ask me something."
    assert whole["samples"] == whole["done"]["samples"] == ceil(len(text) / 1.2) * FRAME
    assert whole["done"]["reason"] == "eos"
    assert interrupted["done"]["reason"] == "cancelled"
    cancel = next(message for message in server.log if message["type"] == "cancel")
    assert cancel["played"] == FRAME
