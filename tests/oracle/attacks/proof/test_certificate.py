"""The certificate: error bars, counts and costs against dense algebra, and every rule of the verdict."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from exhume.attacks.proof.certificate import certify, cliff, equations, judge, judge_noisy, row_errors
from exhume.attacks.proof.duplicate_rows import SEPARATE
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.counting import MARGIN
from exhume.features import FeatureMemory, RandomFeatures
from exhume.result import Certificate, Status
from support.planted import coefficients, drawn, matrix_of, nearby, phi, planted, sphere_rows
from support.problems import small_sphere, state_at, trained

D, N, P = 12, 4, 600


def test_error_bars_follow_noise_in_the_weights() -> None:
    data = small_sphere(d=30, n=4)
    release = trained(data, ratio=10)
    noise = 1e-6 * release.weights.norm() / release.p**0.5
    noisy = release.weights + noise * torch.randn(release.weights.shape, generator=torch.Generator().manual_seed(0))
    features = RandomFeatures(release.model, dtype=torch.float64, memory=FeatureMemory(keep_bytes=1 << 30))
    problem = BlockwiseSpan(features, noisy, radius=30**0.5, nuisance=True)
    state = state_at(problem, data.rows)
    for _ in range(4):
        state = problem.state(problem.step(state, damping=1e-12, cg_steps=60, cg_tolerance=1e-9))
    errors = (state.X - data.rows).norm(dim=1) / data.rows.norm(dim=1)
    ratio = errors / torch.tensor(row_errors(problem, state))
    assert 0.4 < ratio.median() < 2.5


@pytest.mark.parametrize("k", [1, 3])
def test_error_bars_are_nearly_those_of_the_whole_inverse(k: int) -> None:
    """sigma^2 (J^T J)^-1 over all unknowns, the tangents of the sphere for rows; the certificate's curvature is a model of it."""
    X = sphere_rows(N, D)
    problem = planted(X, coefficients(N, k), p=2000, noise=1e-4)
    state = state_at(problem, X)
    V = matrix_of(problem)
    tangents = [torch.linalg.svd(x[None])[2][1:].T for x in X]  # (d, d - 1)
    rows = [torch.einsum("p,pt,k->pkt", state.slopes[:, i], V @ tangents[i], state.alpha[i]) for i in range(N)]
    linear = torch.cat([state.Phi, torch.ones(problem.p, 1, dtype=torch.float64), V], dim=1)
    others = torch.einsum("pc,kl->pkcl", linear, torch.eye(k, dtype=torch.float64)).reshape(problem.p, k, -1)
    J = torch.cat([*rows, others], dim=2).flatten(0, 1)
    covariance = torch.linalg.pinv(J.T @ J) * float(state.residual.square().sum()) / (len(J) - N * (D - 1 + k))
    dense = [float(covariance.diagonal()[i * (D - 1) : (i + 1) * (D - 1)].sum().sqrt() / X[i].norm()) for i in range(N)]
    assert list(row_errors(problem, state)) == pytest.approx(dense, rel=0.3)


def test_the_noise_is_judged_by_the_equations_that_are_left() -> None:
    """As in every regression: sigma^2 is the squared residual over equations less unknowns, here 150 - 48."""
    X = sphere_rows(N, D)
    problem = planted(X, p=150, noise=0.1, nuisance=False)
    state = state_at(problem, X)
    sigma = math.sqrt(float(state.residual.square().sum()) / (150 - 48))
    spread = torch.linalg.inv(problem.row_curvature(state)).diagonal() * D  # over all coordinates of a row
    assert list(row_errors(problem, state)) == pytest.approx((sigma * spread.sqrt() / math.sqrt(D)).tolist(), rel=1e-6)


def test_rows_that_only_count_together_have_wide_error_bars() -> None:
    """A row that costs nothing has no curvature, so the weights do not say where it is."""
    X = sphere_rows(N + 1, D)
    problem = planted(X[:N], p=P, noise=1e-6)
    errors = row_errors(problem, state_at(problem, X))
    assert max(errors[:N]) < 1e-4 < 0.1 < errors[N]


