"""The README's example runs as it stands."""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import PIPE

from tests.gateway.house import ROOT, asynchronous, gateway


@asynchronous
async def test_the_chatbot_of_the_readme_speaks() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert len(example.splitlines()) <= 22
    async with gateway() as server:
        here = example.replace("localhost:8000", f"localhost:{server.port}")
        assert here != example
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", here, stdout=PIPE, stderr=PIPE, cwd=ROOT
        )
        out, told = await process.communicate()
    assert process.returncode == 0, told.decode()
    lines = out.decode().splitlines()
    assert lines[0] == "  0.00 s: 3840 bytes"
    assert "reason='eos'" in lines[-1]
