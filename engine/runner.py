"""A plan becomes tensors, one step runs, and its rows come back. Only here does a slot number index
a tensor.

A step ends with a whole frame: talker, code predictor, codec. Codes feed back on the device; the
host gets one copy of PCM, codes, end flags and levels. On the CPU every talker and predictor call
runs `group` rows, padded with the scratch slot: the last bit of a linear layer's row depends on how
many rows there are, and an utterance must never depend on its company.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.checkpoint import Loaded
from engine.config import CONTROL_IDS, EngineConfig
from engine.plan import Decode, Made, Plan, Prefill
from engine.sampling import draw, draw_first
from engine.slots import Slots

# Columns of a step's table: one host-to-device copy a step.
SLOT, KV_ROW, POSITION, TEXT, DRAW, BARRED = range(6)


class Runner:
    def __init__(self, loaded: Loaded, config: EngineConfig) -> None:
        self._talker, self._codec = loaded.talker.eval(), loaded.codec.eval()
        self._device = torch.device(config.device)
        self._group = config.group if self._device.type == "cpu" else 0  # 0: all rows in one call
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
        self._scratch = torch.tensor(
            [[self.slots.scratch, self.slots.cache.scratch, 0, 0, 0, 1]], device=self._device
        )

    @torch.inference_mode()
    def run(self, plan: Plan) -> list[Made]:
        """One step; output in the order of `plan.emitting`."""
        for slot, speak in plan.resets:
            self.slots.open(slot, speak)
        first = [hidden[-1:] for p in plan.prefills for hidden in [self._prefill(p)] if p.emit]
        if not plan.emitting:
            return []
        table = torch.tensor([_entry(row) for row in plan.emitting], device=self._device)
        decodes = len(plan.decodes)
        self._longest = max((d.position for d in plan.decodes), default=0) + 1
        decoded = self._grouped(self._decode, table[:decodes]) if decodes else ()
        hidden = torch.cat([*decoded, *first])
        for prefill in plan.prefills:
            if prefill.emit:
                self.slots.seen[prefill.slot] = False  # the repetition penalty looks at one segment
        codes, ended = self._grouped(self._complete, table, hidden)
        return self._speak(table[:, SLOT], codes, ended)

    def _prefill(self, p: Prefill) -> Tensor:
        """A chunk of a prompt -> hidden [rows, d]."""
        text = torch.tensor([row.text for row in p.rows], device=self._device)
        codec = torch.tensor([row.codec for row in p.rows], device=self._device)
        x = self._talker.text_vectors(text.clamp(min=0)) * (text >= 0)[:, None]
        x = x + self._talker.codec_vectors(codec.clamp(min=0)) * (codec >= 0)[:, None]
        if p.carried:  # the chunk's last rows
            frames = torch.frombuffer(bytearray(b"".join(p.carried)), dtype=torch.int16).view(
                len(p.carried), -1
            )
            x[-len(frames) :] += self._talker.frame_vectors(frames.to(self._device, torch.int64))
        return self._talker.prefill(x, self.slots.cache, p.kv_row, p.start)

    def _decode(self, table: Tensor) -> tuple[Tensor]:
        """The last frame plus one text token -> hidden [R, d]."""
        x = self._talker.frame_vectors(
            self.slots.codes[table[:, SLOT]]
        ) + self._talker.text_vectors(table[:, TEXT])
        kv_rows, positions = table[:, KV_ROW], table[:, POSITION]
        return (self._talker.step(x, self.slots.cache, kv_rows, positions, self._longest),)

    def _complete(self, table: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden [R, d] -> codes [R, q] and whether EOS was drawn [R]; the codes become the slots'
        last frames.
        """
        slots, s = table[:, SLOT], self.slots
        seeds, counters = s.seeds[slots], table[:, DRAW]
        c0 = draw_first(
            self._talker.logits(hidden),
            s.talker,
            slots,
            seeds,
            counters,
            s.seen[slots],
            self._allowed,
            self._eos,
            table[:, BARRED].bool(),
        )
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

    def _speak(self, slots: Tensor, codes: Tensor, ended: Tensor) -> list[Made]:
        """Codes [R, q] -> a frame of PCM a row; an ended row leaves its slot's codec alone."""
        rows = torch.where(ended, self.slots.scratch, slots)
        pcm = self._codec(codes[:, :, None], self.slots.codec, rows)
        level = pcm.square().mean(1).sqrt()
        samples = (pcm.clamp(-1, 1) * 32767).round().to(torch.int16)
        host = [
            t.to("cpu", non_blocking=True) for t in (ended, codes.to(torch.int16), samples, level)
        ]
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return [
            Made(bool(end), code.numpy().tobytes(), frame.numpy().tobytes(), float(rms))
            for end, code, frame, rms in zip(*host, strict=True)
        ]

    def _grouped(
        self, step: Callable[..., tuple[Tensor, ...]], table: Tensor, *more: Tensor
    ) -> tuple[Tensor, ...]:
        """Run `step` by groups of rows, the last one padded with scratch rows; outputs joined and
        cut to length.
        """
        n, size = len(table), self._group or len(table)
        pad = -n % size
        table = torch.cat([table, self._scratch.expand(pad, -1)])
        padded = [torch.cat([t, t.new_zeros(pad, *t.shape[1:])]) for t in more]
        parts = [
            step(*rows)
            for rows in zip(table.split(size), *(t.split(size) for t in padded), strict=True)
        ]
        return tuple(torch.cat(column)[:n] for column in zip(*parts, strict=True))


def _entry(row: Decode | Prefill) -> tuple[int, ...]:
    if isinstance(row, Decode):
        return row.slot, row.kv_row, row.position, row.text, row.draw, row.barred
    return row.slot, 0, 0, 0, row.draw, 1  # a segment's first draw: EOS is barred
