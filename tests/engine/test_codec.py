"""The codec: any chunking of any streams side by side equals one whole pass, sample by sample."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from engine.models.codec import Codec
from engine.models.streaming import CodecState
from tests.engine.voice import codec, config

FRAMES = 100  # beyond the pre-transformer's window of 72
EXACT = {torch.float32: 1e-5, torch.float64: 1e-11}


def codes(rows: int, frames: int, seed: int = 0) -> Tensor:
    c, generator = config().codec, torch.Generator().manual_seed(seed)
    return torch.randint(c.codebook_size, (rows, c.num_quantizers, frames), generator=generator)


def state(slots: int = 4, dtype: torch.dtype = torch.float32) -> CodecState:
    return CodecState.allocate(config().codec, slots, "cpu", dtype)


def stream(made: Codec, memory: CodecState, slot: int, x: Tensor, chunk: int) -> Tensor:
    """x [q, T] -> samples, `chunk` frames a call."""
    rows = torch.tensor([slot])
    return torch.cat([made(part[None], memory, rows)[0] for part in x.split(chunk, 1)])


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("chunk", [1, 2, 5, 97])
def test_any_chunks_equal_the_whole(dtype: torch.dtype, chunk: int) -> None:
    made, x = codec(dtype), codes(1, FRAMES)
    whole = made(x)[0]
    parts = stream(made, state(dtype=dtype), 2, x[0], chunk)
    assert parts.shape == (FRAMES * 1920,)
    assert_close(parts, whole, rtol=0, atol=EXACT[dtype])
    assert whole.abs().mean() > 0.05 and (whole.abs() < 1).float().mean() > 0.5


def test_streams_of_unequal_age_and_chunks_share_a_state() -> None:
    made, x = codec(), codes(3, 30)
    memory, whole, heard = state(), made(x), [[], [], []]
    done = [0, 0, 0]
    for slots, chunk in (
        ((1,), 5),
        ((1, 0), 2),
        ((2, 1), 1),
        ((0, 2, 1), 1),
        ((2,), 7),
        ((0, 1), 4),
    ):
        part = torch.stack([x[s, :, done[s] : done[s] + chunk] for s in slots])
        for s, samples in zip(slots, made(part, memory, torch.tensor(slots)), strict=True):
            heard[s].append(samples)
            done[s] += chunk
    for s in range(3):
        assert_close(torch.cat(heard[s]), whole[s, : done[s] * 1920], rtol=0, atol=1e-5)


def test_a_stream_never_depends_on_its_company() -> None:
    made, x = codec(), codes(1, 6)[0]
    alone = stream(made, state(), 1, x, 1)
    memory, busy = state(), []
    stream(made, memory, 0, codes(1, 80, seed=4)[0], 80)
    for n in range(6):
        rows = torch.tensor([0, 1, 2])
        others = codes(3, 1, seed=n)
        others[1, :, 0] = x[:, n]
        busy.append(made(others, memory, rows)[1])
    assert torch.equal(torch.cat(busy), alone)


def test_a_reset_makes_a_slot_new_and_leaves_the_others() -> None:
    made, x = codec(), codes(2, 4)
    fresh = stream(made, state(), 1, x[0], 1)
    memory = state()
    for tensor in (memory.keys, memory.values, *memory.tails):
        tensor.uniform_(-9, 9)
    memory.positions += 80
    memory.reset([0, 1])
    before = stream(made, memory, 0, x[1, :, :2], 1)
    memory.reset([1])
    assert torch.equal(stream(made, memory, 1, x[0], 1), fresh)
    after = stream(made, memory, 0, x[1, :, 2:], 1)
    assert_close(torch.cat([before, after]), made(x[1:])[0], rtol=0, atol=1e-5)


def test_a_reset_slot_does_not_feel_a_broken_stream() -> None:
    """A NaN left behind the mask would reach the sum as 0 x NaN."""
    made, x = codec(), codes(1, 3)[0]
    memory = state()
    for tensor in (memory.keys, memory.values, *memory.tails):
        tensor[:] = float("nan")
    memory.reset([1])
    assert torch.equal(stream(made, memory, 1, x, 1), stream(made, state(), 1, x, 1))


def test_nothing_is_heard_ahead() -> None:
    made, x = codec(torch.float64), codes(1, 12)
    other = x.clone()
    other[:, :, 7] = (other[:, :, 7] + 1) % config().codec.codebook_size
    a, b = made(x)[0], made(other)[0]
    assert torch.equal(a[: 7 * 1920], b[: 7 * 1920])
    assert not torch.equal(a[7 * 1920 : 7 * 1920 + 1], b[7 * 1920 : 7 * 1920 + 1])


def test_the_pre_transformer_sees_its_window_and_no_more() -> None:
    made = codec(torch.float64)
    layers = config().codec.num_hidden_layers
    window = config().codec.sliding_window
    far = layers * (window - 1) + 14  # and what the convs reach (model.md 6.3)
    x = codes(1, far + 3)
    other = x.clone()
    other[:, :, 0] = (other[:, :, 0] + 1) % config().codec.codebook_size
    felt = (made(x) - made(other))[0].view(-1, 1920).abs().amax(1) > 0
    assert felt[window + 5]
    assert not felt[far:].any()


def test_latents_are_the_codebooks_entries_projected() -> None:
    made, x = codec(torch.float64), codes(2, 3)
    q = made.quantizer
    expected = torch.zeros(2, config().codec.codebook_dim, 3, dtype=torch.float64)
    books = [(q.rvq_first, 0)] + [(q.rvq_rest, i) for i in range(x.shape[1] - 1)]
    for j, (group, level) in enumerate(books):
        book = group.vq.layers[level]._codebook
        entry = (book.embedding_sum / book.cluster_usage[:, None])[x[:, j]]  # [R, T, dim]
        expected += group.output_proj(entry.mT)
    assert_close(made.latents(x), expected)


def test_folding_changes_no_sample() -> None:
    x = codes(2, 5)
    assert_close(codec()(x), codec(fold=False)(x), rtol=0, atol=1e-5)


def test_it_trains_without_a_state() -> None:
    made = codec(fold=False)
    for name, parameter in made.named_parameters():
        parameter.requires_grad_("quantizer" not in name)
    latents = made.latents(codes(2, 6)).requires_grad_(True)
    made.synthesize(latents).square().mean().backward()
    assert latents.grad is not None and latents.grad.any()
    dead = [n for n, p in made.named_parameters() if p.requires_grad and not p.grad.any()]
    assert not dead
