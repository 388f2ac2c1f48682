"""What the tests read from inside the page: the take, the audio clock, the moment of a press."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

_TAKE = """() => {
  const { take, player } = vivavoce;
  return { phase: take.phase, underruns: take.underruns, samples: take.samples, played: take.played,
    firstAudio: take.firstAudio, firstSound: take.firstSound, textEnded: take.textEnded,
    loudest: take.loudest, received: take.received.length, seed: take.request.seed,
    rate: player.context.sampleRate, done: take.done };
}"""

# Resolves half a second of audio clock after the press of Stop: seconds from the press to the last
# sample that was not zero, and the audio messages taken in since.
_STOP = """() => new Promise((resolve) => {
  const { player } = vivavoce;
  const onreport = player.onreport;
  let pressed = null;
  let received = 0;
  document.getElementById('stop').addEventListener('click', () => {
    pressed = player.context.currentTime;
    received = vivavoce.take.received.length;
  }, { capture: true, once: true });
  player.onreport = (report) => {
    onreport(report);
    if (pressed === null || report.clock < pressed + 0.5) return;
    player.onreport = onreport;
    resolve([report.lastSoundClock - pressed, vivavoce.take.received.length - received]);
  };
  document.getElementById('stop').click();
})"""

_SOUNDING = """() => new Promise((resolve) => {
  const look = () => (vivavoce.take?.firstSound == null ? requestAnimationFrame(look) : resolve());
  look();
})"""


def take(page: Page) -> dict[str, Any]:
    """The current take's figures; times in seconds since the press of Speak."""
    return page.evaluate(_TAKE)


def stop(page: Page) -> tuple[float, int]:
    """Press Stop; seconds of audio clock to the last sound, audio messages taken in afterwards."""
    sound, stale = page.evaluate(_STOP)
    return sound, stale


def until_sound(page: Page) -> None:
    page.evaluate(_SOUNDING)


def until_phase(page: Page, phase: str, seconds: float = 30) -> None:
    expect(page.locator("body")).to_have_attribute("data-phase", phase, timeout=seconds * 1000)
