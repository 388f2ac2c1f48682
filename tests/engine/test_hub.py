"""A model's name finds its folder: a path, the hub, the hub's cache; and says plainly when not."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engine.hub import FILES, NotFound, locate

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = {name: f"content of {name}".encode() for name in [*FILES, "README.md", "model.bin"]}
LOCATE = "from engine.hub import *\ntry: print(locate({!r}, print))\nexcept NotFound as e: print(e)"


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's API as a snapshot needs."""

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, body: bool) -> None:
        if self.path.startswith("/api/models/ours/voice/revision/"):
            files = [{"rfilename": name} for name in REPOSITORY]
            answer = {"id": "ours/voice", "sha": COMMIT, "siblings": files}
            return self._send(200, json.dumps(answer).encode(), body)
        name = self.path.removeprefix(f"/ours/voice/resolve/{COMMIT}/")
        if name in REPOSITORY:
            return self._send(200, REPOSITORY[name], body)
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        return self.end_headers()

    def _send(self, status: int, content: bytes, body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            self.wfile.write(content)


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def located(model: str, home: Path, **environment: str) -> list[str]:
    """Lines that a process prints: the hub's client reads its environment but once."""
    mine = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    mine |= {"HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"} | environment
    script = [sys.executable, "-c", LOCATE.format(model)]
    return subprocess.run(
        script, env=mine, capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert locate(str(tmp_path), print) == tmp_path


def test_a_snapshot_is_fetched_once_and_then_found_without_the_hub(
    endpoint: str, tmp_path: Path
) -> None:
    *_, folder = located("ours/voice", tmp_path, HF_ENDPOINT=endpoint)
    files = {str(f.relative_to(folder)) for f in Path(folder).rglob("*") if f.is_file()}
    assert files == set(FILES)
    assert (Path(folder) / "merges.txt").read_bytes() == REPOSITORY["merges.txt"]
    assert located("ours/voice", tmp_path, HF_HUB_OFFLINE="1")[-1] == folder


def test_a_revision_can_be_named(endpoint: str, tmp_path: Path) -> None:
    *_, folder = located("ours/voice@v2", tmp_path, HF_ENDPOINT=endpoint)
    assert Path(folder).name == COMMIT


def test_a_repository_that_the_hub_does_not_have_is_told(endpoint: str, tmp_path: Path) -> None:
    *_, told = located("ours/nothing", tmp_path, HF_ENDPOINT=endpoint)
    assert told == "ours/nothing is no folder here and not on the hub"


@pytest.mark.parametrize("how", ["offline", "refused"])
def test_without_the_hub_and_without_a_copy_it_says_what_to_do(how: str, tmp_path: Path) -> None:
    refused = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    environment = {"HF_HUB_OFFLINE": "1"} if how == "offline" else refused
    *_, told = located("ours/voice", tmp_path, **environment)
    assert told == (
        "ours/voice is no folder here, not in the hub's cache, and the hub cannot be reached"
    )


@pytest.mark.parametrize("model", ["./nowhere/at/all", "nowhere", "", "a/b/c", "../x"])
def test_what_is_neither_folder_nor_hub_id_is_told(model: str) -> None:
    with pytest.raises(NotFound, match="is no folder") as caught:
        locate(model, print)
    assert "hub id" in caught.value.problem.remedy


def test_a_file_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model.safetensors").write_text("")
    with pytest.raises(NotFound, match="is no folder"):
        locate("a/model.safetensors", print)
