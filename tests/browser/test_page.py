"""The page against a server with faults: what it plays, what it says, what it drops."""

from __future__ import annotations

import re
import wave
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from .faulty import FRAME, WEB, FaultyServer, hum
from .sight import stop, take, until_phase, until_sound

pytestmark = pytest.mark.browser
Visit = Callable[[str], Page]

SHORT = "A sentence to be heard."
LONG = "One more sentence, so that there is something to hear for a while. " * 6


@pytest.fixture
def visit(visit: Visit) -> Visit:
    """The page with a text of a second and a half."""

    def open_tab(url: str) -> Page:
        page = visit(url)
        page.fill("#text", SHORT)
        return page

    return open_tab


def state(page: Page) -> Locator:
    return page.locator("#state")


def test_every_sample_is_played_without_a_gap(faulty: FaultyServer, visit: Visit) -> None:
    page = visit(faulty.url)
    page.fill("#text", LONG[:70])
    page.click("#speak")
    until_phase(page, "finished")
    seen = take(page)
    assert seen["samples"] > 10 * FRAME
    assert seen["played"] == seen["samples"]
    assert seen["underruns"] == 0
    assert seen["loudest"] > 0.1
    assert seen["firstAudio"] < seen["firstSound"] < seen["textEnded"]
    expect(page.locator("#gaps")).to_have_text("0")
    expect(state(page)).to_have_text("Said.")
    expect(page.locator("#scope")).to_have_attribute("aria-label", re.compile("gaps: 0"))
    played = [message["samples"] for message in faulty.log if message["type"] == "played"]
    assert played == sorted(played)
    assert 0 < played[-1] <= seen["samples"]


@pytest.mark.parametrize("rate", [16000, 24000, 48000])
def test_any_device_rate(faulty: FaultyServer, browser: Browser, rate: int) -> None:
    context = browser.new_context()
    context.add_init_script(
        f"const Plain = AudioContext; globalThis.AudioContext = class extends Plain {{"
        f" constructor(options) {{ super({{ ...options, sampleRate: {rate} }}); }} }};"
    )
    page = context.new_page()
    page.goto(faulty.url)
    page.fill("#text", SHORT)
    page.click("#speak")
    until_phase(page, "finished")
    seen = take(page)
    context.close()
    assert seen["rate"] == rate
    assert seen["played"] == seen["samples"] > 10 * FRAME
    assert seen["underruns"] == 0


def test_stop_is_silence_within_200_ms_and_stale_audio_is_dropped(
    faulty: FaultyServer, visit: Visit
) -> None:
    faulty.faults.deaf = True
    page = visit(faulty.url)
    page.fill("#text", LONG)
    page.click("#speak")
    until_sound(page)
    sound, stale = stop(page)
    assert sound < 0.2
    assert stale == 0
    assert take(page)["phase"] == "stopped"
    expect(state(page)).to_have_text("Stopped.")
    cancel = next(message for message in faulty.log if message["type"] == "cancel")
    assert 0 <= cancel["played"] <= take(page)["samples"]


def test_speak_while_speaking_is_barge_in(faulty: FaultyServer, visit: Visit) -> None:
    page = visit(faulty.url)
    page.fill("#text", LONG)
    page.click("#speak")
    until_sound(page)
    page.fill("#text", "Something else.")
    page.click("#speak")
    until_phase(page, "finished")
    seen = take(page)
    assert seen["played"] == seen["samples"] < 40 * FRAME
    assert faulty.types().count("cancel") == 1
    assert faulty.types().count("speak") == 2


@pytest.mark.parametrize(
    ("code", "retry_ms", "words"),
    [
        ("busy", 4200, "Every voice is taken at the moment. Try again in 5 s."),
        ("draining", None, "The server is about to restart and takes no new text."),
        ("engine_failed", None, "The speech engine broke down and is being started again."),
        ("made_up", None, "The server refused: made_up"),
    ],
)  # fmt: skip
def test_a_refusal_is_said_plainly(
    faulty: FaultyServer, visit: Visit, code: str, retry_ms: int | None, words: str
) -> None:
    faulty.faults.refuse, faulty.faults.retry_ms = code, retry_ms
    page = visit(faulty.url)
    page.click("#speak")
    until_phase(page, "failed")
    expect(state(page)).to_contain_text(words)
    faulty.faults.refuse = ""
    page.click("#speak")
    until_phase(page, "finished")


