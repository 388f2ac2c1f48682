"""int8 weights on the CPU: near the full ones, and no row ever depends on how many there are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from engine import checkpoint
from engine.checkpoint import CheckpointError
from engine.models import packed
from engine.models.talker import Talker
from tests.engine.voice import cache_for, config, talker

needs_int8 = pytest.mark.skipif(not packed.supported(), reason="this CPU has no int8 kernels")


def int8_talker() -> Talker:
    made = talker()
    made.fold(int8=True)
    return made


def deviation(got: Tensor, true: Tensor) -> float:
    difference = (got - true).detach()
    return float(difference.square().mean().sqrt() / true.detach().square().mean().sqrt())


@needs_int8
@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_layer_is_within_two_percent_of_the_full_one(bias: bool) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(384, 640, bias=bias), torch.randn(5, 384)
    made = packed.packed(linear)(x)
    assert made.shape == (5, 640)
    assert 1e-4 < deviation(made, linear(x)) < 0.02


@needs_int8
def test_a_loud_row_changes_no_other() -> None:
    torch.manual_seed(0)
    layer, x = packed.packed(nn.Linear(64, 48)), torch.randn(3, 2, 64)
    quiet = layer(x)
    x[1] *= 1e4
    assert torch.equal(layer(x)[[0, 2]], quiet[[0, 2]])


@needs_int8
def test_the_twin_shares_its_norms_and_leaves_the_original_alone() -> None:
    full, made = talker(), int8_talker()
    assert made._decoder is not None
    norms = [m.weight for m in made._decoder[0].modules() if hasattr(m, "eps")]
    own = {id(p) for p in made.model.parameters()}
    assert norms and all(id(weight) in own for weight in norms)
    assert list(made.state_dict()) == list(full.state_dict())
    x = torch.randn(7, config().talker.hidden_size)
    assert torch.equal(
        made.prefill(x, cache_for(made), 0, 0), full.prefill(x, cache_for(full), 0, 0)
    )


@needs_int8
def test_a_step_of_any_number_of_rows_gives_each_row_the_same_bits() -> None:
    made, rows, size = int8_talker(), 9, config().talker.hidden_size
    torch.manual_seed(0)
    x = torch.randn(rows, 5, size) * torch.logspace(-1, 1, rows)[:, None, None]

    def speak(chosen: list[int]) -> tuple[Tensor, Tensor]:
        cache = cache_for(made, rows)
        for row in chosen:
            made.prefill(x[row, :4], cache, row, 0)
        at = torch.tensor(chosen)
        hidden = made.step(x[at, 4], cache, at, torch.full((len(at),), 4))
        first = made.logits(hidden).argmax(1)
        table = made.model.codec_embedding

        def best(logits: Tensor, codebook: int) -> Tensor:
            return logits.argmax(1)

        return hidden, made.code_predictor.complete(hidden, first % 8, table, best)

    together = speak(list(range(rows)))
    for count in (1, 2, 3, 5):
        apart = speak(list(range(count)))
        assert all(torch.equal(a, b[:count]) for a, b in zip(apart, together, strict=True))
    last = speak([rows - 1])
    assert all(torch.equal(a, b[-1:]) for a, b in zip(last, together, strict=True))


@needs_int8
def test_hidden_states_stay_near_those_of_full_weights() -> None:
    full, made = talker(), int8_talker()
    torch.manual_seed(0)
    x, at = torch.randn(4, config().talker.hidden_size), torch.arange(4)
    step = [m.step(x, cache_for(m), at, torch.zeros_like(at)) for m in (made, full)]
    assert deviation(*step) < 0.05
    assert_close(made.logits(step[0]).softmax(1), full.logits(step[1]).softmax(1), rtol=0, atol=0.1)


def test_int8_is_refused_where_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "supported", lambda: False)
    with pytest.raises(CheckpointError, match=r"int8 weights need an x86 CPU(?s:.*)--weights"):
        checkpoint.load("", "cpu", lambda _: None, "int8")
    assert not checkpoint.load("", "cpu", lambda _: None, "auto").talker.int8
