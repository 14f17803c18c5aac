"""The certificate of columns, on planted changes: right ones pass, and each kind of wrong one is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.attacks.factors.column_space import column_space, sample_span
from exhume.attacks.proof.column_certificate import ColumnChecks, certificate_of, check_columns, judge_columns
from exhume.result import Status
from support.planted_layer import Planted, planted_layer


def checked(case: Planted, duals: torch.Tensor | None = None) -> ColumnChecks:
    """The checks at the true columns, or at others."""
    space = sample_span(case.layer, len(case.X))
    columns = column_space(case.layer, space, equalise=True)
    duals = torch.linalg.inv(case.X @ space.basis) if duals is None else duals
    zeros = (columns.U @ columns.column(duals)).abs() < 4 * columns.noise_of(columns.column(duals))
    rows = torch.linalg.inv(duals) @ space.basis.T
    return check_columns(case.layer, space, columns, duals, zeros, rows)


def verdict(checks: ColumnChecks) -> tuple[Status, str]:
    return judge_columns(checks, certificate_of(checks, weakest=0.1, spare=None))


@pytest.mark.parametrize(("noise", "switched"), [(0.0, 0.0), (1e-6, 0.0), (0.0, 0.3)])
def test_true_columns_are_certified(noise: float, switched: float) -> None:
    checks = checked(planted_layer(h=160, noise=noise, switched=switched))
    status, reason = verdict(checks)
    assert status is Status.CERTIFIED, reason
    assert float(checks.on.max()) < 0.02
    assert float(checks.leverage.max()) < 0.9


def test_error_bars_are_those_of_many_draws_of_the_noise() -> None:
    misses, bars = [], []
    for seed in range(12):
        case = planted_layer(n=5, d=30, h=120, noise=1e-5)
        torch.manual_seed(seed)
        exact = planted_layer(n=5, d=30, h=120).layer.change
        noisy = exact + 1e-5 * exact.norm() / exact.numel() ** 0.5 * torch.randn(exact.shape, dtype=torch.float64)
        layer = replace(case.layer, change=noisy)
        space = sample_span(layer, 5)
        columns = column_space(layer, space, equalise=True)
        zeros = case.Delta == 0
        q = torch.stack([torch.linalg.svd(columns.whitened[zeros[:, i]])[2][-1] for i in range(5)], dim=1)
        duals = columns.dual(q)
        rows = torch.linalg.inv(duals) @ space.basis.T
        signs = (rows * case.X).sum(1).sign()
        checks = check_columns(layer, space, columns, duals * signs, zeros, rows * signs[:, None])
        unit = torch.nn.functional.normalize(rows * signs[:, None], dim=1)
        misses.append((unit - torch.nn.functional.normalize(case.X, dim=1)).norm(dim=1))
        bars.append(torch.tensor(checks.row_errors))
    measured = torch.stack(misses).square().mean(0).sqrt()
    expected = torch.stack(bars).mean(0)
    assert torch.all(measured / expected < 1.6)
    assert torch.all(measured / expected > 0.6)


def test_a_combination_in_place_of_a_column_is_seen() -> None:
    case = planted_layer(h=160)
    space = sample_span(case.layer, 6)
    duals = torch.linalg.inv(case.X @ space.basis)
    duals[:, 1] = duals[:, 1] + 0.7 * duals[:, 0]
    status, reason = verdict(checked(case, duals))
    assert status is Status.UNCERTIFIED
    assert "too few" in reason or "combination" in reason


def test_too_few_zeros_are_too_few_equations() -> None:
    checks = checked(planted_layer(h=160))
    few = replace(checks, zeros=torch.full((6,), 5))
    assert "too few for 30 unknowns" in verdict(few)[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss": 1.0}, "larger than the noise"),
        ({"leverage": torch.ones(6)}, "accident of a combination"),
        ({"on": torch.full((6,), 0.3)}, "on where their columns are zero"),
        ({"switched": torch.full((6,), 0.8)}, "further samples may hide"),
        ({"row_errors": (0.5,) * 6}, "error bars above"),
        ({"row_errors": (float("nan"),) * 6}, "error bars above"),
    ],
)
def test_every_check_can_refuse(change: dict[str, object], words: str) -> None:
    status, reason = verdict(replace(checked(planted_layer(h=160)), **change))  # type: ignore[arg-type]
    assert status is Status.UNCERTIFIED
    assert words in reason
