"""Columns and duals of a planted change."""

from __future__ import annotations

import pytest
import torch

from exhume.attacks.factors.column_space import column_space, sample_span
from support.planted_layer import planted_layer


@pytest.mark.parametrize("equalise", [True, False])
def test_columns_and_duals_are_those_of_the_factors(equalise: bool) -> None:
    case = planted_layer()
    space = sample_span(case.layer, 6)
    columns = column_space(case.layer, space, equalise=equalise)
    duals = torch.linalg.inv(case.X @ space.basis)  # X Y = 1
    q = columns.column(duals)
    weights = case.layer.change.norm(dim=1) if equalise else torch.ones(90, dtype=torch.float64)
    expected = case.Delta / weights[:, None]
    expected = expected / expected.norm(dim=0)
    assert torch.allclose((columns.U @ q).abs(), expected.abs(), atol=1e-12)
    back = columns.dual(q)
    assert torch.allclose(back / back.norm(dim=0), duals / duals.norm(dim=0), atol=1e-10)


def test_preactivations_are_those_of_the_weights() -> None:
    case = planted_layer()
    space = sample_span(case.layer, 6)
    columns = column_space(case.layer, space, equalise=True)
    z = torch.linalg.solve(columns.V, (case.X @ space.basis).T)
    assert torch.allclose(columns.start @ z, case.layer.start @ case.X.T, atol=1e-10)


def test_noise_is_measured_outside_the_span() -> None:
    case = planted_layer(n=4, d=60, h=200, noise=1e-4)
    space = sample_span(case.layer, 4)
    planted = 1e-4 * float(case.layer.change.norm()) / case.layer.change.numel() ** 0.5
    assert float(space.noise.median()) == pytest.approx(planted, rel=0.1)
    columns = column_space(case.layer, space, equalise=True)
    q = columns.column(torch.linalg.inv(case.X @ space.basis))
    off = case.Delta == 0
    ratio = (columns.U @ q)[off] / columns.noise_of(q)[off]
    assert 0.7 < float(ratio.square().mean().sqrt()) < 1.3
    assert torch.allclose(columns.whitened * columns.noise[:, None], columns.U)
