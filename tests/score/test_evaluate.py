"""One score of one reconstruction: every figure against the rows it is made of."""

from __future__ import annotations

import pytest
import torch

from exhume.data import DataRequest, Dataset, load
from exhume.result import Certificate, Reconstruction, Status
from exhume.score import evaluate, metrics
from support.drawn_networks import network_release
from support.problems import small_sphere, trained


def guess_of(rows: torch.Tensor) -> Reconstruction:
    return Reconstruction(rows, Status.UNCERTIFIED, "", Certificate(1, 1, 0.0, 0.0), "mine", 0, 0.0)


def pushed(data: Dataset, errors: list[float]) -> torch.Tensor:
    """The true rows, each moved by that share of its norm."""
    way = torch.nn.functional.normalize(small_sphere(d=data.d, n=data.n, seed=7).rows)
    return data.rows + way * data.rows.norm(dim=1, keepdim=True) * torch.tensor(errors, dtype=torch.float64)[:, None]


def test_true_rows_in_any_order_and_dtype_are_perfect() -> None:
    data = small_sphere(d=20, n=5)
    order = torch.tensor([3, 0, 4, 1, 2])
    score = evaluate(guess_of(data.rows[order].float()), data, trained(data))
    assert (score.n_true, score.n_found, score.covered) == (5, 5, 5)
    assert max(score.rho, score.rho_signed, score.rho_direction, score.worst_row) < 1e-6
    assert score.span_residual is not None
    assert score.span_residual < 1e-6
    assert score.matched == tuple(order.argsort().tolist())


def test_a_wrong_sign_is_forgiven_by_rho_alone() -> None:
    data = small_sphere(d=20, n=5)
    rows = data.rows.clone()
    rows[2] *= -1
    score = evaluate(guess_of(rows), data, None)
    assert score.rho < 1e-12
    assert score.rho_signed == pytest.approx(2 / 5)
    assert score.rho_direction == pytest.approx(2 / 5)
    assert score.worst_row == pytest.approx(2.0)
    assert score.covered == 4
    assert score.span_residual is None


def test_a_wrong_norm_is_forgiven_by_the_direction_alone() -> None:
    data = small_sphere(d=20, n=5)
    score = evaluate(guess_of(data.rows * 0.7), data, None)
    assert score.rho_direction < 1e-12
    assert score.rho == pytest.approx(0.3)
    assert score.rho_signed == pytest.approx(0.3)
    assert score.worst_row == pytest.approx(0.3)


def test_rows_are_covered_within_the_error_that_is_asked_for() -> None:
    data = small_sphere(d=20, n=4)
    guess = guess_of(pushed(data, [0.01, 0.09, 0.11, 0.4]))
    score = evaluate(guess, data, None)
    assert score.covered == 2
    assert score.worst_row == pytest.approx(0.4)
    assert score.rho_signed == pytest.approx((0.01 + 0.09 + 0.11 + 0.4) / 4)
    assert evaluate(guess, data, None, within=0.2).covered == 3


def test_missing_rows_count_as_zero_and_extra_ones_do_not_count() -> None:
    data = small_sphere(d=20, n=5)
    few = evaluate(guess_of(data.rows[:3]), data, None)
    assert (few.n_found, few.covered, few.matched) == (3, 3, (0, 1, 2, None, None))
    assert few.rho_signed == pytest.approx(2 / 5)
    many = evaluate(guess_of(torch.cat([small_sphere(d=20, n=9, seed=3).rows, data.rows])), data, None)
    assert (many.n_found, many.covered) == (14, 5)
    assert many.rho_signed < 1e-12


@pytest.mark.parametrize("rows", [5, 40])
def test_chance_is_the_score_of_as_many_random_rows(rows: int) -> None:
    """More guesses are luckier: the level is that of the same number."""
    data = small_sphere(d=20, n=5)
    lucky = [evaluate(guess_of(small_sphere(d=20, n=rows, seed=seed).rows), data, None) for seed in range(50, 60)]
    level = lucky[0]
    for chance, got in ((level.chance, [one.rho for one in lucky]), (level.chance_signed, [one.rho_signed for one in lucky])):
        assert chance == pytest.approx(sum(got) / len(got), rel=0.04)


def test_the_span_residual_is_that_of_the_releases_features() -> None:
    data = load(DataRequest("digits", n=3))
    guess = guess_of(load(DataRequest("digits", n=5)).rows[3:])
    for release in (trained(data, ratio=2), network_release("two-layer")):
        (phi, psi) = (torch.cat(list(release.model.feature_blocks(release.trained)(rows))) for rows in (data.rows, guess.rows))
        dense = (phi - psi @ torch.linalg.pinv(psi) @ phi).norm(dim=0).mean() / release.p**0.5
        assert evaluate(guess, data, release).span_residual == pytest.approx(dense.item(), rel=1e-6)


def test_pictures_are_compared_as_they_are_seen() -> None:
    data = load(DataRequest("digits", n=4))
    score = evaluate(guess_of(data.rows[[2, 0, 3, 1]] + 0.05), data, None)
    moved = data.pictures(data.rows + 0.05)
    assert (score.psnr, score.ssim) == pytest.approx(metrics.picture_quality(data.pictures(data.rows), moved))
    assert score.chance_psnr is not None
    assert score.chance_ssim is not None
    assert score.psnr > score.chance_psnr + 10  # type: ignore[operator]
    assert score.ssim > score.chance_ssim + 0.5  # type: ignore[operator]
    assert score.column_errors == ()


def test_tables_are_compared_column_by_column_in_their_own_units() -> None:
    data = load(DataRequest("wine", n=8))
    error = 0.03 * torch.arange(1, data.d + 1, dtype=torch.float64)
    score = evaluate(guess_of((data.rows + error)[[5, 1, 0, 2, 4, 3, 7, 6]]), data, None)
    assert score.column_errors == pytest.approx(error.tolist())  # standardised rows have spread one
    assert score.chance_column_error is not None
    assert 0.5 < score.chance_column_error < 2
    assert score.psnr is None
    assert evaluate(guess_of(small_sphere().rows), small_sphere(), None).chance_column_error is None


def test_a_row_of_zeros_and_no_row_at_all_have_a_score() -> None:
    data = small_sphere(d=20, n=2)
    zeros = evaluate(guess_of(torch.zeros(2, 20)), data, trained(data))
    nothing = evaluate(guess_of(torch.zeros(0, 20)), data, trained(data))
    for score in (zeros, nothing):
        assert score.rho_signed == pytest.approx(1.0)
        assert score.covered == 0
        assert score.span_residual is not None
        assert score.span_residual > 0.1
