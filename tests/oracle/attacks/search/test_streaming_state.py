"""How the rows of streaming change between windows."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from exhume.attacks.search.streaming_state import Rows, StreamingStage, StreamingState, judged, with_fresh, with_rows
from exhume.attacks.span.high_dimensional import HighDimensionalSpan
from exhume.features import FeatureMemory, RandomFeatures
from support.problems import small_sphere, trained

D, N = 60, 8


@pytest.fixture(scope="module")
def problem() -> HighDimensionalSpan:
    release = trained(small_sphere(d=D, n=N), ratio=10)
    features = RandomFeatures(release.model, dtype=torch.float64, memory=FeatureMemory())  # type: ignore[arg-type]
    return HighDimensionalSpan(features, features.own(release.weights), radius=math.sqrt(D))


def at_rows(X: torch.Tensor, alpha: list[float]) -> StreamingState:
    """The search at given rows and coefficients."""
    coefficients = torch.tensor(alpha, dtype=torch.float64)[:, None]
    return StreamingState(Rows(X, coefficients, torch.zeros(D + 1, 1, dtype=torch.float64)), torch.eye(D, 4, dtype=torch.float64))


def test_a_row_that_goes_leaves_its_coefficient_to_its_twin(problem: HighDimensionalSpan) -> None:
    rows = small_sphere(d=D, n=N).rows
    at = at_rows(torch.cat([rows, rows[:1]]), [5.0, *[2.0] * (N - 1), -4.0])
    gram = problem.sweep(at.rows.X, at.rows.alpha, at.rows.linear, at.probes, (0, problem.p)).gram
    rest = with_rows(at, torch.arange(N), gram)
    torch.testing.assert_close(rest.rows.alpha[:, 0], torch.tensor([1.0, *[2.0] * (N - 1)], dtype=torch.float64))


def test_fresh_rows_come_at_the_known_norm_without_a_coefficient(problem: HighDimensionalSpan) -> None:
    at = replace(at_rows(small_sphere(d=D, n=N).rows, [1.0] * N), losses=(0.5,))
    more = with_fresh(problem, at, torch.ones(2, D, dtype=torch.float64))
    assert len(more.rows.X) == N + 2
    torch.testing.assert_close(more.rows.X[N:].norm(dim=1), torch.full((2,), math.sqrt(D), dtype=torch.float64))
    assert more.rows.alpha[N:].tolist() == [[0.0], [0.0]]
    assert more.losses == ()


def test_a_trial_without_a_row_ends_one_way_or_the_other() -> None:
    rows = small_sphere(d=D, n=N).rows
    whole = at_rows(rows, [1.0] * N)
    trial = replace(
        at_rows(rows[1:], [1.0] * (N - 1)), stage=StreamingStage.DOUBT, before=whole.rows, reference_loss=1e-9, loss=0.1
    )
    assert judged(trial, right=False, wrong=False) is trial
    assert len(judged(trial, right=True, wrong=False).rows.X) == N - 1
    back = judged(trial, right=False, wrong=True)
    assert (len(back.rows.X), back.loss, back.stage) == (N, 1e-9, StreamingStage.DONE)