def test_a_broken_connection_is_said_and_mended_by_the_next_speak(
    faulty: FaultyServer, visit: Visit
) -> None:
    faulty.faults.drop_after = 6
    page = visit(faulty.url)
    page.click("#speak")
    until_phase(page, "failed")
    expect(state(page)).to_have_text("The connection broke. This page connects again.")
    faulty.faults.drop_after = 0
    page.click("#speak")
    until_phase(page, "finished")


def test_what_arrived_before_the_break_is_heard_until_stop(
    faulty: FaultyServer, visit: Visit
) -> None:
    faulty.faults.drop_after = 24
    page = visit(faulty.url)
    page.fill("#text", LONG)
    page.select_option("#rate", "once")
    page.click("#speak")
    until_phase(page, "failed")
    until_sound(page)
    sound, stale = stop(page)
    assert 0 < sound < 0.2
    assert stale == 0
    expect(page.locator("#stop")).to_be_disabled()


def test_no_server_is_said_and_the_page_tries_again(faulty: FaultyServer, visit: Visit) -> None:
    page = visit(faulty.url)
    expect(page.locator("#server")).to_have_text("hum, ready")
    faulty.stop()
    expect(page.locator("#server")).to_have_text(
        re.compile("This page (connects again|keeps trying)")
    )
    page.click("#speak")
    until_phase(page, "failed")
    expect(state(page)).to_have_text("No server answers. This page keeps trying.")
    faulty.start()
    expect(page.locator("#server")).to_have_text("hum, ready", timeout=15000)
    page.click("#speak")
    until_phase(page, "finished")


def test_the_page_waits_while_the_engine_starts(faulty: FaultyServer, visit: Visit) -> None:
    faulty.faults.starting = True
    page = visit(faulty.url)
    waking = "The voice is waking up. This page waits for it."
    expect(page.locator("#server")).to_have_text(waking)
    page.click("#speak")
    expect(state(page)).to_have_text("Waiting for the voice to wake up.")
    faulty.faults.starting = False
    until_phase(page, "finished")
    expect(page.locator("#server")).to_have_text("hum, ready")


def test_a_press_while_the_engine_starts_can_be_stopped(faulty: FaultyServer, visit: Visit) -> None:
    faulty.faults.starting = True
    page = visit(faulty.url)
    page.click("#speak")
    expect(state(page)).to_have_text("Waiting for the voice to wake up.")
    page.click("#stop")
    expect(state(page)).to_have_text("Stopped.")
    faulty.faults.starting = False
    expect(page.locator("#server")).to_have_text("hum, ready")
    assert "speak" not in faulty.types()


def test_a_stall_is_one_gap_and_the_rest_is_heard(faulty: FaultyServer, visit: Visit) -> None:
    faulty.faults.stall_after = 12
    page = visit(faulty.url)
    page.select_option("#rate", "once")
    page.click("#speak")
    expect(state(page)).to_have_text("Waiting for more.", timeout=15000)
    faulty.faults.resume.set()
    until_phase(page, "finished")
    seen = take(page)
    assert seen["underruns"] == 1
    assert seen["played"] == seen["samples"]
    expect(page.locator("#gaps")).to_have_text("1")


def test_a_busy_main_thread_makes_no_gap(faulty: FaultyServer, visit: Visit) -> None:
    page = visit(faulty.url)
    page.evaluate("""() => setInterval(() => {
      const until = performance.now() + 50;
      while (performance.now() < until);
    }, 120)""")
    page.click("#speak")
    until_phase(page, "finished")
    assert take(page)["underruns"] == 0


def test_a_key_is_asked_for_and_kept(faulty: FaultyServer, visit: Visit) -> None:
    faulty.faults.token = "secret"
    page = visit(faulty.url)
    page.click("#speak")
    until_phase(page, "failed")
    expect(state(page)).to_have_text("This server asks for a key.")
    page.fill("#token", "secret")
    page.press("#token", "Enter")
    until_phase(page, "finished")
    assert "secret" not in page.url


