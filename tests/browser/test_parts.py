"""The page's parts without a browser, in the node that comes with Playwright."""

from __future__ import annotations

import subprocess
from pathlib import Path

import playwright
import pytest

pytestmark = pytest.mark.browser

HERE = Path(__file__).parent
NODE = Path(playwright.__file__).parent / "driver" / "node"


@pytest.mark.parametrize("file", sorted(path.name for path in HERE.glob("*.test.js")))
def test_part(file: str) -> None:
    command = [str(NODE), "--expose-gc", "--test", "--test-reporter=spec", str(HERE / file)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "fail 0" in run.stdout and "pass 0" not in run.stdout, run.stdout
