"""A whole frame as one CUDA graph for each number of rows, a prompt's chunk as another.

The host writes one table, starts one graph, waits once for one block of bytes. Between them nothing
asks it: talker, sampling, fifteen predictor passes, codec. Rows that a bucket has too many are
scratch. Only top-p takes the same way outside of a graph: it sorts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.checkpoint import Loaded
from engine.kernels.sample import sample
from engine.models import fused
from engine.models.fused import FusedTalker
from engine.plan import Decode, Made, Prefill
from engine.sampling import draw, draw_first
from engine.slots import Slots

SLOT, KV_ROW, POSITION, TEXT, DRAW, BARRED, FRESH, KNOWN, CODES = range(9)  # columns of the table


@dataclass
class Bucket:
    """Tensors that one graph reads and writes."""

    table: Tensor  # [B, CODES + q] int64
    given: Tensor  # [B, d]: hidden states of rows that were prefilled
    graph: torch.cuda.CUDAGraph | None = None
    out: Tensor | None = None  # [B, bytes] uint8
    host: Tensor | None = None  # the same, pinned


class Graphs:
    def __init__(self, loaded: Loaded, slots: Slots, allowed: Tensor, chunk: int) -> None:
        """`allowed` [V]: codes 0 that may be drawn; `chunk`: rows of a prefill."""
        self._loaded, self._talker, self.slots = loaded, loaded.talker, slots
        self._device, self._allowed = allowed.device, allowed
        talker = loaded.config.talker
        self._eos, self._codes = talker.codec_eos_token_id, talker.num_code_groups
        self._window = loaded.config.codec.output_sample_rate // 100
        self._samples = loaded.config.codec.frame_samples
        dtype = slots.cache.keys.dtype
        count = slots.scratch
        self._fused: FusedTalker | None = None
        if fused.serves(loaded.talker):
            self._fused = FusedTalker(loaded.talker, slots.cache.keys.shape[3], _bucket(count))
        blank = [slots.scratch, slots.cache.scratch, 0, 0, 0, 1, 0, 0] + [0] * self._codes
        self._blank = np.array(blank, np.int64)
        sizes = sorted({_bucket(n) for n in range(1, count + 1)})
        d = talker.hidden_size
        self._buckets = {
            n: Bucket(
                torch.tensor(blank, device=self._device).repeat(n, 1),
                torch.zeros(n, d, device=self._device, dtype=dtype),
            )
            for n in sizes
        }
        self._pool: Any = None
        self._chunk = torch.zeros(chunk, d, device=self._device, dtype=dtype)
        self._chunk_at = torch.tensor([slots.cache.scratch, 0, 1], device=self._device)
        self._chunk_graph: torch.cuda.CUDAGraph | None = None
        self._chunk_out = self._chunk

    def capture(self) -> None:
        """Record every graph; greatest first, so that the others fit into its memory."""
        self._chunk_graph, self._chunk_out = self._record(self._prefill)
        for size in sorted(self._buckets, reverse=True):
            bucket = self._buckets[size]
            bucket.graph, bucket.out = self._record(partial(self._frame, bucket, False))
            bucket.host = torch.empty(bucket.out.shape, dtype=torch.uint8, pin_memory=True)

    def _record(self, call: Callable[[], Tensor]) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # libraries choose and kernels compile before the recording
            for _ in range(2):
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            out = call()
        self._pool = self._pool or graph.pool()
        return graph, out

    def prefill(self, x: Tensor, kv_row: int, start: int) -> Tensor:
        """A chunk [T, d] of a prompt -> hidden of its last row [1, d]."""
        assert self._chunk_graph is not None and len(x) <= len(self._chunk)
        self._chunk[: len(x)] = x
        self._chunk_at.copy_(torch.tensor([kv_row, start, len(x)]))
        self._chunk_graph.replay()
        return self._chunk_out[len(x) - 1 : len(x)].clone()

    def _prefill(self) -> Tensor:
        row, start, length = self._chunk_at.split(1)
        return self._talker.prefill_at(self._chunk, self.slots.cache, row, start, length)

    def frame(self, rows: Sequence[Decode | Prefill], first: Sequence[Tensor]) -> list[Made]:
        """One frame of each row; `first`: hidden states [1, d] of the prefilled ones, which come
        last.
        """
        bucket = self._buckets[_bucket(len(rows))]
        table = np.tile(self._blank, (len(bucket.table), 1))
        for line, row in zip(table, rows, strict=False):
            _enter(line, row)
        bucket.table.copy_(torch.from_numpy(table).pin_memory(), non_blocking=True)
        if first:
            bucket.given[len(rows) - len(first) : len(rows)] = torch.cat(list(first))
        if self.slots.talker.any_top_p or self.slots.predictor.any_top_p:
            out = self._frame(bucket, plain=True).cpu()
        else:
            assert bucket.graph is not None and bucket.out is not None and bucket.host is not None
            bucket.graph.replay()
            out = bucket.host
            out.copy_(bucket.out, non_blocking=True)
            torch.cuda.current_stream().synchronize()
        return [self._made(line.numpy()) for line in out[: len(rows)]]

    def _frame(self, bucket: Bucket, plain: bool) -> Tensor:
        """Table and given states -> [B, bytes]. `plain`: draws by PyTorch's operations."""
        s, talker, table = self.slots, self._talker, bucket.table
        slot, text, counters = table[:, SLOT], table[:, TEXT], table[:, DRAW]
        kv_rows, positions = table[:, KV_ROW].contiguous(), table[:, POSITION].contiguous()
        slot, counters = slot.contiguous(), counters.contiguous()
        fresh, known = table[:, FRESH, None].bool(), table[:, KNOWN, None].bool()
        barred, forced = table[:, BARRED].bool(), table[:, CODES:]
        last = s.codes[slot]
        if self._fused:
            x = self._fused.inputs(last, text)
            hidden = self._fused.step(x, s.cache, kv_rows, positions)
        else:
            x = talker.frame_vectors(last) + talker.text_vectors(text)
            hidden = talker.step(x, s.cache, kv_rows, positions)
        hidden = torch.where(fresh, bucket.given, hidden)
        s.seen[slot] = s.seen[slot] & ~fresh  # the repetition penalty looks at one segment
        logits = self._fused.logits(hidden) if self._fused else talker.logits(hidden)
        seeds = s.seeds[slot]
        codes = torch.zeros_like(forced)
        if plain:
            codes[:, 0] = draw_first(
                logits.float(), s.talker, slot, seeds, counters, s.seen[slot], self._allowed,
                self._eos, barred,
            )  # fmt: skip
        else:
            first = s.seen, self._allowed, barred, self._eos
            sample(logits, s.talker, slot, s.seeds, counters, 0, codes[:, 0], first=first)
        ended = codes[:, 0] == self._eos
        # an ended row runs on with a code that nobody hears
        c0 = torch.where(known[:, 0], forced[:, 0], torch.where(ended, 0, codes[:, 0]))
        codes[:, 0] = c0
        s.seen[slot, c0] = True

        def pick(logits: Tensor, j: int, out: Tensor, t: Tensor | None) -> Tensor | None:
            if plain:
                out.copy_(draw(logits.float(), s.predictor, slot, seeds, counters, j))
                return None if t is None else t[out]
            return sample(logits, s.predictor, slot, s.seeds, counters, j, out, t)

        if self._fused:
            self._fused.complete(hidden, codes, pick)
        else:

            def draws(logits: Tensor, j: int) -> Tensor:
                pick(logits, j, codes[:, j], None)
                return codes[:, j]

            predictor, table0 = talker.code_predictor, talker.model.codec_embedding
            codes = predictor.complete(hidden, c0, table0, draws)
        codes = torch.where(known, forced, codes)
        s.codes[slot] = codes
        return self._sound(slot, codes, ended)

    def _sound(self, slot: Tensor, codes: Tensor, ended: Tensor) -> Tensor:
        """Codes [B, q] -> a row's bytes, as `_made` reads them; an ended row leaves its slot's
        codec alone.
        """
        rows = torch.where(ended, self.slots.scratch, slot)
        pcm = self._loaded.codec(codes[:, :, None], self.slots.codec, rows)
        power = pcm.unflatten(1, (-1, self._window)).square().mean(2)
        levels = (10 * power.clamp(min=1e-10).log10() + 100).round().to(torch.uint8)
        level = power.mean(1, keepdim=True).sqrt()
        samples = (pcm.clamp(-1, 1) * 32767).round().to(torch.int16)
        parts = ended[:, None].to(torch.int16), codes.to(torch.int16), samples, level, levels
        return torch.cat([part.view(torch.uint8) for part in parts], 1)

    def _made(self, line: np.ndarray) -> Made:
        at, size = 2 + 2 * self._codes, 2 * self._samples
        data = line.tobytes()
        (level,) = struct.unpack_from("f", data, at + size)
        return Made(bool(data[0]), data[2:at], data[at : at + size], level, data[at + size + 4 :])


def _bucket(rows: int) -> int:
    """The power of two that holds `rows`."""
    return 1 << (rows - 1).bit_length()


def _enter(line: np.ndarray, row: Decode | Prefill) -> None:
    if isinstance(row, Decode):
        line[: FRESH + 1] = (
            row.slot, row.kv_row, row.position, row.text, row.draw, row.barred, 0,
        )  # fmt: skip
    else:  # a segment's first draw: EOS is barred; its talker step runs on scratch
        line[SLOT], line[DRAW], line[BARRED], line[FRESH] = row.slot, row.draw, 1, 1
    if row.forced:
        line[KNOWN] = 1
        line[CODES:] = np.frombuffer(row.forced, np.int16)
