"""The step loop: inbox -> plan -> run -> commit -> events. Owns no thread and no socket."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sentencex

from engine.checkpoint import Loaded
from engine.config import EngineConfig
from engine.means import Means
from engine.messages import Audio, Command, Event, Ready, Speak, Status
from engine.models.streaming import reach
from engine.runner import Runner
from engine.scheduler import Scheduler
from engine.segments import SegmentPolicy, Split

# sentence rules by the checkpoint's language names; auto and dialects use the nearest
LANGUAGES = {
    "chinese": "zh",
    "english": "en",
    "german": "de",
    "italian": "it",
    "portuguese": "pt",
    "spanish": "es",
    "japanese": "ja",
    "korean": "ko",
    "french": "fr",
    "russian": "ru",
}


def sentences(language: str) -> Split:
    """Sentence splitter (sentencex); the pieces join to the text."""
    code = LANGUAGES.get(language.lower(), "en")
    return lambda text: list(sentencex.segment(code, text))


class Engine:
    def __init__(
        self,
        loaded: Loaded,
        config: EngineConfig,
        clock: Callable[[], float],
        policy: SegmentPolicy | None = None,
        split: Callable[[str], Split] = sentences,
    ) -> None:
        """`clock` returns seconds, monotonic."""
        self._loaded, self._config, self._clock = loaded, config, clock
        self._runner = Runner(loaded, config)
        generation = loaded.config.generation
        means = Means(
            config=loaded.config,
            encode=loaded.tokenizer.encode,
            pretokens=loaded.tokenizer.pretokens,
            split=split,
            policy=policy or SegmentPolicy(segment_seconds=generation.segment_seconds),
            positions=config.positions,
            chunk=config.chunk,
            max_frames=config.max_frames,
            max_lead=config.max_lead,
            rate=loaded.config.codec.output_sample_rate,
            reach=reach(loaded.config.codec),
        )
        self._scheduler = Scheduler(means, config.slots, config.queue)
        self._steps = self._frames = 0
        self._last_step = 0.0
        self.ran = False  # whether the last step ran a row

    def step(self, commands: Sequence[Command]) -> list[Event]:
        """One turn. Nothing runs, and the list may be empty, when no utterance may run."""
        for command in commands:
            self._scheduler.handle(command, self._clock())
        start = self._clock()
        plan = self._scheduler.plan(start)
        if plan:
            output = self._runner.run(plan)
            now = self._clock()
            self._scheduler.commit(plan, output, now)
            self._last_step = now - start
            self._steps += 1
            self._frames += len(output)
        self.ran = plan.runs
        return self._scheduler.events()

    @property
    def busy(self) -> bool:
        """Utterances are open: time alone can make one of them run."""
        return bool(self._scheduler.running or self._scheduler.waiting)

    def status(self) -> Status:
        s = self._scheduler
        return Status(
            s.running,
            s.waiting,
            self._config.slots,
            s.starved,
            self._last_step,
            self._steps,
            self._frames,
        )

    def warm_up(self) -> Ready:
        """Speak through the whole pipeline, twice: the second time tells what a join costs here.
        Then say what this engine is.
        """
        self._runner.warm_up()
        text = " ".join(["A join reads the text and the frames before it again."] * 6)
        for utterance in (0, -1):
            speak = Speak(utterance, text, seed=0, text=text, ended=True, max_frames=2, live=False)
            events = self.step([speak])
            joining = self._last_step
            while self.busy:
                events += self.step([])
            assert any(isinstance(e, Audio) for e in events), f"the warm-up made no frame: {events}"
        self._scheduler.expect_joins(joining)
        model = self._loaded.config
        return Ready(
            model=self._loaded.name,
            kind=model.kind,
            languages=["auto", *sorted(model.languages)],
            speakers=sorted(model.speakers),
            rate=model.codec.output_sample_rate,
            frame_samples=model.codec.frame_samples,
            codebooks=model.talker.num_code_groups,
            slots=self._config.slots,
            max_frames=self._config.max_frames,
            device=self._config.device,
            talker=model.generation.talker,
            predictor=model.generation.predictor,
            spell_numbers=model.generation.spell_numbers,
        )
