"""Who goes on after an engine's death, in which order, and what kills engines. PURE."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from engine.messages import Voice

from .journal import Journal

VOICES = 2048  # ended utterances whose voice can be continued
SUSPECT = 2  # deaths of engines that had an utterance, since its last frame: it goes on trial
POISON = 2  # deaths on trial, since its last frame: it fails
HOPELESS = 4  # deaths of engines in a row, the first perhaps after frames, all others without


class Revival:
    def __init__(self) -> None:
        self.lost: list[int] = []  # to go on in the new engine, in this order
        self._trial = 0  # a suspect that must make a frame before the next goes on
        self._barren = 0  # deaths in a row, all but the first without a frame
        self._spoke = False  # this engine has made a frame

    @property
    def hopeless(self) -> bool:
        return self._barren >= HOPELESS

    def died(self, live: Mapping[int, Journal]) -> list[int]:
        """An engine that had these, and those still lost. Returns who fails."""
        self.unborn()
        for ident, journal in live.items():
            journal.deaths += ident not in self.lost
            journal.trials += ident == self._trial
        self._spoke, self._trial = False, 0
        self.lost = [i for i in live if not (self.hopeless or live[i].trials >= POISON)]
        # who spoke before who waited; whom nothing speaks against before the suspects
        self.lost.sort(
            key=lambda i: (live[i].trials, live[i].deaths >= SUSPECT, not live[i].started)
        )
        return [i for i in live if i not in self.lost]

    def unborn(self) -> None:
        """An engine has ended; before its first frame, if `worked` was not said."""
        self._barren = 1 if self._spoke else self._barren + 1

    def worked(self, utterance: int) -> bool:
        """A frame or an end of `utterance`. Returns whether others may go on now."""
        self._spoke = True
        return self.left(utterance)

    def left(self, utterance: int) -> bool:
        """It is no trial any more. Returns whether others may go on now."""
        if self._trial != utterance:
            return False
        self._trial = 0
        return True

    def due(self, live: Mapping[int, Journal]) -> list[Journal]:
        """Who goes on now; suspects one by one."""
        found: list[Journal] = []
        while self.lost and not self._trial:
            ident = self.lost.pop(0)
            if ident in live:
                found.append(live[ident])
                self._trial = ident if live[ident].deaths >= SUSPECT else 0
        return found


class Voices:
    """What ended utterances leave to those that continue them."""

    def __init__(self) -> None:
        self._voices: OrderedDict[int, Voice] = OrderedDict()

    def keep(self, utterance: int, voice: Voice | None) -> None:
        if voice:
            self._voices[utterance] = voice
            if len(self._voices) > VOICES:
                self._voices.popitem(last=False)

    def of(self, utterance: int) -> Voice | None:
        return self._voices.get(utterance)
