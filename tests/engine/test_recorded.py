"""A recording does what the function does: for other numbers, other lengths, and in place."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from engine.models.recorded import Recorded
from engine.models.streaming import CodecState
from tests.engine.voice import cache_for, codec, config, talker


def test_it_is_made_once_a_shape_and_runs_without_python() -> None:
    calls = []

    def double(x: Tensor) -> Tensor:
        calls.append(x.shape)
        return 2 * x

    made = Recorded(double, [])
    for n in (1.0, 3.0, -2.0):
        assert torch.equal(made(torch.full((2, 3), n)), torch.full((2, 3), 2 * n))
    assert torch.equal(made(torch.ones(4)), torch.full((4,), 2.0))
    assert calls == [(2, 3), (4,)]


def test_recording_itself_writes_nothing_into_the_arguments() -> None:
    layer = nn.Linear(3, 3)

    def add(x: Tensor, total: Tensor) -> Tensor:
        total += layer(x)
        return total.clone()

    made, total = Recorded(add, [layer]), torch.zeros(3)
    with torch.inference_mode():
        for n in range(1, 4):
            assert torch.allclose(made(torch.ones(3), total), n * layer(torch.ones(3)))


@torch.inference_mode()
def test_talker_steps_are_the_same_at_every_length_and_row() -> None:
    plain, replayed = talker(), talker()
    replayed.fold(record=True)
    caches = cache_for(plain, 3), cache_for(replayed, 3)
    x = torch.randn(30, 2, config().talker.hidden_size)
    for n, rows in enumerate([[0, 1], [2, 0], [1, 2]] * 10):
        at = torch.tensor(rows), torch.tensor([n, n // 2])
        a, b = (m.step(x[n], c, *at) for m, c in zip((plain, replayed), caches, strict=True))
        assert torch.equal(a, b)
    assert torch.equal(caches[0].keys, caches[1].keys)


@torch.inference_mode()
def test_frames_of_codes_are_the_same() -> None:
    plain, replayed = talker(), talker()
    replayed.fold(record=True)
    for n in range(5):
        hidden = torch.randn(1 + n % 2, config().talker.hidden_size)
        first = torch.full((len(hidden),), n)
        frames = [
            m.code_predictor.complete(
                hidden, first, m.model.codec_embedding, lambda logits, _: logits.argmax(1)
            )
            for m in (plain, replayed)
        ]
        assert torch.equal(*frames)


@torch.inference_mode()
def test_the_codecs_streams_are_the_same_and_stay_apart() -> None:
    plain, replayed = codec(), codec()
    replayed.fold(record=True)
    c = config().codec
    states = [CodecState.allocate(c, 3, "cpu", torch.float32) for _ in range(2)]
    for n in range(2 * c.sliding_window):
        rows = torch.tensor([n % 3, (n + 1) % 3] if n % 2 else [n % 3])
        codes = torch.randint(0, c.codebook_size, (len(rows), c.num_quantizers, 1))
        made = [m(codes, s, rows) for m, s in zip((plain, replayed), states, strict=True)]
        assert_close(*made, rtol=0, atol=2e-6)  # the recorder joins products with sums
    assert torch.equal(states[0].positions, states[1].positions)
    states[1].reset([0])
    assert not states[1].positions[0] and not any(t[0].any() for t in states[1].tails)


@torch.inference_mode()
def test_the_first_replay_and_the_last_are_the_same() -> None:
    made, c = codec(), config().codec
    made.fold(record=True)
    codes = torch.randint(0, c.codebook_size, (12, 1, c.num_quantizers, 1))
    heard = []
    for _ in range(3):
        state = CodecState.allocate(c, 1, "cpu", torch.float32)
        heard.append([made(frame, state, torch.tensor([0])) for frame in codes])
    for again in heard[1:]:
        assert all(torch.equal(a, b) for a, b in zip(heard[0], again, strict=True))
