"""The page, health, capabilities and metrics on the speech socket's port."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.config import Limits

from .house import ROOT, asynchronous, gateway, http, peer


@asynchronous
async def test_the_page_and_its_files_come_with_safe_headers(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "app.js").write_text("1")
    async with gateway(web=tmp_path) as server:
        status, headers, body = await http(server, "GET", "/")
        assert (status, body) == (200, b"<!doctype html>")
        assert headers["content-type"] == "text/html; charset=utf-8"
        assert headers["x-content-type-options"] == "nosniff"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert f"ws://127.0.0.1:{server.port}" in policy
        status, headers, body = await http(server, "GET", "/app.js?v=2")
        assert (status, headers["content-type"], body) == (
            200,
            "text/javascript; charset=utf-8",
            b"1",
        )


@asynchronous
async def test_head_is_get_without_the_body(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    async with gateway(web=tmp_path) as server:
        for path in ("/", "/health/ready", "/v1/capabilities"):
            _, get, body = await http(server, "GET", path)
            status, head, nothing = await http(server, "HEAD", path)
            assert (status, nothing) == (200, b"")
            assert head["content-length"] == get["content-length"] == str(len(body))


@asynchronous
async def test_nothing_outside_the_web_folder_is_served(tmp_path: Path) -> None:
    web = tmp_path / "web"
    web.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (web / ".hidden").write_text("secret")
    (web / "inner").mkdir()
    os.symlink(tmp_path / "secret.txt", web / "link.txt")
    paths = [
        *("/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/inner/../../secret.txt"),
        *("/%2e%2e%2fsecret.txt", "//secret.txt", f"/{tmp_path}/secret.txt", "/..\\secret.txt"),
        *(
            "/.hidden",
            "/link.txt",
            "/inner",
            "/%00",
            "/secret.txt%00.html",
            "/none",
            "/" + "a" * 5000,
        ),
        *("/%252e%252e/secret.txt", "/.", "/..", "/inner/"),
    ]
    async with gateway(web=web) as server:
        for path in paths:
            status, _, body = await http(server, "GET", path)
            assert status == 404, path
            assert b"secret" not in body, path


@asynchronous
async def test_wrong_methods_and_paths_are_told(tmp_path: Path) -> None:
    async with gateway(web=tmp_path) as server:
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            status, headers, _ = await http(server, method, "/metrics")
            assert (status, headers["allow"]) == (405, "GET, HEAD")
        assert (await http(server, "POST", "/v1/speech", Content_Length="0"))[0] == 405
        status, _, _ = await http(server, "GET", "/v1/speech")
        assert status == 426  # a WebSocket, not a page
        status, headers, _ = await http(server, "POST", "/v1/audio/speech", Content_Length="9")
        assert (status, headers["allow"]) == (405, "GET, HEAD")
        assert (await http(server, "GET", "/v1/speak"))[0] == 404
        async with peer(server) as client:
            assert await client.alive()


@asynchronous
async def test_head_of_the_speech_socket_is_its_get() -> None:
    async with gateway() as server:
        _, get, body = await http(server, "GET", "/v1/speech")
        status, head, nothing = await http(server, "HEAD", "/v1/speech")
        assert (status, head["upgrade"], nothing) == (426, "websocket", b"")
        assert head["content-length"] == get["content-length"] == str(len(body))


@pytest.mark.parametrize("path", ["//[", "http://[", "//[::1", "http://]/", "//[v]/"])
@asynchronous
async def test_a_path_that_is_no_url_is_a_bad_request(path: str) -> None:
    async with gateway() as server:
        for method in ("GET", "HEAD"):
            assert (await http(server, method, path))[0] in (400, 404)
        assert (await http(server, "DELETE", path))[0] == 405


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /v1/speech HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 405),
        (b"PATCH / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 405),
        (b"DELETE / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 405),
        (b"GET / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"GET / HTTP/3\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 405),
    ],
)
@pytest.mark.parametrize("pieces", [1, 2, 7])
@asynchronous
async def test_what_is_no_request_of_ours_is_answered(
    request_: bytes, status: int, pieces: int
) -> None:
    async with gateway() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        step = -(-len(request_) // pieces)
        for at in range(0, len(request_), step):
            writer.write(request_[at : at + step])
            await asyncio.sleep(0.01)  # a segment of its own
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert b"Allow: GET, HEAD\r\n" in answer
        assert answer.count(b"HTTP/1.1") == 1


@asynchronous
async def test_capabilities_are_true() -> None:
    async with gateway(limits=Limits(utterances=3)) as server, peer(server) as client:
        status, headers, body = await http(server, "GET", "/v1/capabilities")
        assert (status, headers["content-type"]) == (200, "application/json")
        report = json.loads(body)
        ready = await client.next()
        for name in ("model", "kind", "languages", "rate", "frame_samples", "formats", "limits"):
            assert report[name] == ready[name], name
        assert report["limits"]["utterances"] == 3
        assert report["slots"] == 64
        assert report["sampling"]["predictor"]["top_k"] == 50


def test_every_limit_is_documented() -> None:
    table = (ROOT / "docs" / "protocol.md").read_text().partition("## Limits")[2]
    table = table.partition("## Errors")[0]
    documented = set(re.findall(r"`(\w+)`", table))
    assert set(Limits.__dataclass_fields__) <= documented
    for name in ("message_bytes", "text_bytes", "queue_seconds", "text_seconds", "stall_seconds"):
        assert f"| `{name}` | {getattr(Limits(), name):g} |" in table


@asynchronous
async def test_metrics_count_what_happened_and_name_nobody() -> None:
    async with gateway() as server:
        async with peer(server) as client:
            await client.speak("my-name", "some words of mine", end=True)
            await client.until("done")
            await client.speak("x", "#fail", end=True)
            await client.until("done")
            _, headers, body = await http(server, "GET", "/metrics")
        text = body.decode()
        assert headers["content-type"].startswith("text/plain; version=0.0.4")
        samples = {
            (s.name, *s.labels.values()): s.value
            for family in text_string_to_metric_families(text)
            for s in family.samples
        }
        assert samples["vivavoce_utterances_total", "eos"] == 1
        assert samples["vivavoce_utterances_total", "error"] == 1
        assert samples["vivavoce_errors_total", "internal"] == 1
        assert samples["vivavoce_ttfa_seconds_count",] == 1
        assert samples["vivavoce_frame_gap_seconds_count",] == 11
        assert samples["vivavoce_connections",] == 1
        assert samples["vivavoce_slots",] == 64
        assert samples["vivavoce_sent_bytes_total",] > 12 * 3840
        assert samples["vivavoce_engine_step_seconds_count",] > 0
        for word in ("my-name", "words", "calm"):
            assert word not in text


@pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
@asynchronous
async def test_health(path: str) -> None:
    async with gateway() as server:
        assert (await http(server, "GET", path))[0] == 200
        server.load.draining = True
        expected = 503 if path.endswith("ready") else 200
        assert (await http(server, "GET", path))[0] == expected
