"""The search on planted changes."""

from __future__ import annotations

import pytest
import torch

from exhume.attacks.factors.column_space import sample_span
from exhume.attacks.search.column_search import ColumnSearch, ColumnSearchSettings, ColumnsState
from exhume.linalg.pass_counter import PassCounter
from support.planted_layer import Planted, planted_layer


def searched(case: Planted, **settings: object) -> tuple[ColumnsState, torch.Tensor]:
    """The last state, and the rows that follow from it."""
    space = sample_span(case.layer, len(case.X))
    search = ColumnSearch(case.layer, space, seed=0, passes=PassCounter(), settings=ColumnSearchSettings(**settings))  # type: ignore[arg-type]
    state = search.begin()
    while not search.done(state):
        state = search.advance(state)
    return state, torch.linalg.pinv(state.duals) @ space.basis.T


def errors(case: Planted, rows: torch.Tensor) -> torch.Tensor:
    cosines = torch.nn.functional.normalize(case.X, dim=1) @ torch.nn.functional.normalize(rows, dim=1).T
    return (2 - 2 * cosines.abs().max(1).values).clamp(min=0).sqrt()


@pytest.mark.parametrize(("h", "switched"), [(90, 0.0), (48, 0.0), (120, 0.3)])
def test_all_columns_of_a_planted_change(h: int, switched: float) -> None:
    case = planted_layer(n=12, d=30, h=h, switched=switched)
    state, rows = searched(case)
    assert state.settled
    assert float(errors(case, rows).max()) < 1e-6
    zeros = case.Delta == 0
    cosines = torch.nn.functional.normalize(case.X, dim=1) @ torch.nn.functional.normalize(rows, dim=1).T
    for found, true in enumerate(cosines.abs().argmax(0).tolist()):
        assert torch.equal(state.zeros[:, found], zeros[:, true])


def test_with_noise_rows_are_right_up_to_it() -> None:
    case = planted_layer(n=8, d=40, h=160, noise=1e-5)
    state, rows = searched(case)
    assert state.settled
    assert float(errors(case, rows).max()) < 1e-3


def test_one_sample() -> None:
    case = planted_layer(n=1, h=20)
    state, rows = searched(case)
    assert state.settled
    assert float(errors(case, rows).max()) < 1e-7


def test_too_few_units_end_the_search() -> None:
    case = planted_layer(n=12, d=30, h=14)
    state, _ = searched(case, patience=3)
    assert not state.settled
    assert state.found < 12


def test_samples_that_share_their_mask_are_not_told_apart() -> None:
    case = planted_layer(n=6, d=20, h=90)
    Delta = case.Delta.clone()
    Delta[:, 1] = torch.where(
        Delta[:, 0] != 0, torch.randn(90, generator=torch.Generator().manual_seed(5), dtype=torch.float64), 0.0
    )
    layer = case.layer
    shared = Planted(type(layer)(Delta @ case.X, layer.start, layer.end, False, 90, 2.2e-16, "shared masks"), case.X, Delta)
    state, _ = searched(shared, patience=4, retreats=1)
    assert not state.settled


def test_a_combination_gives_way_to_the_columns_that_it_stands_for() -> None:
    case = planted_layer(n=6, d=20, h=90)
    space = sample_span(case.layer, 6)
    search = ColumnSearch(case.layer, space, seed=0, passes=PassCounter())
    duals = torch.linalg.inv(case.X @ space.basis)
    zeros = case.Delta == 0
    mixed = duals.clone()
    mixed[:, 1] = duals[:, 1] / duals[:, 1].norm() + duals[:, 0] / duals[:, 0].norm()
    state = ColumnsState(mixed, torch.cat([zeros[:, :1], zeros[:, :1] & zeros[:, 1:2], zeros[:, 2:]], dim=1))
    while not search.done(state):
        state = search.advance(state)
    assert torch.equal(state.zeros, zeros)
    assert float(errors(case, torch.linalg.inv(state.duals) @ space.basis.T).max()) < 1e-7
