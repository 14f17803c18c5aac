"""The method on features that moved: its notes, its starts, its end, and a resume at every step."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest
import torch

from exhume.attacks.interface import Resources
from exhume.attacks.search.growth import GrowthSettings, visible_rows
from exhume.attacks.span.trained_network import row_space
from exhume.attacks.trained_features import TrainedFeatures, TrainedFeaturesSettings, TrainedFeaturesState
from exhume.errors import ExhumeError
from exhume.knowledge import Facts, Knowledge
from exhume.release import Release
from exhume.result import Curve, Status
from support.networks import MOVED_D, moved_network, moved_pictures
from support.planted import through_a_file, worst_distance
from support.problems import small_sphere, two_layer

D, N = 24, 4


@cache
def trained_release(n_known: bool = False) -> Release:
    return two_layer(small_sphere(d=D, n=N), 12, k=2, knowledge=Knowledge(n=n_known)).release


def method(
    release: Release,
    *,
    rows: int | None = None,
    linearise: str = "midpoint",
    basis: torch.Tensor | None = None,
    notes: tuple[str, ...] = (),
    settings: TrainedFeaturesSettings | None = None,
) -> TrainedFeatures:
    return TrainedFeatures(
        release,
        Resources(),
        seed=0,
        rows=rows,
        linearise=linearise,
        growth=GrowthSettings(),
        basis=basis,
        notes=notes,
        settings=settings,
    )


def learned_space(release: Release) -> torch.Tensor:
    return row_space(release.trained["first.weight"] - release.initial["first.weight"])


def states_of(search: TrainedFeatures) -> list[TrainedFeaturesState]:
    states = [search.begin()]
    while not search.done(states[-1]):
        assert len(states) < 800, "the search did not end"
        states.append(search.advance(states[-1]))
    return states


@pytest.mark.parametrize(
    ("known", "asked", "notes"),
    [
        ("all", "midpoint", ("features taken at the midpoint weights",)),
        ("all", "initial", ("features taken at the initial weights",)),
        ("last", "midpoint", ("features taken at the trained weights",)),  # the first layer's start is not known
        ("last", "initial", ("features taken at the trained weights",)),
        (
            "none",
            "midpoint",
            ("theta_0 of the last layer is not known: its size acts as noise", "features taken at the trained weights"),
        ),
    ],
)
def test_notes_say_where_features_are_taken_and_what_is_not_known(known: str, asked: str, notes: tuple[str, ...]) -> None:
    assert method(moved_network(known=known), linearise=asked, notes=("more",)).notes == (*notes, "more")


def test_a_point_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ExhumeError, match="the linearisation point must be one of midpoint, trained, initial, got 'end'"):
        method(moved_network(), linearise="end")


@pytest.mark.parametrize(
    ("facts", "activation", "radius"),
    [
        (Facts(), "relu", math.sqrt(MOVED_D)),  # directions only
        (Facts(input_norm=2.0), "relu", 2.0),
        (Facts(input_norm=2.0), "tanh", 2.0),
        (Facts(), "tanh", None),  # norms count and are not known: free once rows are grown
    ],
)
def test_norms_are_free_where_they_count_and_are_not_known(facts: Facts, activation: str, radius: float | None) -> None:
    search = method(moved_network(facts=facts, activation=activation))
    assert search.radius == radius
    assert search._settling.radius == radius
    assert search._growing.radius == (math.sqrt(MOVED_D) if radius is None else radius)


def test_few_rows_start_and_more_where_they_stand_out() -> None:
    search = method(trained_release())
    visible = visible_rows(search._growing, 0)
    assert visible >= 1
    assert search._first_rows() == tuple(dict.fromkeys([max(2, math.ceil(1.25 * visible)), 2]))


@pytest.mark.parametrize(("n_known", "rows", "first"), [(True, None, N), (True, 6, 6), (False, 3, 3)])
def test_a_claimed_number_of_rows_starts_first(n_known: bool, rows: int | None, first: int) -> None:
    search = method(trained_release(n_known), rows=rows)
    assert search._first_rows()[0] == first
    assert 2 in search._first_rows()
    assert search._strategy(0).growth.limit == first  # and no more are grown


def test_a_subspace_suggests_as_many_rows_as_it_has_dimensions() -> None:
    search = method(trained_release(), basis=learned_space(trained_release()))
    assert {N, 5} <= set(search._first_rows())  # and a quarter more, for samples that depend on others
    assert len(set(search._first_rows())) == len(search._first_rows())


def test_every_start_is_fitted_and_the_best_ends() -> None:
    release = trained_release()
    search = method(release)
    states = states_of(search)
    assert len(states[-1].fits) == len(search._first_rows())
    assert [now.steps for now in states] == sorted(now.steps for now in states)
    stages = list(dict.fromkeys(search.report(now).stage for now in states))
    assert stages[0] == "grow"
    assert stages[-1] == "end"
    assert "settle" in stages
    answer = search.finish(states[-1])
    assert len(answer.rows) == N
    assert worst_distance(answer.rows, small_sphere(d=D, n=N).rows) < 0.02
    assert answer.status is Status.UNCERTIFIED  # a network drifts
    assert answer.signs_resolved
    assert answer.scale == "known norm"
    assert len(answer.removal_costs) == N + 3


def test_reports_show_rows_in_the_space_of_inputs() -> None:
    release = trained_release()
    Q = learned_space(release)
    search = method(release, basis=Q)
    states = states_of(search)
    for now in states[:: max(1, len(states) // 10)]:
        X = search.report(now).X
        assert X.shape[1] == D
        torch.testing.assert_close(X @ Q @ Q.T, X)
        torch.testing.assert_close(X.norm(dim=1), torch.full((len(X),), math.sqrt(D), dtype=torch.float64))
    assert worst_distance(search.finish(states[-1]).rows, small_sphere(d=D, n=N).rows) < 0.02


@pytest.mark.parametrize("inside", [False, True])
def test_a_run_goes_on_from_files_with_a_new_method(inside: bool) -> None:
    release = trained_release()
    basis = learned_space(release) if inside else None
    whole_search = method(release, basis=basis)
    whole = states_of(whole_search)
    search, now, steps = whole_search, whole[0], 0
    while not search.done(now):
        if steps % 7 == 3:
            search, now = method(release, basis=basis), through_a_file(now)
        now, steps = search.advance(now), steps + 1
    assert steps == len(whole) - 1 > 7
    torch.testing.assert_close(search.finish(now).rows, whole_search.finish(whole[-1]).rows, rtol=0, atol=1e-12)
    assert now.last_loss == whole[-1].last_loss


def test_with_n_claimed_a_slow_random_start_that_fits_needs_no_second() -> None:
    """A residual network goes through derivatives, and its samples show in no second moment."""
    release = moved_pictures("resnet")
    search = method(release, rows=2, settings=TrainedFeaturesSettings(explained=2.0))  # every loss is good enough
    assert search._growing.moments is None
    fits = TrainedFeaturesState(fits=(torch.zeros(2, 64, dtype=torch.float64),), last_loss=0.5)
    assert search._explained(fits)
    assert not search._explained(replace(fits, last_loss=2.5))
    assert not search._explained(replace(fits, fits=()))
    assert not method(release, settings=TrainedFeaturesSettings(explained=2.0))._explained(fits)  # n is not claimed
    quick = method(trained_release(), rows=2, settings=TrainedFeaturesSettings(explained=2.0))
    assert not quick._explained(fits)  # where rows start from a second moment, another start is cheap


def test_open_signs_end_the_run_before_rows_are_bent() -> None:
    """Even features hide signs for good."""
    release = moved_network(activation="abs", facts=Facts(input_norm=math.sqrt(MOVED_D)), k=1)
    search = method(release, rows=2)
    states = states_of(search)
    turn = next(i for i, now in enumerate(states) if now.end is not None)
    assert turn == len(states) - 1
    assert not search.finish(states[-1]).signs_resolved


def test_without_nuisance_columns_the_sign_was_in_the_landscape() -> None:
    release = moved_pictures("vit")
    search = method(release, rows=1)
    assert not search._settling.nuisance
    best = search._settling.state(search.begin().fit.rows.at)  # type: ignore[union-attr]
    signs = search._signed(best)
    assert signs.resolved
    assert signs.X is best.X


def test_the_time_left_is_that_to_rounding() -> None:
    search = method(moved_network())
    curve = Curve((1.0, 1e-2, 1e-4), (1, 1, 1), (1, 1, 1), (0.0, 1.0, 2.0))
    assert search.time_left(search.begin(), curve) == pytest.approx(7.0)  # 1e-18 at two orders of magnitude a second
