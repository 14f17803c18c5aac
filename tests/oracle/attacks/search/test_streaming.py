"""The search over windows of features: one sweep against dense algebra, steps on known samples, and its ends."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import pytest
import torch

from exhume.attacks.proof import doubtful_rows
from exhume.attacks.search.streaming import Streaming, StreamingSettings
from exhume.attacks.search.streaming_state import Rows, StreamingStage, StreamingState, without_doubtful
from exhume.attacks.span.high_dimensional import HighDimensionalSpan
from exhume.data import Dataset
from exhume.features import FeatureMemory, RandomFeatures, linear_part
from exhume.linalg import blocks
from exhume.parallel.team import ALONE, Team
from exhume.release import Release
from exhume.storage.records import pack, unpack
from support.problems import small_sphere, trained

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


def wide(release: Release, weights: torch.Tensor | None = None, team: Team = ALONE) -> HighDimensionalSpan:
    features = RandomFeatures(release.model, dtype=torch.float64, memory=FeatureMemory(team=team))  # type: ignore[arg-type]
    given = release.weights if weights is None else weights
    return HighDimensionalSpan(features, features.own(given), radius=math.sqrt(release.d))


def near(problem: HighDimensionalSpan, X: torch.Tensor, error: float) -> torch.Tensor:
    noise = torch.randn(X.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return problem.on_sphere(X + error * noise)


def known_rows(problem: HighDimensionalSpan, X: torch.Tensor) -> StreamingState:
    """The search at given rows."""
    probes = torch.linalg.qr(torch.randn(D, 8, generator=torch.Generator().manual_seed(2), dtype=torch.float64))[0]
    return StreamingState(Rows(problem.on_sphere(X), torch.zeros(len(X), 1, dtype=torch.float64), problem.linear_fit()), probes)


def known(data: Dataset, X: torch.Tensor, cosine: float = 0.95) -> int:
    """Samples that some row is close to, up to its sign."""
    return int(((X @ data.rows.T).abs() / D > cosine).any(0).sum())


STRATEGY = Streaming(limit=30, seed=0)


def finished(
    problem: HighDimensionalSpan, at: StreamingState, *, strategy: Streaming = STRATEGY, steps: int = 400
) -> StreamingState:
    for _ in range(steps):
        if strategy.done(at):
            return at
        at = strategy.advance(problem, at)
    raise AssertionError("the search did not end")


@pytest.mark.usefixtures("small_blocks")
def test_a_sweep_is_what_it_says(data: Dataset, release: Release) -> None:
    problem, draw = wide(release), torch.Generator().manual_seed(0)
    first, last = (problem.features.whole_blocks(count) for count in (500, 2000))
    V, theta = torch.cat([block.V for block in problem.blocks()])[first:last], problem.theta[first:last]
    X = near(problem, data.rows[:5], 0.3).requires_grad_()
    alpha, w, probes = (torch.randn(n, c, generator=draw, dtype=torch.float64) for n, c in ((5, 1), (D + 1, 1), (D, 3)))
    alpha.requires_grad_()
    w.requires_grad_()
    constant, slope = linear_part(problem.features.activation, scale=1.0)
    Z = V @ X.T
    phi = torch.relu(Z) - constant - slope * Z
    residual = theta - w[:1] - V @ w[1:] - phi @ alpha
    residual.square().sum().mul(0.5).backward()
    phi, residual = phi.detach(), residual.detach()
    found = problem.sweep(X.detach(), alpha.detach(), w.detach(), probes, (first, last))
    assert X.grad is not None
    assert alpha.grad is not None
    assert w.grad is not None
    torch.testing.assert_close(found.gradient * alpha.detach(), -X.grad)
    torch.testing.assert_close(found.f, -alpha.grad)
    torch.testing.assert_close(found.pull, -w.grad)
    torch.testing.assert_close(found.gram, phi.T @ phi)
    moment = D * V.T @ (residual * V) - residual.sum() * torch.eye(D, dtype=torch.float64)
    torch.testing.assert_close(found.image, moment @ probes)
    assert found.features == last - first
    assert found.squares == pytest.approx(float(residual.square().sum()))
    assert found.energy == pytest.approx(float(theta.square().sum()))


class _Apart(Team):
    """A process of a team whose sums are taken by the test."""

    def total(self, part: torch.Tensor) -> torch.Tensor:
        return part


@pytest.mark.usefixtures("small_blocks")
def test_the_sums_of_processes_are_those_of_one(data: Dataset, release: Release) -> None:
    whole = wide(release)
    window = 0, whole.features.whole_blocks(2500)
    at = known_rows(whole, near(whole, data.rows, 0.2))
    given = at.rows.X, at.rows.alpha + 1, at.rows.linear, at.probes, window
    one = whole.sweep(*given)
    parts = [wide(release, team=_Apart(rank, 2)).sweep(*given) for rank in range(2)]
    for name in ("gradient", "f", "pull", "gram", "image", "squares", "energy"):
        torch.testing.assert_close(getattr(parts[0], name) + getattr(parts[1], name), getattr(one, name))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("rows", [1, 20, 60])
def test_windows_use_every_feature(release: Release, rows: int) -> None:
    problem, place, seen = wide(release), 0, []
    for _ in range(50):
        window = STRATEGY._window(problem, place, rows)
        if window[0] == 0 and seen:
            break
        seen.append(window)
        place = window[1]
    assert seen[0][0] == 0
    assert seen[-1][1] == problem.p
    assert all(before[1] == after[0] for before, after in itertools.pairwise(seen))


def test_steps_end_at_the_samples(data: Dataset, release: Release) -> None:
    problem = wide(release)
    at = finished(problem, known_rows(problem, near(problem, data.rows, 0.3)))
    assert at.stage is StreamingStage.DONE
    assert at.loss < 1e-15
    assert len(at.rows.X) == N
    assert known(data, at.rows.X, cosine=1 - 1e-12) == N


def test_from_nothing_but_the_weights(data: Dataset, release: Release) -> None:
    problem = wide(release)
    strategy = Streaming(Streaming.row_limit(problem, StreamingSettings()), seed=0)
    at = finished(problem, strategy.begin(problem), strategy=strategy)
    assert at.stage is StreamingStage.DONE
    assert len(at.rows.X) == N
    assert known(data, at.rows.X, cosine=1 - 1e-12) == N


def test_what_is_superfluous_goes_and_what_is_needed_stays(data: Dataset, release: Release) -> None:
    problem = wide(release)
    twice = torch.cat([data.rows, near(problem, data.rows[:2], 0.4), near(problem, data.rows[:1].flip(1), 1.0)])
    at = finished(problem, known_rows(problem, twice))
    assert at.stage is StreamingStage.DONE
    assert len(at.rows.X) == N
    assert known(data, at.rows.X, cosine=1 - 1e-12) == N


def gram_at(problem: HighDimensionalSpan, at: StreamingState) -> torch.Tensor:
    return problem.sweep(at.rows.X, at.rows.alpha, at.rows.linear, at.probes, (0, problem.p)).gram


@pytest.fixture
def doubts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubtful_rows, "_DOUBTFUL", 1.0)


@pytest.mark.usefixtures("doubts")
def test_a_row_taken_out_on_trial_comes_back_when_it_is_needed(data: Dataset, release: Release) -> None:
    problem = wide(release)
    at, stages = known_rows(problem, near(problem, data.rows, 0.3)), []
    while at.stage is not StreamingStage.DONE:
        at = STRATEGY.advance(problem, restored(at))  # through a file at every step
        stages.append((at.stage, len(at.rows.X)))
    assert (StreamingStage.DOUBT, N - 1) in stages
    assert stages[-1] == (StreamingStage.DONE, N)
    assert known(data, at.rows.X, cosine=1 - 1e-12) == N


@pytest.mark.usefixtures("doubts")
def test_a_superfluous_row_taken_out_on_trial_stays_out(data: Dataset, release: Release) -> None:
    problem = wide(release)
    at = finished(problem, known_rows(problem, data.rows))
    more = torch.cat([at.rows.X, near(problem, at.rows.X[:1].flip(1), 1.0)])
    rows = Rows(more, torch.cat([at.rows.alpha, at.rows.alpha.new_zeros(1, 1)]), at.rows.linear)
    at = replace(at, stage=StreamingStage.STREAM, rows=rows)
    at = without_doubtful(at, torch.tensor([1.0] * N + [1e-9]), gram_at(problem, at))
    assert (at.stage, len(at.rows.X)) == (StreamingStage.DOUBT, N)
    at = STRATEGY.advance(problem, at)
    assert at.stage is not StreamingStage.DOUBT
    assert len(at.rows.X) == N
    assert at.before is None


def test_no_more_rows_than_are_allowed(release: Release) -> None:
    problem, strategy = wide(release), Streaming(limit=5, seed=0)
    at, most = strategy.begin(problem), 0
    for _ in range(60):
        at = strategy.advance(problem, at)
        most = max(most, len(at.rows.X))
        if at.stage is StreamingStage.FAILED:
            break
    assert most <= 5
    assert at.loss > 1e-6  # five rows cannot stand for eight


def test_weights_without_samples_end_the_search(release: Release) -> None:
    noise = torch.randn(release.weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    problem, strategy = wide(release, noise), Streaming(limit=10, seed=0)
    at = finished(problem, strategy.begin(problem), strategy=strategy)
    assert at.stage is StreamingStage.FAILED
    assert at.loss > 0.5


def restored(at: StreamingState) -> StreamingState:
    """The state after a way through a file."""
    tensors, values = pack(at)
    kept = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    return unpack(StreamingState, kept, json.loads(json.dumps(values)))


def test_a_step_goes_on_from_what_was_packed(release: Release) -> None:
    problem = wide(release)
    at = STRATEGY.begin(problem)
    for _ in range(7):
        at = STRATEGY.advance(problem, at)
    before = Rows(at.rows.X + 1, at.rows.alpha + 1, at.rows.linear + 1)
    back = restored(replace(at, before=before))
    assert back.before is not None
    assert torch.equal(back.before.alpha, at.rows.alpha + 1)
    again = STRATEGY.advance(wide(release), replace(back, before=None))
    onward = STRATEGY.advance(problem, at)
    one, other = pack(again), pack(onward)
    assert one[1] == other[1]
    assert all(torch.equal(one[0][name], tensor) for name, tensor in other[0].items())
