"""What every span problem shares: spheres and tangents, counts, and the damped Gauss-Newton step against a dense solve."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from exhume.architectures import describe_network, initial_parameters
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.module import ModuleSpan
from exhume.attacks.span.problem import Point, Span, State
from exhume.features import ModuleFeatures, RandomFeatures
from support.planted import coefficients, drawn, matrix_of, nearby, planted, sphere_rows
from support.problems import small_sphere, state_at, trained

D, N, P = 10, 4, 300


def test_free_norms_stay_within_their_bounds() -> None:
    release = trained(small_sphere(d=20, n=5), ratio=7, activation="cosine")
    features = RandomFeatures(release.model, dtype=torch.float64)
    free, bounded = (
        BlockwiseSpan(features, release.weights, radius=None, nuisance=False, norm_bound=bound) for bound in (math.inf, 4.0)
    )
    X = torch.eye(20, dtype=torch.float64)[:3] * 20**0.5 * torch.tensor([[0.01], [1.5], [100.0]], dtype=torch.float64)
    assert torch.equal(free.on_sphere(X), X)
    torch.testing.assert_close(bounded.on_sphere(X).norm(dim=1) / 20**0.5, torch.tensor([0.25, 1.5, 4.0], dtype=torch.float64))


def test_known_norms_are_kept_and_directions_too() -> None:
    problem, X = planted(sphere_rows(N, D), p=P).with_radius(2.5), drawn(N, D, seed=1)
    found = problem.on_sphere(X)
    torch.testing.assert_close(found.norm(dim=1), torch.full((N,), 2.5, dtype=torch.float64))
    torch.testing.assert_close(found / 2.5, X / X.norm(dim=1, keepdim=True))


@pytest.mark.parametrize("radius", [math.sqrt(D), 2.5])
def test_a_tangent_step_stays_on_the_sphere(radius: float) -> None:
    problem = planted(sphere_rows(N, D), p=P).with_radius(radius)
    X, step = problem.on_sphere(sphere_rows(N, D, seed=1)), drawn(N, D, seed=2)
    along = problem.tangent(X, step)
    torch.testing.assert_close((along * X).sum(1), torch.zeros(N, dtype=torch.float64))
    torch.testing.assert_close(problem.tangent(X, along), along)
    lost = step - along  # what is left out points away from the centre
    torch.testing.assert_close(lost, X * ((lost * X).sum(1, keepdim=True) / radius**2))
    assert problem.with_radius(None).tangent(X, step) is step


def test_another_radius_leaves_the_problem_alone() -> None:
    problem = planted(sphere_rows(N, D), p=P)
    other, free = problem.with_radius(7.0), problem.with_radius(None)
    assert (problem.radius, other.radius, free.radius) == (math.sqrt(D), 7.0, None)
    assert (problem.typical_norm, other.typical_norm, free.typical_norm) == (math.sqrt(D), 7.0, math.sqrt(D))
    assert problem.unknowns(3) == other.unknowns(3) == free.unknowns(3) - 3
    X = sphere_rows(N, D, seed=1)
    assert state_at(other, X).loss == state_at(problem, X).loss  # the same weights and features
    assert problem.passes is other.passes  # work is counted together


@pytest.mark.parametrize(
    ("free", "k", "rows", "unknowns"), [(False, 1, 3, 30), (True, 1, 3, 33), (False, 4, 2, 26), (True, 4, 2, 28)]
)
def test_unknowns_are_coordinates_and_coefficients(free: bool, k: int, rows: int, unknowns: int) -> None:
    problem = planted(sphere_rows(N, D), coefficients(N, k), p=P, free=free)
    assert problem.unknowns(rows) == unknowns
    assert problem.equations == P * k


@pytest.mark.parametrize("k", [1, 3])
def test_noise_costs_what_a_fit_to_noise_takes(k: int) -> None:
    """A projection of noise on D + k random directions of its p k dimensions, on average over many."""
    problem = planted(sphere_rows(N, D), coefficients(N, k), p=P)
    columns = torch.linalg.qr(drawn(P * k, D + k, seed=1))[0]
    noise = drawn(P * k, 400, seed=2)
    taken = (columns.T @ noise).square().sum() / noise.square().sum()
    assert problem.noise_cost(0.25) == pytest.approx(0.25 * float(taken), rel=0.05)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_strongest_combination_of_outputs_is_the_leading_singular_vector(k: int) -> None:
    problem = planted(sphere_rows(N, D), p=P)
    columns = drawn(P, k, seed=3) * torch.arange(1, k + 1)
    found = problem.strongest(columns)
    left, values, _ = torch.linalg.svd(columns, full_matrices=False)
    torch.testing.assert_close((found @ left[:, 0]).abs(), values[0])
    torch.testing.assert_close(found.norm(), values[0])


def test_random_signs_are_fair_and_repeatable() -> None:
    module = ModuleSpan(small_module(), drawn(2, 40), radius=None)
    for problem in (planted(sphere_rows(N, D), p=20_000), module):
        signs = problem.random_signs(torch.Generator().manual_seed(0))
        assert signs.shape == (problem.p,)
        assert set(signs.tolist()) == {-1, 1}
        assert abs(float(signs.double().mean())) < 4 / math.sqrt(problem.p)
        assert torch.equal(signs, problem.random_signs(torch.Generator().manual_seed(0)))


def small_module() -> ModuleFeatures:
    spec = describe_network("two-layer", (D,), outputs=2, last_layer=80)
    return ModuleFeatures(spec.module(initial_parameters(spec, seed=0, dtype=torch.float64)), (D,), dtype=torch.float64)


def test_a_problem_without_nuisance_columns_is_itself_without_them() -> None:
    bare, with_them = (planted(sphere_rows(N, D), p=P, nuisance=nuisance) for nuisance in (False, True))
    assert bare.without_nuisance() is bare
    X = sphere_rows(N, D, seed=1)
    assert state_at(with_them.without_nuisance(), X).loss == pytest.approx(state_at(bare, X).loss, rel=1e-9)
    assert state_at(with_them, X).zeta is not None
    module = ModuleSpan(small_module(), drawn(2, 40), radius=None)
    assert module.without_nuisance() is module


def test_a_state_gives_its_linear_part_to_other_rows() -> None:
    X, linear = sphere_rows(N, D), drawn(D + 1, 1)
    state = replace(state_at(planted(X, p=P), X), at=Point(X, linear))
    other = state.with_rows(X[:2])
    assert (state.m, len(other.X)) == (N, 2)
    assert other.linear is linear


def jacobian(problem: BlockwiseSpan, state: State) -> torch.Tensor:
    """Derivatives of Phi alpha + N zeta in (rows, alpha, zeta), outputs one after another: (p k, m d + m k + q k)."""
    V, k = matrix_of(problem), problem.k
    rows = torch.einsum("pm,pd,mk->pkmd", state.slopes, V, state.alpha).reshape(len(V), k, -1)
    nuisance = [torch.ones(len(V), 1, dtype=torch.float64), V] if problem.nuisance else []
    linear = torch.cat([state.Phi, *nuisance], dim=1)  # every output has its own coefficient of each of these
    others = torch.einsum("pc,kl->pkcl", linear, torch.eye(k, dtype=torch.float64)).reshape(len(V), k, -1)
    return torch.cat([rows, others], dim=2).flatten(0, 1)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("nuisance", [True, False])
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("damping", [1.0, 1e-2])
def test_a_step_is_that_of_the_dense_damped_normal_equations(k: int, nuisance: bool, free: bool, damping: float) -> None:
    """min |r - J (dX, da, dz)|^2 + sum_i damping c_i |dx_i|^2 with rows held to tangents, c the curvature model's diagonal."""
    true = sphere_rows(N, D)
    problem = planted(true, coefficients(N, k), p=P, activation="relu+tanh", nuisance=nuisance, free=free)
    state = state_at(problem, nearby(problem, true, 0.2))
    J = jacobian(problem, state)
    hold = torch.eye(N * D, dtype=torch.float64)
    if not free:
        hold = torch.block_diag(*(torch.eye(D, dtype=torch.float64) - torch.outer(x, x) / D for x in state.X))
    J = torch.cat([J[:, : N * D] @ hold, J[:, N * D :]], dim=1)
    matrix = J.T @ J
    weights = damping * problem.row_curvature(state).diagonal().repeat_interleave(D)
    matrix[: N * D, : N * D] += torch.diag(weights)
    dense = torch.linalg.solve(matrix, J.T @ state.residual.flatten())[: N * D].reshape(N, D)
    move = problem.move(state, damping=damping, cg_steps=500, cg_tolerance=1e-12)
    torch.testing.assert_close(move[0], dense, rtol=1e-6, atol=1e-8)
    after = problem.step(state, damping=damping, cg_steps=500, cg_tolerance=1e-12).X
    torch.testing.assert_close(after, problem.on_sphere(state.X + dense), rtol=1e-6, atol=1e-8)
    assert state_at(problem, after).loss < state.loss