def test_an_exact_fit_is_no_better_than_rounding() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    errors = row_errors(problem, state_at(problem, X))
    assert all(1e-18 < error < 1e-14 for error in errors)


def loss_of(problem: BlockwiseSpan, X: torch.Tensor) -> float:
    """The loss by least squares on the columns [phi(X), 1, V] as a whole."""
    V = matrix_of(problem)
    N_ = [torch.ones(len(V), 1, dtype=torch.float64), V] if problem.nuisance else []
    A = torch.cat([phi(problem.features, X), *N_], dim=1)  # type: ignore[arg-type]
    rest = problem.theta - A @ torch.linalg.lstsq(A, problem.theta, driver="gelsd").solution
    return float(rest.square().sum() / problem.theta.square().sum())


@pytest.mark.parametrize("nuisance", [True, False])
def test_each_row_of_the_cliff_matters_and_a_further_one_does_not(nuisance: bool) -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P, nuisance=nuisance)
    costs, spare = cliff(problem, state_at(problem, X), seed=0)
    refitted = [loss_of(problem, X[[j for j in range(N) if j != i]]) for i in range(N)]
    # Spare rows take over some of what a removed row leaves, and never add to it.
    assert all(0.6 * whole < cost <= whole for cost, whole in zip(costs, refitted, strict=True))
    assert max(spare) < 1e-20 < 1e-4 < min(costs)
    assert len(spare) == 3


def test_a_missing_row_shows_in_spare_ones() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    _, spare = cliff(problem, state_at(problem, X[:-1]), seed=0)
    assert max(spare) > 1e-6  # any further row explains some of what is left


def test_the_cliff_is_the_same_for_a_seed() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P, noise=0.1)
    state = state_at(problem, X)
    assert cliff(problem, state, seed=1) == cliff(problem, state, seed=1)
    assert cliff(problem, state, seed=1)[1] != cliff(problem, state, seed=2)[1]


@pytest.mark.parametrize("rows", [1, N])
def test_features_that_are_off_for_every_row_give_no_equation(rows: int) -> None:
    X = sphere_rows(rows, D)
    problem = planted(X, p=P, nuisance=False)
    on = int((matrix_of(problem) @ X.T > 0).any(1).sum())
    assert on < P
    assert equations(problem, state_at(problem, X)) == on


@pytest.mark.parametrize(("k", "rank"), [(2, 1), (3, 3), (3, 2), (4, 1), (10, 3)])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_outputs_that_follow_from_others_give_no_equations(k: int, rank: int, seed: int, dtype: torch.dtype) -> None:
    """Softmax regression from zero, say: the weights of all classes add up to nothing but rounding."""
    X = sphere_rows(N, D, seed=seed)
    exact = planted(X, drawn(N, rank, seed=seed) @ drawn(rank, k, seed=seed + 1), p=P, activation="tanh", nuisance=False)
    features = RandomFeatures(exact.features.spec, dtype=dtype)  # type: ignore[attr-defined]
    problem = BlockwiseSpan(features, exact.theta.T.to(dtype), radius=math.sqrt(D), nuisance=False)
    assert equations(problem, state_at(problem, X.to(dtype))) == P * rank


def test_smooth_features_all_count() -> None:
    X = sphere_rows(1, D)
    problem = planted(X, p=P, activation="tanh", nuisance=False)
    assert equations(problem, state_at(problem, X)) == P


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("k", [1, 2])
def test_a_certificate_counts_what_there_is(free: bool, k: int) -> None:
    X = sphere_rows(N, D)
    problem = planted(X, coefficients(N, k), p=P, activation="relu+tanh", free=free)
    state = state_at(problem, nearby(problem, X, 1e-3))
    proof = certify(problem, state, costs=(0.3, 0.1, 0.2, 0.4), spare=(1e-9, 3e-9, 2e-9))
    assert proof.equations == P * k
    assert proof.unknowns == N * (D + k if free else D - 1 + k)
    assert proof.margin == pytest.approx(proof.equations / proof.unknowns)
    assert proof.loss == state.loss == pytest.approx(loss_of(problem, state.X), rel=1e-6)
    assert proof.floor == 1e-15
    assert proof.row_errors == row_errors(problem, state)
    assert (proof.weakest_row, proof.strongest_spare) == (0.1, 3e-9)


