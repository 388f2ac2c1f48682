"""A plan becomes tensors, one step runs, and its rows come back. Only here does a slot number index
a tensor.

A step ends with a whole frame: talker, code predictor, codec. Codes feed back on the device; the
host gets one copy of PCM, codes, end flags and levels. On the CPU a talker or predictor call takes
one of a few numbers of rows, each recorded once. With full weights the last bit of a linear layer's
row depends on that number, and an utterance must never depend on its company: it is then one
number, and the scratch slot fills up the last call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.checkpoint import Loaded
from engine.config import CONTROL_IDS, EngineConfig
from engine.plan import Decode, Echo, Made, Plan, Prefill
from engine.sampling import draw, draw_first
from engine.slots import Slots

if TYPE_CHECKING:
    from engine.graphs import Graphs

# Columns of a step's table: one host-to-device copy a step.
SLOT, KV_ROW, POSITION, TEXT, DRAW, BARRED = range(6)


class Runner:
    def __init__(self, loaded: Loaded, config: EngineConfig) -> None:
        self._talker, self._codec = loaded.talker.eval(), loaded.codec.eval()
        self._device = torch.device(config.device)
        self._sizes: tuple[int, ...] = ()  # rows of a call, falling; none: all in one call
        if self._device.type == "cpu":
            self._sizes = (4, 2, 1) if loaded.talker.int8 else (config.group,)
        self._window = loaded.config.codec.output_sample_rate // 100  # samples in 10 ms
        talker = loaded.config.talker
        self._eos = talker.codec_eos_token_id
        dtype = next(loaded.talker.parameters()).dtype
        self.slots = Slots.allocate(
            loaded.config, config.slots, config.positions, config.device, dtype
        )
        self._allowed = (
            torch.arange(talker.vocab_size, device=self._device) < talker.vocab_size - CONTROL_IDS
        )
        self._allowed[self._eos] = True
        self._graphs = self._recordings(loaded, config) if config.graphs else None
        self._scratch = torch.tensor(
            [[self.slots.scratch, self.slots.cache.scratch, 0, 0, 0, 1]], device=self._device
        )

    @torch.inference_mode()
    def run(self, plan: Plan) -> list[Made]:
        """One step; output in the order of `plan.emitting`."""
        for reset in plan.resets:
            self.slots.open(reset.slot, reset.speak, reset.frame)
        for echo in plan.echoes:
            self._echo(echo)
        first = [hidden[-1:] for p in plan.prefills for hidden in [self._prefill(p)] if p.emit]
        if not plan.emitting:
            return []
        if self._graphs:
            return self._graphs.frame(plan.emitting, first)
        table = torch.tensor([_entry(row) for row in plan.emitting], device=self._device)
        decodes = len(plan.decodes)
        self._longest = max((d.position for d in plan.decodes), default=0) + 1
        decoded = self._grouped(self._decode, table[:decodes]) if decodes else ()
        hidden = torch.cat([*decoded, *first])
        for prefill in plan.prefills:
            if prefill.emit:
                self.slots.seen[prefill.slot] = False  # the repetition penalty looks at one segment
        codes, ended = self._frames(plan.emitting, table, hidden)
        return self._speak(table[:, SLOT], codes, ended)

    def warm_up(self) -> None:
        """Run every size of call once, on scratch rows: a recording takes longer than a frame."""
        self._longest = 1
        with torch.inference_mode():
            if self._graphs:
                self._graphs.capture()
            for size in self._sizes:
                table = self._scratch.expand(size, -1)
                self._complete(table, *self._decode(table))

    def _prefill(self, p: Prefill) -> Tensor:
        """A chunk of a prompt -> hidden [rows, d]."""
        text = torch.tensor([row.text for row in p.rows], device=self._device)
        codec = torch.tensor([row.codec for row in p.rows], device=self._device)
        x = self._talker.text_vectors(text.clamp(min=0)) * (text >= 0)[:, None]
        x = x + self._talker.codec_vectors(codec.clamp(min=0)) * (codec >= 0)[:, None]
        if p.carried:  # the chunk's last rows
            x[-len(p.carried) :] += self._talker.frame_vectors(self._tensor(p.carried))
        if self._graphs:
            return self._graphs.prefill(x, p.kv_row, p.start)
        return self._talker.prefill(x, self.slots.cache, p.kv_row, p.start)

    def _recordings(self, loaded: Loaded, config: EngineConfig) -> Graphs:
        from engine.graphs import Graphs  # needs Triton

        return Graphs(loaded, self.slots, self._allowed, config.chunk)

    def _decode(self, table: Tensor) -> tuple[Tensor]:
        """The last frame plus one text token -> hidden [R, d]."""
        x = self._talker.frame_vectors(
            self.slots.codes[table[:, SLOT]]
        ) + self._talker.text_vectors(table[:, TEXT])
        kv_rows, positions = table[:, KV_ROW], table[:, POSITION]
        return (self._talker.step(x, self.slots.cache, kv_rows, positions, self._longest),)

    def _frames(
        self, rows: Sequence[Decode | Prefill], table: Tensor, hidden: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Hidden [R, d] -> codes [R, q] and whether EOS was drawn [R]."""
        if not any(row.forced for row in rows):
            codes, ended = self._grouped(self._complete, table, hidden)
            return codes, ended
        known = torch.tensor([bool(row.forced) for row in rows], device=self._device)
        forced = self._tensor([row.forced for row in rows if row.forced])
        codes = table.new_zeros(len(rows), forced.shape[1])
        ended = torch.zeros_like(known)
        codes[known] = forced
        (ended[known],) = self._grouped(self._follow, table[known], hidden[known], forced)
        if len(forced) < len(rows):
            free = ~known
            codes[free], ended[free] = self._grouped(self._complete, table[free], hidden[free])
        return codes, ended

    def _first(self, table: Tensor, hidden: Tensor) -> Tensor:
        """Hidden [R, d] -> code 0 [R]."""
        slots, s = table[:, SLOT], self.slots
        return draw_first(
            self._talker.logits(hidden),
            s.talker,
            slots,
            s.seeds[slots],
            table[:, DRAW],
            s.seen[slots],
            self._allowed,
            self._eos,
            table[:, BARRED].bool(),
        )

    def _follow(self, table: Tensor, hidden: Tensor, codes: Tensor) -> tuple[Tensor]:
        """Codes [R, q] that are known -> whether EOS is drawn in their place [R]."""
        slots, s = table[:, SLOT], self.slots
        ended = self._first(table, hidden) == self._eos
        s.seen[slots, codes[:, 0]] = True
        s.codes[slots] = codes
        return (ended,)

    def _complete(self, table: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden [R, d] -> codes [R, q] and whether EOS was drawn [R]; the codes become the slots'
        last frames.
        """
        slots, s = table[:, SLOT], self.slots
        seeds, counters = s.seeds[slots], table[:, DRAW]
        c0 = self._first(table, hidden)
        s.seen[slots, c0] = True
        ended = c0 == self._eos
        c0 = torch.where(ended, 0, c0)  # an ended row runs on with a code that nobody hears

        def pick(logits: Tensor, codebook: int) -> Tensor:
            return draw(logits, s.predictor, slots, seeds, counters, codebook)

        codes = self._talker.code_predictor.complete(
            hidden, c0, self._talker.model.codec_embedding, pick
        )
        s.codes[slots] = codes
        return codes, ended

    def _echo(self, echo: Echo) -> None:
        """One frame a call, as it was said: a call's length changes the last bits."""
        rows = torch.tensor([echo.slot], device=self._device)
        for frame in self._tensor(echo.codes).split(1):
            self._codec(frame[:, :, None], self.slots.codec, rows)

    def _tensor(self, frames: Sequence[bytes]) -> Tensor:
        """Frames as bytes -> [N, q] int64."""
        codes = torch.frombuffer(bytearray(b"".join(frames)), dtype=torch.int16)
        return codes.view(len(frames), -1).to(self._device, torch.int64)

    def _speak(self, slots: Tensor, codes: Tensor, ended: Tensor) -> list[Made]:
        """Codes [R, q] -> a frame of PCM a row; an ended row leaves its slot's codec alone."""
        rows = torch.where(ended, self.slots.scratch, slots)
        pcm = self._codec(codes[:, :, None], self.slots.codec, rows)
        power = pcm.unflatten(1, (-1, self._window)).square().mean(2)
        levels = (10 * power.clamp(min=1e-10).log10() + 100).round().to(torch.uint8)
        level = power.mean(1).sqrt()
        samples = (pcm.clamp(-1, 1) * 32767).round().to(torch.int16)
        host = [
            t.to("cpu", non_blocking=True)
            for t in (ended, codes.to(torch.int16), samples, level, levels)
        ]
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return [
            Made(
                bool(end),
                code.numpy().tobytes(),
                frame.numpy().tobytes(),
                float(rms),
                parts.numpy().tobytes(),
            )
            for end, code, frame, rms, parts in zip(*host, strict=True)
        ]

    def _grouped(
        self, step: Callable[..., tuple[Tensor, ...]], table: Tensor, *more: Tensor
    ) -> tuple[Tensor, ...]:
        """Run `step` by groups of rows, the last one padded with scratch rows where it must be;
        outputs joined and cut to length.
        """
        n = len(table)
        sizes = _split(n, self._sizes)
        if pad := sum(sizes) - n:
            table = torch.cat([table, self._scratch.expand(pad, -1)])
            more = tuple(torch.cat([t, t.new_zeros(pad, *t.shape[1:])]) for t in more)
        if len(sizes) == 1:
            return tuple(column[:n] for column in step(table, *more))
        parts = [
            step(*rows)
            for rows in zip(table.split(sizes), *(t.split(sizes) for t in more), strict=True)
        ]
        return tuple(torch.cat(column)[:n] for column in zip(*parts, strict=True))


def _split(rows: int, sizes: tuple[int, ...]) -> list[int]:
    """Groups of `sizes`, falling, that hold `rows`; more only where the smallest asks for it."""
    groups: list[int] = [] if sizes else [rows]
    for size in sizes:
        count = rows // size if size > sizes[-1] else -(-rows // size)
        groups, rows = groups + [size] * count, rows - size * count
    return groups


def _entry(row: Decode | Prefill) -> tuple[int, ...]:
    if isinstance(row, Decode):
        return row.slot, row.kv_row, row.position, row.text, row.draw, row.barred
    return row.slot, 0, 0, 0, row.draw, 1  # a segment's first draw: EOS is barred
