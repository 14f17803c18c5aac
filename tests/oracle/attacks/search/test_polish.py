"""The last steps on the problem without nuisance columns."""

from __future__ import annotations

import math

import torch

from exhume.attacks.search.candidates import InnerSolve
from exhume.attacks.search.polish import polished
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.features import FeatureMemory, RandomFeatures
from support.problems import small_sphere, trained


def test_rows_near_the_samples_become_exact_and_no_steps_leave_them_as_they_are() -> None:
    data = small_sphere(d=20, n=4)
    release = trained(data, ratio=10)
    features = RandomFeatures(release.model, dtype=torch.float64, memory=FeatureMemory())  # type: ignore[arg-type]
    exact = BlockwiseSpan(features, features.own(release.weights), radius=math.sqrt(20), nuisance=False)
    noise = torch.randn(data.rows.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    near = exact.on_sphere(data.rows + 1e-4 * noise)
    solve = InnerSolve(8, 1e-2)
    last = polished(exact, near, solve, steps=6)
    assert float((last.X - data.rows).norm() / data.rows.norm()) < 1e-9
    assert torch.equal(polished(exact, near, solve, steps=0).X, near)