def test_a_certificate_without_spare_rows_says_so() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    assert certify(problem, state_at(problem, X), costs=(1.0,), spare=()).strongest_spare is None


def test_separation_is_the_least_share_of_hyperplanes_between_two_rows() -> None:
    X = sphere_rows(N, D)
    X = torch.cat([X, X[:1] + 0.05 * drawn(1, D, seed=3)])
    problem = planted(X, p=P, nuisance=False)
    X = problem.on_sphere(X)
    side = matrix_of(problem) @ X.T > 0
    between = (side[:, 0] ^ side[:, N]).sum() / (P * float((X[0] @ X[N] / D).acos()) / math.pi)
    proof = certify(problem, state_at(problem, X), costs=(1.0,), spare=())
    assert proof.separation == pytest.approx(float(between))


@pytest.mark.parametrize("c", [0.5, 3.0])
def test_three_rows_on_one_line_that_stand_for_one_sample_are_not_certified(c: float) -> None:
    """phi(z) = max(z, 0) + tanh(z): phi(z) + phi(-z) = |z|, so c phi(x) = phi(c x) + phi(-c x) - c phi(-x) for every c > 0."""
    X = sphere_rows(N, D)
    problem = planted(X, p=P, activation="relu+tanh", free=True, nuisance=False)
    state = state_at(problem, torch.cat([X[1:], -X[:1], c * X[:1], -c * X[:1]]))
    costs = tuple(problem.removal_costs(state).tolist())
    proof = certify(problem, state, costs=costs, spare=())
    assert proof.loss < proof.floor  # they fit as well as the sample itself
    assert min(costs) > 1e-4
    status, reason = judge(proof, converged=True)
    assert status is Status.UNCERTIFIED
    assert "on one line" in reason
    true = state_at(problem, X)
    assert judge(certify(problem, true, costs=costs, spare=()), converged=True)[0] is Status.CERTIFIED


CERTAIN = Certificate(
    9000, 930, loss=1e-18, floor=1e-15, row_errors=(1e-9, 1e-3), weakest_row=1e-9, strongest_spare=1e-21, separation=1.0
)


def test_rows_that_rounding_could_imitate_prove_nothing() -> None:
    proof = Certificate(
        9000, 930, loss=1e-18, floor=1e-15, row_errors=(1e-9, 1e-3), weakest_row=5e-15, strongest_spare=1e-21, separation=1.0
    )
    status, reason = judge(proof, converged=True)
    assert status is Status.UNCERTIFIED
    assert "stand in for one sample" in reason
    assert judge(replace(proof, weakest_row=1e-9), converged=True)[0] is Status.CERTIFIED


FEW = int(MARGIN * 1000)  # equations that are just enough for 1000 unknowns

