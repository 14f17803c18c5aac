"""The search over windows of features: one sweep against dense algebra, steps on known samples, and its ends."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from conftest import small_sphere, trained
from exhume.attacks import streaming
from exhume.attacks.streaming import Stream
from exhume.attacks.wide_span import WideSpan
from exhume.data import Dataset
from exhume.features import RandomFeatures, linear_part
from exhume.linalg import blocks
from exhume.linalg.team import Team
from exhume.release import Release

D, N = 60, 8


@pytest.fixture(scope="module")
def data() -> Dataset:
    return small_sphere(d=D, n=N)


@pytest.fixture(scope="module")
def release(data: Dataset) -> Release:
    return trained(data, ratio=10)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 256 * D * 8)


def wide(release: Release, weights: torch.Tensor | None = None, **settings: object) -> WideSpan:
    features = RandomFeatures(release.features, dtype=torch.float64, **settings)  # type: ignore[arg-type]
    given = release.weights if weights is None else weights
    return WideSpan(features, features.own(given), radius=math.sqrt(release.d))


def near(problem: WideSpan, X: torch.Tensor, error: float) -> torch.Tensor:
    noise = torch.randn(X.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return problem.on_sphere(X + error * noise)


def known(data: Dataset, X: torch.Tensor, cosine: float = 0.95) -> int:
    """Samples that some row is close to, up to its sign."""
    return int(((X @ data.rows.T).abs() / D > cosine).any(0).sum())


def finished(problem: WideSpan, at: Stream, *, limit: int = 30, steps: int = 400) -> Stream:
    for _ in range(steps):
        if at.stage in ("done", "failed"):
            return at
        at = streaming.advance(problem, at, limit=limit, seed=0)
    raise AssertionError("the search did not end")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_sweep_is_what_it_says(data: Dataset, release: Release, outputs: int) -> None:
    draw = torch.Generator().manual_seed(0)
    weights = torch.cat([release.weights, torch.randn(outputs - 1, release.p, generator=draw, dtype=torch.float64)])
    problem = wide(release, weights)
    V, theta = torch.cat([block.V for block in problem.blocks()]), weights.T
    first, last = (problem.features.whole_blocks(count) for count in (500, 2000))
    X = near(problem, data.rows[:5], 0.3).requires_grad_()
    alpha = torch.randn(5, outputs, generator=draw, dtype=torch.float64).requires_grad_()
    w = torch.randn(D + 1, outputs, generator=draw, dtype=torch.float64).requires_grad_()
    constant, slope = linear_part(problem.features.activation, scale=1.0)
    Z = V[first:last] @ X.T
    phi = torch.relu(Z) - constant - slope * Z
    residual = theta[first:last] - w[:1] - V[first:last] @ w[1:] - phi @ alpha
    residual.square().sum().mul(0.5).backward()
    phi, residual = phi.detach(), residual.detach()
    found = problem.sweep(X.detach(), alpha.detach(), w.detach(), (first, last))
    assert X.grad is not None
    assert alpha.grad is not None
    assert w.grad is not None
    torch.testing.assert_close(found.gradient, -X.grad)
    torch.testing.assert_close(found.f, -alpha.grad)
    torch.testing.assert_close(found.pull, -w.grad)
    torch.testing.assert_close(found.gram, phi.T @ phi)
    torch.testing.assert_close(found.residual[first:last], residual)
    assert found.features == last - first
    assert found.squares == pytest.approx(float(residual.square().sum()))
    assert found.energy == pytest.approx(float(theta[first:last].square().sum()))
    best = torch.linalg.lstsq(phi, residual + phi @ alpha.detach()).solution
    torch.testing.assert_close(problem.coefficients(X.detach(), w.detach(), (first, last)), best, rtol=1e-6, atol=1e-6)


class _Apart(Team):
    """A process of a team whose sums are taken by the test."""

    def total(self, part: torch.Tensor) -> torch.Tensor:
        return part


@pytest.mark.usefixtures("small_blocks")
def test_the_sums_of_processes_are_those_of_one(data: Dataset, release: Release) -> None:
    whole = wide(release)
    window = 0, whole.features.whole_blocks(2500)
    X, alpha, w = near(whole, data.rows, 0.2), torch.ones(N, 1, dtype=torch.float64), whole.linear_part()
    one = whole.sweep(X, alpha, w, window)
    parts = [wide(release, team=_Apart(rank, 2)).sweep(X, alpha, w, window) for rank in range(2)]
    for name in ("gradient", "f", "pull", "gram", "squares", "energy"):
        torch.testing.assert_close(getattr(parts[0], name) + getattr(parts[1], name), getattr(one, name))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("rows", [1, 20, 60])
def test_windows_use_every_feature(release: Release, rows: int) -> None:
    problem, place, seen = wide(release), 0, []
    for _ in range(50):
        window = streaming._window(problem, place, rows)
        if window[0] == 0 and seen:
            break
        seen.append(window)
        place = window[1]
    assert seen[0][0] == 0
    assert seen[-1][1] == problem.p
    assert all(before[1] == after[0] for before, after in zip(seen, seen[1:], strict=False))


def test_steps_end_at_the_samples(data: Dataset, release: Release) -> None:
    problem = wide(release)
    at = finished(problem, Stream(near(problem, data.rows, 0.3), problem.linear_part()))
    assert at.stage == "done"
    assert at.loss < 1e-15
    assert len(at.X) == N
    assert known(data, at.X, cosine=1 - 1e-12) == N


def test_from_nothing_but_the_weights(data: Dataset, release: Release) -> None:
    problem = wide(release)
    limit = streaming.row_limit(problem, None)
    at = finished(problem, streaming.begin(problem, limit=limit, seed=0), limit=limit)
    assert at.stage == "done"
    assert len(at.X) == N
    assert known(data, at.X, cosine=1 - 1e-12) == N


def test_what_is_superfluous_goes_and_what_is_needed_stays(data: Dataset, release: Release) -> None:
    problem = wide(release)
    twice = torch.cat([data.rows, near(problem, data.rows[:2], 0.4), near(problem, data.rows[:1].flip(1), 1.0)])
    at = finished(problem, Stream(problem.on_sphere(twice), problem.linear_part()))
    assert at.stage == "done"
    assert len(at.X) == N
    assert known(data, at.X, cosine=1 - 1e-12) == N


def test_no_more_rows_than_are_allowed(release: Release) -> None:
    problem = wide(release)
    at, most = streaming.begin(problem, limit=5, seed=0), 0
    for _ in range(60):
        at = streaming.advance(problem, at, limit=5, seed=0)
        most = max(most, len(at.X))
        if at.stage == "failed":
            break
    assert most <= 5
    assert at.loss > 1e-6  # five rows cannot stand for eight


def test_weights_without_samples_end_the_search(release: Release) -> None:
    noise = torch.randn(release.weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    problem = wide(release, noise)
    at = finished(problem, streaming.begin(problem, limit=10, seed=0), limit=10)
    assert at.stage == "failed"
    assert at.loss > 0.5


def test_a_step_goes_on_from_what_was_packed(release: Release) -> None:
    problem = wide(release)
    at = streaming.begin(problem, limit=30, seed=0)
    for _ in range(7):
        at = streaming.advance(problem, at, limit=30, seed=0)
    before = replace(at, doubted=(at.X, at.w))
    tensors, values = streaming.pack(before)
    back = streaming.unpack({name: tensor.clone() for name, tensor in tensors.items()}, values, "cpu")
    for name, value in vars(before).items():
        if name == "doubted":
            assert all(torch.equal(a, b) for a, b in zip(back.doubted or (), value, strict=True))
        elif isinstance(value, torch.Tensor):
            assert torch.equal(getattr(back, name), value)
        else:
            assert getattr(back, name) == value
    again = streaming.advance(wide(release), replace(back, doubted=None), limit=30, seed=0)
    assert torch.equal(again.X, streaming.advance(problem, at, limit=30, seed=0).X)
