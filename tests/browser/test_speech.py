"""The page with the real gateway, engine and embedded voice: from the press to the loudspeaker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from .sight import stop, take, until_phase, until_sound

pytestmark = pytest.mark.browser
Visit = Callable[[str], Page]

TEXT = (
    "Well, here we are. You hear the beginning of this sentence while the end of it is being "
    "written, and nobody has to wait for anything."
)


def speak(page: Page, text: str = TEXT) -> None:
    page.fill("#text", text)
    page.click("#speak")


def test_speech_is_heard_before_the_text_is_complete(gateway: str, visit: Visit) -> None:
    page = visit(gateway)
    page.select_option("#rate", "5")
    speak(page)
    until_phase(page, "finished", 60)
    seen = take(page)
    assert seen["loudest"] > 0.02
    assert seen["underruns"] == 0
    assert seen["firstAudio"] < seen["textEnded"]
    assert seen["firstSound"] < seen["textEnded"]
    assert seen["played"] == seen["samples"] == seen["done"]["samples"]
    assert seen["done"]["reason"] == "eos"
    expect(page.locator("#gaps")).to_have_text("0")


def test_stop_is_silence_within_200_ms(gateway: str, visit: Visit) -> None:
    page = visit(gateway)
    speak(page)
    until_sound(page)
    sound, stale = stop(page)
    assert sound < 0.2
    assert stale == 0
    expect(page.locator("#state")).to_have_text("Stopped.")


def test_two_tabs_speak_at_the_same_time(gateway: str, visit: Visit) -> None:
    tabs = [visit(gateway), visit(gateway)]
    for page in tabs:
        speak(page)
    for page in tabs:
        until_sound(page)
    assert [take(page)["phase"] for page in tabs] == ["speaking", "speaking"]
    for page in tabs:
        until_phase(page, "finished", 60)
    for seen in map(take, tabs):
        assert seen["underruns"] == 0
        assert seen["loudest"] > 0.02
        assert seen["played"] == seen["samples"] == seen["done"]["samples"]


def test_a_kept_number_gives_the_same_sound(gateway: str, visit: Visit) -> None:
    page = visit(gateway)
    page.fill("#seed", "2026")
    page.select_option("#rate", "once")
    lengths = []
    for _ in range(2):
        speak(page, "The same voice, twice.")
        until_phase(page, "speaking")
        until_phase(page, "finished", 60)
        lengths.append(take(page)["samples"])
    assert lengths[0] == lengths[1] > 0