def test_keys_speak_break_a_line_and_stop(faulty: FaultyServer, visit: Visit) -> None:
    page = visit(faulty.url)
    page.fill("#text", LONG)
    page.focus("#text")
    page.keyboard.press("End")
    page.keyboard.press("Shift+Enter")
    assert "speak" not in faulty.types()
    page.keyboard.press("Enter")
    until_sound(page)
    page.keyboard.press("Escape")
    until_phase(page, "stopped")
    page.focus("#language")
    page.keyboard.press("Control+Enter")
    until_phase(page, "speaking")


def test_a_kept_number_stays_and_a_new_one_differs(faulty: FaultyServer, visit: Visit) -> None:
    page = visit(faulty.url)
    page.fill("#text", "Yes.")
    seeds = []
    for kept in (False, False, True, True):
        if kept and len(seeds) == 2:
            page.click("#keep")
        page.click("#speak")
        until_phase(page, "finished")
        seeds.append(take(page)["seed"])
        expect(page.locator("#seed")).to_have_value(str(seeds[-1]))
        page.evaluate("() => { document.body.dataset.phase = ''; }")
    assert seeds[0] != seeds[1] == seeds[2] == seeds[3]


def test_an_example_changes_the_voice_and_keeps_the_visitors_own_text(
    faulty: FaultyServer, visit: Visit
) -> None:
    page = visit(faulty.url)
    page.fill("#text", "My own words.")
    page.click("text=a ferry captain")
    until_phase(page, "finished")
    speak = next(message for message in faulty.log if message["type"] == "speak")
    assert speak["voice"] == {"design": "A deep male voice, speaking slowly"}
    assert "".join(m["text"] for m in faulty.log if m["type"] == "text") == "My own words."


def test_a_recording_can_be_kept(faulty: FaultyServer, visit: Visit) -> None:
    page = visit(faulty.url)
    expect(page.locator("#save")).to_be_hidden()
    page.click("#speak")
    until_phase(page, "finished")
    with page.expect_download() as download:
        page.click("#save")
    with wave.open(str(download.value.path())) as kept:
        assert (kept.getframerate(), kept.getnchannels(), kept.getsampwidth()) == (24000, 1, 2)
        assert kept.getnframes() == take(page)["samples"]
        assert kept.readframes(FRAME) == hum(0)


def test_the_address_holds_the_sentence(faulty: FaultyServer, visit: Visit) -> None:
    page = visit(faulty.url)
    page.fill("#voice", "Ein alter Mann, müde & heiser")
    page.fill("#seed", "4711")
    page.click("#speak")
    until_phase(page, "finished")
    again = page.context.new_page()
    again.goto(page.url)
    expect(again.locator("#voice")).to_have_text("Ein alter Mann, müde & heiser")
    expect(again.locator("#text")).to_have_text(SHORT)
    expect(again.locator("#seed")).to_have_value("4711")
    expect(again.locator("#keep")).to_have_attribute("aria-pressed", "true")


def test_languages_come_from_the_server(faulty: FaultyServer, visit: Visit) -> None:
    page = visit(faulty.url)
    expect(page.locator("#language option")).to_have_text(
        ["its own language", "English", "German", "Japanese"]
    )
    page.select_option("#language", "japanese")
    expect(page.locator("#text")).to_have_attribute("lang", "ja")
    page.click("#speak")
    until_phase(page, "speaking")
    assert next(m for m in faulty.log if m["type"] == "speak")["language"] == "japanese"


def test_an_empty_text_is_refused_by_the_page(faulty: FaultyServer, visit: Visit) -> None:
    page = visit(faulty.url)
    page.fill("#text", "  ")
    page.click("#speak")
    expect(state(page)).to_have_text("Write something for the voice to say.")
    assert "speak" not in faulty.types()


def test_a_phone_scrolls_one_way_only(faulty: FaultyServer, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(faulty.url)
    page.fill(
        "#text",
        "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkgesellschaft " * 3,
    )
    width = page.evaluate("() => document.documentElement.scrollWidth")
    context.close()
    assert width == 390


def test_the_page_is_light() -> None:
    served = (path for path in WEB.rglob("*") if path.is_file())
    assert sum(p.stat().st_size for p in served if p.suffix not in (".md", ".txt")) < 200_000
