"""The code predictor: frame by frame it says what its teacher-forced form says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.engine.voice import config, talker


def heard(rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Hidden states and codes 0."""
    c, generator = config().talker, torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, c.hidden_size, generator=generator)
    return hidden, torch.randint(c.code_predictor.vocab_size, (rows,), generator=generator)


def best(logits: Tensor, codebook: int) -> Tensor:
    return logits.argmax(-1)


@pytest.mark.parametrize("size", ["1b7", "0b6"])
@pytest.mark.parametrize("fold", [True, False])
def test_a_completed_frame_is_what_the_teacher_forced_form_says(size: str, fold: bool) -> None:
    made = talker(size, fold=False)
    if fold:
        made.fold()
    hidden, first = heard(5)
    hidden = hidden[:, : made.codec_head.in_features]
    table, said = made.model.codec_embedding, []

    def draw(logits: Tensor, codebook: int) -> Tensor:
        assert codebook == len(said) + 1
        said.append(logits)
        return best(logits, codebook)

    codes = made.code_predictor.complete(hidden, first, table, draw)
    assert codes.shape == (5, config(size=size).talker.num_code_groups)
    assert torch.equal(codes[:, 0], first)
    forced = made.code_predictor(hidden, codes, table)
    assert_close(torch.stack(said, 1), forced, rtol=0, atol=1e-5)
    assert torch.equal(forced.argmax(-1), codes[:, 1:])
    assert len(codes.unique(dim=0)) == 5


def test_each_code_is_drawn_from_its_own_head_and_fed_from_its_own_table() -> None:
    made = talker()
    hidden, first = heard(1)
    table, codebooks = made.model.codec_embedding, len(made.code_predictor.lm_head)
    plain = made.code_predictor.complete(hidden, first, table, best)
    for j in range(codebooks):
        other = talker()
        other.code_predictor.lm_head[j].weight.neg_()
        changed = other.code_predictor.complete(hidden, first, table, best)
        assert torch.equal(changed[:, : j + 1], plain[:, : j + 1])
        assert not torch.equal(changed[:, j + 1], plain[:, j + 1])


def test_a_row_never_depends_on_its_company() -> None:
    made, (hidden, first) = talker(), heard(1)
    table, said = made.model.codec_embedding, []

    def draw(logits: Tensor, codebook: int) -> Tensor:
        said.append(logits[0])
        return best(logits, codebook)

    for company in (torch.zeros_like(hidden), heard(1, seed=9)[0] * 30):
        rows, codes = torch.cat([hidden, company]), torch.cat([first, first * 0])
        said.append(made.code_predictor.complete(rows, codes, table, draw)[0])
    half = len(said) // 2
    assert all(torch.equal(a, b) for a, b in zip(said[:half], said[half:], strict=True))


def test_a_frame_leaves_nothing_for_the_next() -> None:
    made, table = talker(), talker().model.codec_embedding
    (hidden, first), (other, others) = heard(2), heard(2, seed=1)
    one = made.code_predictor.complete(hidden, first, table, best)
    made.code_predictor.complete(other, others, table, best)
    assert torch.equal(made.code_predictor.complete(hidden, first, table, best), one)


def test_the_teacher_forced_form_trains() -> None:
    made = talker(fold=False).requires_grad_(True)
    hidden, first = heard(4)
    codes = first[:, None].expand(-1, config().talker.num_code_groups)
    logits = made.code_predictor(hidden.requires_grad_(True), codes, made.model.codec_embedding)
    assert logits.shape == (4, codes.shape[1] - 1, config().talker.code_predictor.vocab_size)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), codes[:, 1:].flatten()).backward()
    trained = dict(made.code_predictor.named_parameters())
    last = f"model.codec_embedding.{codes.shape[1] - 2}.weight"  # used by the talker alone
    assert [n for n, p in trained.items() if p.grad is None or not p.grad.any()] == [last]
    assert hidden.grad is not None and hidden.grad.any()


def test_bfloat16_runs_and_stays_near() -> None:
    made, (hidden, first) = talker(), heard(3)
    codes = made.code_predictor.complete(hidden, first, made.model.codec_embedding, best)
    exact = made.code_predictor(hidden, codes, made.model.codec_embedding)
    half = talker(fold=False).bfloat16()
    said: list[Tensor] = []

    def follow(logits: Tensor, codebook: int) -> Tensor:
        assert logits.dtype == torch.float32
        said.append(logits)
        return codes[:, codebook]

    half.code_predictor.complete(hidden.bfloat16(), first, half.model.codec_embedding, follow)
    assert (torch.stack(said, 1) - exact).abs().mean() / exact.abs().mean() < 0.03
