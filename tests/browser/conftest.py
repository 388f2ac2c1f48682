"""Chromium with the page in it, against a server with faults or against the real one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from .faulty import FaultyServer

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "no Chromium: apt install chromium, or name it in CHROMIUM"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    yield context
    context.close()


@pytest.fixture
def visit(context: BrowserContext) -> Iterator[Callable[[str], Page]]:
    """Opens an address in a new tab. No tab may have reported an error by the end."""
    wrong: list[str] = []

    def open_tab(url: str) -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if is_ours(said.text) else None)
        page.goto(url)
        return page

    def is_ours(text: str) -> bool:
        return "Content Security Policy" in text or "Uncaught" in text

    yield open_tab
    assert wrong == []


@pytest.fixture
def faulty() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture(scope="session")
def gateway() -> Iterator[str]:
    """The address of a real gateway with its own engine and the embedded voice."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway", "serve", "--port", "0", "--device", "cpu"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if "ready: open " in line:
                break
        assert said and "ready: open " in said[-1], "".join(said)
        yield said[-1].split("ready: open ")[1].strip()
    finally:
        process.terminate()
        process.communicate(timeout=20)
