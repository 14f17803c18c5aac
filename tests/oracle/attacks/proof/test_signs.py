"""Signs of rows: planted flips come back, and agree with all signs tried one by one."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from exhume.attacks.proof.signs import resolve_signs
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.features import activation
from support.planted import coefficients, drawn, features_of, matrix_of, phi, planted, sphere_rows
from support.problems import small_sphere, state_at, trained

LINEAR_ODD = ["relu", "leaky-relu", "gelu"]


def flipped(X: torch.Tensor, *, seed: int = 3) -> torch.Tensor:
    """The rows with signs of a search that could not see them; both signs occur."""
    signs = drawn(len(X), 1, seed=seed).sign()
    signs[0], signs[-1] = 1.0, -1.0
    return signs * X


@pytest.mark.parametrize("name", LINEAR_ODD)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_planted_flips_come_back(name: str, k: int, seed: int) -> None:
    X = sphere_rows(6, 15, seed=seed)
    problem = planted(X, coefficients(6, k, seed=seed), p=500, activation=name)
    state = state_at(problem, flipped(X, seed=seed))
    assert state.loss < 1e-20  # with nuisance columns every sign fits
    signs = resolve_signs(problem, state)
    assert (signs.resolved, signs.note) == (True, "")
    torch.testing.assert_close(signs.X, X, rtol=0, atol=0)


@pytest.mark.parametrize("name", LINEAR_ODD)
def test_the_signs_are_the_best_of_all(name: str) -> None:
    X = sphere_rows(5, 8)
    problem = planted(X, p=300, activation=name)
    start = flipped(X)
    exact = problem.without_nuisance()
    choices = [torch.tensor(s, dtype=torch.float64)[:, None] for s in itertools.product((1.0, -1.0), repeat=5)]
    best = min((s * start for s in choices), key=lambda rows: state_at(exact, rows).loss)
    torch.testing.assert_close(resolve_signs(problem, state_at(problem, start)).X, best, rtol=0, atol=0)


@pytest.mark.parametrize(("n", "d"), [(9, 6), (12, 6), (16, 10)])
def test_more_rows_than_dimensions(n: int, d: int) -> None:
    X = sphere_rows(n, d)
    problem = planted(X, p=40 * n)
    signs = resolve_signs(problem, state_at(problem, flipped(X)))
    assert signs.resolved
    torch.testing.assert_close(signs.X, X, rtol=0, atol=0)


@pytest.mark.parametrize("noise", [1e-6, 1e-3, 0.1])
def test_noisy_weights_keep_their_signs(noise: float) -> None:
    X = sphere_rows(5, 15)
    problem = planted(X, coefficients(5, 2), p=600, noise=noise)
    state = state_at(problem, flipped(X))
    signs = resolve_signs(problem, state, noisy=True)
    assert signs.resolved
    torch.testing.assert_close(signs.X, X, rtol=0, atol=0)
    exactly = resolve_signs(problem, state)
    assert not exactly.resolved  # as weights of no noise, these hold no rows
    assert torch.equal(exactly.X, state.X)


def test_a_trained_victim_gives_its_signs() -> None:
    data = small_sphere(d=20, n=6)
    release = trained(data, ratio=6)
    problem = BlockwiseSpan(features_of(20, release.p), release.weights, radius=math.sqrt(20), nuisance=True)
    signs = resolve_signs(problem, state_at(problem, flipped(data.rows)))
    assert signs.resolved
    torch.testing.assert_close(signs.X, data.rows, rtol=0, atol=0)


@pytest.mark.parametrize(("name", "seen"), [("abs", False), ("tanh", False), ("erf", False), ("relu+tanh", True), ("cosine", True)])
def test_other_activations_hide_the_sign_or_show_it_to_the_search(name: str, seen: bool) -> None:
    X = sphere_rows(4, 10)
    problem = planted(X, p=400, activation=name)
    start = flipped(X)
    signs = resolve_signs(problem, state_at(problem, start))
    assert (signs.resolved, signs.note) == (seen, "")
    assert torch.equal(signs.X, start)  # there is nothing to change
    assert (state_at(problem.without_nuisance(), start).loss > 1e-3) == seen


def test_without_nuisance_columns_there_is_nothing_to_read() -> None:
    X = sphere_rows(4, 10)
    problem = planted(X, p=400, nuisance=False)
    signs = resolve_signs(problem, state_at(problem, X))
    assert (signs.resolved, signs.note) == (False, "")


def test_a_search_that_failed_has_no_signs() -> None:
    X = sphere_rows(5, 10)
    problem = planted(X, p=400)
    signs = resolve_signs(problem, state_at(problem, X[:4]))
    assert (signs.resolved, signs.note) == (False, "")
    assert torch.equal(signs.X, X[:4])


def with_other_linear_part(X: torch.Tensor, *, p: int, size: float) -> BlockwiseSpan:
    """Weights whose component in the columns of V is not that of the rows: nothing but those columns can fit it."""
    problem = planted(X, p=p)
    features = features_of(X.shape[1], p)
    weights = phi(features, X) @ coefficients(len(X)) + size * matrix_of(problem) @ drawn(X.shape[1], 1, seed=4)
    return BlockwiseSpan(features, weights.T, radius=problem.radius, nuisance=True)


def test_a_linear_part_that_no_signs_explain_leaves_them_open() -> None:
    X = sphere_rows(4, 10)
    problem = with_other_linear_part(X, p=400, size=1.0)
    state = state_at(problem, flipped(X))
    assert state.loss < 1e-20
    signs = resolve_signs(problem, state)
    assert not signs.resolved
    assert signs.note.startswith("signs not resolved: the linear component leaves them open")
    assert torch.equal(signs.X, state.X)


def test_the_best_signs_are_not_enough_where_they_spoil_the_fit() -> None:
    X = sphere_rows(4, 10)
    problem = with_other_linear_part(X, p=400, size=0.1)
    state = state_at(problem, flipped(X))
    signs = resolve_signs(problem, state, noisy=True)  # takes the nearest signs there are, and then looks
    assert not signs.resolved
    spoilt = state_at(problem.without_nuisance(), signs.X).loss
    assert spoilt > 1e-4
    assert signs.note == f"signs not resolved: the best signs leave a loss of {spoilt:.1e} against {state.loss:.1e} without them"


def test_a_known_odd_slope_is_what_the_module_relies_on() -> None:
    """The odd part of phi is exactly c z for the activations whose signs are read from V's columns."""
    z = torch.linspace(-4, 4, 81, dtype=torch.float64)
    for name in LINEAR_ODD:
        act = activation(name)
        assert act.parity == "linear-odd"
        torch.testing.assert_close((act.value(z) - act.value(-z)) / 2, act.odd_slope * z)