VERDICTS = [
    ({}, Status.CERTIFIED, "the loss is at the rounding floor with 9000 equations for 930 unknowns: a chance fit is impossible"),
    ({"loss": 1e-15}, Status.CERTIFIED, "chance fit is impossible"),  # at the floor
    ({"loss": 1.1e-15}, Status.STALLED, "the loss stays at 1.1e-15: a local minimum; try another --seed or more --starts"),
    ({"loss": 0.3, "weakest_row": 0.0}, Status.STALLED, "the loss stays at 3.0e-01: a local minimum"),
    ({"equations": FEW, "unknowns": 1000}, Status.CERTIFIED, "chance fit is impossible"),
    (
        {"equations": FEW - 1, "unknowns": 1000},
        Status.UNCERTIFIED,
        "the loss is zero but 1099 equations for 1000 unknowns would fit anything: more parameters than d*n are needed",
    ),
    (
        {"separation": 0.99 * SEPARATE},
        Status.UNCERTIFIED,
        "two rows lie nearly in one linear cell of the features, or on one line: a sample split in pieces would fit as well",
    ),
    ({"separation": SEPARATE}, Status.CERTIFIED, "chance fit is impossible"),
    ({"row_errors": (1e-9, 0.02, 0.02)}, Status.CERTIFIED, "chance fit is impossible"),
    ({"row_errors": (0.021, 0.02, 0.5)}, Status.UNCERTIFIED, "the loss is zero but 2 of 3 rows have error bars above 2%"),
    ({"weakest_row": 1e-13}, Status.CERTIFIED, "chance fit is impossible"),  # a hundred times the floor
    (
        {"weakest_row": 9e-14},
        Status.UNCERTIFIED,
        "the loss is zero but the weakest row costs 9.0e-14 of loss to remove, no more than rounding could: "
        "several such rows may stand in for one sample",
    ),
    # The first doubt is told.
    ({"equations": 10, "separation": 0.0, "weakest_row": 0.0}, Status.UNCERTIFIED, "would fit anything"),
    ({"separation": 0.0, "row_errors": (1.0,), "weakest_row": 0.0}, Status.UNCERTIFIED, "one linear cell"),
    ({"row_errors": (1.0,), "weakest_row": 0.0}, Status.UNCERTIFIED, "1 of 1 rows have error bars"),
]


@pytest.mark.parametrize(("changes", "status", "reason"), VERDICTS)
def test_every_rule_of_the_verdict(changes: dict[str, object], status: Status, reason: str) -> None:
    found, why = judge(replace(CERTAIN, **changes), converged=True)  # type: ignore[arg-type]
    assert found is status
    assert reason in why


@pytest.mark.parametrize(
    ("equations", "converged", "reason"),
    [
        (2199, False, "the loss stays at 1.0e-02 with as many rows as 2199 equations can pin down: p is probably not above d*n"),
        (2200, False, "a local minimum"),  # twice the margin: there was room for more rows
        (2199, True, "a local minimum"),
    ],
)
def test_a_search_that_stalls_with_all_the_rows_there_can_be_lacks_equations(equations: int, converged: bool, reason: str) -> None:
    status, why = judge(replace(CERTAIN, equations=equations, unknowns=1000, loss=1e-2), converged=converged)
    assert status is Status.STALLED
    assert reason in why


NOISY = replace(CERTAIN, loss=1e-4, weakest_row=1e-2)


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        (
            {},
            Status.UNCERTIFIED,
            "drift or rounding leaves a loss of 1.0e-04, so nothing is proved; the weakest row stands 10 times above the noise",
        ),
        ({"weakest_row": 1e-3}, Status.UNCERTIFIED, "the weakest row stands 1 times above the noise"),
        (
            {"weakest_row": 0.9e-3},
            Status.STALLED,
            "the weakest row does not stand out of the noise that a loss of 1.0e-04 leaves",
        ),
        (
            {"equations": FEW - 1, "unknowns": 1000},
            Status.STALLED,
            "only 1.10 equations per unknown: more parameters than d*n are needed",
        ),
        ({"equations": FEW - 1, "unknowns": 1000, "weakest_row": 0.0}, Status.STALLED, "equations per unknown"),
        # Without a floor above rounding it is a verdict like any other.
        ({"loss": 1e-15}, Status.CERTIFIED, "a chance fit is impossible"),
        ({"loss": 1e-15, "row_errors": (1.0,)}, Status.UNCERTIFIED, "1 of 1 rows have error bars above 2%"),
        ({"loss": 1e-15, "weakest_row": 0.0}, Status.STALLED, "does not stand out of the noise"),
    ],
)
def test_every_rule_of_the_verdict_on_noisy_weights(changes: dict[str, object], status: Status, reason: str) -> None:
    found, why = judge_noisy(replace(NOISY, **changes), noise=1e-3)  # type: ignore[arg-type]
    assert found is status
    assert reason in why