def test_the_row_curvature_is_a_model_of_the_true_one() -> None:
    """J^T J over random V is nearly ((M^T M) o (alpha alpha^T) / d) (x) I_d: its trace over coordinates, pair by pair of rows."""
    X = sphere_rows(3, D)
    problem = planted(X, coefficients(3), p=30_000)
    state = state_at(problem, X)
    V = matrix_of(problem)
    J = torch.stack([state.alpha[i] * state.slopes[:, i, None] * V for i in range(3)])  # (m, p, d)
    traces = torch.einsum("ipd,jpd->ij", J, J) / D
    model = problem.row_curvature(state)
    assert float((model - traces).norm() / traces.norm()) < 0.05


@pytest.mark.parametrize("nuisance", [True, False])
def test_linear_coefficients_are_solved_through_the_whole_gram(nuisance: bool) -> None:
    X = sphere_rows(N, D)
    problem: Span = planted(X, coefficients(N, 2), p=P, nuisance=nuisance)
    state = state_at(problem, sphere_rows(N, D, seed=1))
    V = matrix_of(problem)  # type: ignore[arg-type]
    A = torch.cat([state.Phi, *([torch.ones(P, 1, dtype=torch.float64), V] if nuisance else [])], dim=1)
    right = drawn(A.shape[1], 2, seed=4)
    solved = problem.solve_linear(state, (right[:N], right[N:]) if nuisance else (right[:N],))
    torch.testing.assert_close(torch.cat(solved), torch.linalg.solve(A.T @ A, right), rtol=1e-8, atol=1e-12)
