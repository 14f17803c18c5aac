"""The synthetic data of Section 5.1."""

from __future__ import annotations

import pytest
import torch

from exhume.data import DataRequest, load
from exhume.data.sphere import sphere
from exhume.errors import ExhumeError


def test_sphere_has_the_papers_norm_and_labels() -> None:
    data = load(DataRequest("sphere", n=4000, d=50, seed=1))
    torch.testing.assert_close(data.rows.norm(dim=1), torch.full((4000,), 50**0.5, dtype=torch.float64))
    fit = torch.linalg.lstsq(data.rows, data.labels[:, None]).solution[:, 0]
    noise = data.labels - data.rows @ fit
    assert noise.std().item() == pytest.approx(0.5, rel=0.05)
    assert fit.norm().item() == pytest.approx(1.0, rel=0.3)  # g ~ N(0, I/d)
    assert data.input_norm == pytest.approx(50**0.5)


def test_rows_are_uniform_on_the_sphere() -> None:
    rows = sphere(d=10, n=20_000, seed=0).rows
    assert rows.mean(0).norm() < 0.05
    torch.testing.assert_close(rows.T @ rows / len(rows), torch.eye(10, dtype=torch.float64), atol=0.05, rtol=0)
    # One coordinate over sqrt(d) has the density (1 - t^2)^((d - 3)/2): its fourth moment is 3 / (d (d + 2)).
    assert (rows[:, 0] ** 4).mean().item() == pytest.approx(3 * 10**2 / (10 * 12), rel=0.05)


@pytest.mark.parametrize("rank", [2, 4, 30])
def test_rows_of_low_rank_lie_in_a_subspace_at_the_same_norm(rank: int) -> None:
    data = sphere(d=30, n=40, seed=0, rank=rank)
    assert torch.linalg.matrix_rank(data.rows).item() == rank
    torch.testing.assert_close(data.rows.norm(dim=1), torch.full((40,), 30**0.5, dtype=torch.float64))


def test_a_seed_gives_the_same_rows_and_another_gives_others() -> None:
    one, again, other = (sphere(d=5, n=3, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.rows, again.rows)
    assert torch.equal(one.labels, again.labels)
    assert (one.rows - other.rows).abs().min() > 1e-3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d": 1, "n": 3}, "d >= 2 and n >= 1, got d = 1"),
        ({"d": 4, "n": 0}, "got d = 4, n = 0"),
        ({"d": 4, "n": 3, "rank": 1}, "rank 1: expected 2 to d = 4"),
        ({"d": 4, "n": 3, "rank": 5}, "rank 5"),
    ],
)
def test_what_is_no_sphere_is_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        sphere(seed=0, **settings)


def test_rows_of_low_rank_lie_in_a_subspace() -> None:
    data = load(DataRequest("sphere", n=12, d=20, rank=3))
    assert int(torch.linalg.matrix_rank(data.rows)) == 3
    assert torch.allclose(data.rows.norm(dim=1), torch.full((12,), 20.0, dtype=torch.float64).sqrt())
    with pytest.raises(ExhumeError, match="rank 21"):
        load(DataRequest("sphere", n=12, d=20, rank=21))
