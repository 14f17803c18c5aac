"""Norms of rows: labels of known size against their closed form, with trained victims in the place of the truth."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import Ridge

from exhume.architectures import NetworkSpec, describe_network, initial_parameters
from exhume.attacks.proof.norms import norms_of_network, norms_of_span
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.data import Dataset
from exhume.features import RandomFeatures
from exhume.knowledge import Facts, Knowledge
from exhume.release import Release
from exhume.victims import NetworkVictim, RandomFeaturesVictim
from support.planted import features_of, phi, sphere_rows
from support.problems import state_at

D, N, P = 12, 6, 600


def rows_of_many_norms(n: int = N, d: int = D) -> torch.Tensor:
    """Rows whose norms differ up to fourfold."""
    return sphere_rows(n, d) * torch.linspace(0.5, 2.0, n, dtype=torch.float64)[:, None]


def on_the_sphere(X: torch.Tensor) -> torch.Tensor:
    return X * (math.sqrt(X.shape[1]) / X.norm(dim=1, keepdim=True))


def labels(n: int = N, size: float = 1.0) -> torch.Tensor:
    return size * torch.where(torch.arange(n) % 3 == 0, 1.0, -1.0).double()


def ridge_weights(Phi: torch.Tensor, y: torch.Tensor, penalty: float) -> torch.Tensor:
    """theta = Phi (Phi^T Phi + penalty I)^-1 y, for features (p, n)."""
    return Phi @ torch.linalg.solve(Phi.T @ Phi + penalty * torch.eye(len(y), dtype=torch.float64), y)


def found_by_span(features: RandomFeatures, theta: torch.Tensor, X: torch.Tensor, facts: Facts) -> tuple[torch.Tensor, str]:
    """The norms that the weights give to rows of the right directions."""
    problem = BlockwiseSpan(features, theta[None], radius=math.sqrt(X.shape[1]), nuisance=False)
    return norms_of_span(problem, state_at(problem, on_the_sphere(X)), facts)


@pytest.mark.parametrize("size", [1.0, 0.3, 7.0])
@pytest.mark.parametrize("ridge", [0.0, 1e-2, 3.0])
@pytest.mark.parametrize("told", ["n", "penalty", "neither"])
def test_labels_of_known_size_give_the_norms(size: float, ridge: float, told: str) -> None:
    X, features = rows_of_many_norms(), features_of(D, P)
    theta = ridge_weights(phi(features, X), labels(size=size), N * ridge)
    facts = {
        "n": Facts(n=N, label_size=size, ridge=ridge),
        "penalty": Facts(n=999, label_size=size, ridge=123.0, penalty=N * ridge),  # the product counts, where it is known
        "neither": Facts(label_size=size, ridge=ridge),  # n is then the number of rows found
    }[told]
    found, scale = found_by_span(features, theta, X, facts)
    assert scale == "from labels"
    torch.testing.assert_close(found, X, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("offset", [0.4, -0.9, 1.5, -2.5])
@pytest.mark.parametrize("penalty", [0.0, 2.0])
def test_a_released_intercept_is_taken_from_the_labels(offset: float, penalty: float) -> None:
    """Beyond the labels (|offset| > 1) both of them lie on one side of the intercept, and rows near the sphere tell which."""
    X, features = sphere_rows(N, D) * torch.linspace(0.9, 1.1, N, dtype=torch.float64)[:, None], features_of(D, P)
    theta = ridge_weights(phi(features, X), labels() - offset, penalty)
    found, scale = found_by_span(features, theta, X, Facts(label_size=1.0, penalty=penalty, offset=offset))
    assert scale == "from labels"
    torch.testing.assert_close(found, X, rtol=1e-8, atol=1e-8)


def test_of_two_labels_on_one_side_the_nearer_length_is_taken() -> None:
    """theta phi(u) = 1, offset -2: c = (y + 2) / 1 is 3 for y = 1 and 1 for y = -1; both fit, and 1 needs no stretch."""
    X, features = sphere_rows(1, D), features_of(D, P)
    theta = ridge_weights(phi(features, X), torch.ones(1, dtype=torch.float64), 0.0)
    found, _ = found_by_span(features, theta, X, Facts(label_size=1.0, offset=-2.0))
    torch.testing.assert_close(found, X)


def test_with_a_ridge_both_roots_fit_and_the_one_nearer_to_its_label_is_taken() -> None:
    """c^2 f - c y + penalty a = 0 has two positive roots; f c lies above y / 2 at the larger one."""
    X, features = sphere_rows(1, D), features_of(D, P)
    energy = float(phi(features, X).square().sum())
    weak, strong = (ridge_weights(phi(features, X), torch.ones(1, dtype=torch.float64), share * energy) for share in (0.25, 4.0))
    facts = Facts(label_size=1.0, penalty=0.25 * energy)
    torch.testing.assert_close(found_by_span(features, weak, X, facts)[0], X)  # f = 0.8 of its label
    found, _ = found_by_span(features, strong, X, replace(facts, penalty=4.0 * energy))  # f = 0.2 of it
    torch.testing.assert_close(found, 4.0 * X)  # f = 0.8 of it as well, at four times the length


def test_labels_that_no_length_can_reach_leave_norms_unknown() -> None:
    X, features = rows_of_many_norms(), features_of(D, P)
    theta = ridge_weights(phi(features, X), labels(), 0.0)
    found, scale = found_by_span(features, theta, X, Facts(label_size=1.0, penalty=1e9))
    assert scale == "unknown"
    assert torch.equal(found, on_the_sphere(X))


@pytest.mark.parametrize(
    ("activation", "facts", "scale"),
    [
        ("relu", Facts(label_size=1.0, input_norm=3.0), "known norm"),
        ("tanh", Facts(label_size=1.0), "fitted"),  # features see the norm
        ("relu", Facts(), "unknown"),
        ("relu", Facts(label_size=1.0, ridge=None), "unknown"),  # how far labels are fitted is not known
    ],
)
def test_rows_stay_where_labels_are_not_needed_or_not_enough(activation: str, facts: Facts, scale: str) -> None:
    X, features = rows_of_many_norms(), features_of(D, P, activation)
    theta = ridge_weights(phi(features, X), labels(), 0.0)
    found, said = found_by_span(features, theta, X, facts)
    assert said == scale
    assert torch.equal(found, on_the_sphere(X))


def test_several_outputs_have_no_label_of_one_size() -> None:
    X, features = rows_of_many_norms(), features_of(D, P)
    theta = torch.stack([ridge_weights(phi(features, X), labels(), 0.0)] * 2)
    problem = BlockwiseSpan(features, theta, radius=math.sqrt(D), nuisance=False)
    assert norms_of_span(problem, state_at(problem, on_the_sphere(X)), Facts(label_size=1.0))[1] == "unknown"


def dataset(X: torch.Tensor, y: torch.Tensor, *, pictures: bool = False) -> Dataset:
    zero, one, d = torch.zeros(X.shape[1]).double(), torch.ones(X.shape[1]).double(), X.shape[1]
    size = float(y[0].abs()) if bool((y.abs() == y[0].abs()).all()) else None
    return Dataset("own", X, y, "image" if pictures else "vector", zero, one, (1, 3, d // 3) if pictures else (d,), label_size=size)


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("n_known", [True, False])
def test_a_trained_victim_gives_its_norms(ridge: float, n_known: bool) -> None:
    X = rows_of_many_norms()
    victim = RandomFeaturesVictim(p=P, ridge=ridge, knowledge=Knowledge(n=n_known))
    release = victim.train(dataset(X, labels(size=2.0))).release
    found, scale = found_by_span(features_of(D, P), release.weights[0], X, release.facts)
    assert scale == "from labels"
    torch.testing.assert_close(found, X, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("alpha", [1e-6, 5.0])
def test_a_ridge_regression_of_scikit_learn_gives_its_norms(alpha: float) -> None:
    X, features = rows_of_many_norms(), features_of(D, P)
    model = Ridge(alpha=alpha, solver="svd").fit(phi(features, X).T.numpy(), labels().numpy())
    facts = Facts(label_size=1.0, penalty=alpha, offset=float(model.intercept_))
    found, scale = found_by_span(features, torch.as_tensor(model.coef_), X, facts)
    assert scale == "from labels"
    torch.testing.assert_close(found, X, rtol=1e-5, atol=1e-5)


def fitted_network(
    X: torch.Tensor, targets: torch.Tensor, facts: Facts, *, bias: list[float] | None = None, activation: str = "relu"
) -> Release:
    """A two-layer network whose last layer is solved so that outputs at X are the targets."""
    k = targets.shape[1]
    spec = replace(describe_network("two-layer", (D,), outputs=k, last_layer=200 * k), activation=activation)
    spec = replace(spec, head_biased=bias is not None)
    trained = initial_parameters(spec, seed=0, dtype=torch.float64)
    offset = torch.zeros(k, dtype=torch.float64) if bias is None else torch.tensor(bias, dtype=torch.float64)
    Phi = spec.features_at(trained, dtype=torch.float64).value(X)  # (n, p)
    trained["head.weight"] = torch.linalg.lstsq(Phi, targets - offset, driver="gelsd").solution.T.contiguous()
    if bias is not None:
        trained["head.bias"] = offset
    return Release(trained["head.weight"], spec, facts, trained)


ONE_HOT = torch.eye(3, dtype=torch.float64)[torch.arange(N) % 3]


@pytest.mark.parametrize("bias", [None, [0.1, -0.2, 0.3]])
def test_one_hot_targets_give_the_norms(bias: list[float] | None) -> None:
    X = rows_of_many_norms()
    found, scale = norms_of_network(fitted_network(X, ONE_HOT, Facts(one_hot=True), bias=bias), on_the_sphere(X))
    assert scale == "from labels"
    torch.testing.assert_close(found, X, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("bias", [None, [0.25]])
@pytest.mark.parametrize("size", [1.0, 4.0])
def test_targets_of_one_size_give_the_norms_of_a_network(bias: list[float] | None, size: float) -> None:
    X = rows_of_many_norms()
    release = fitted_network(X, labels(size=size)[:, None], Facts(label_size=size), bias=bias)
    found, scale = norms_of_network(release, on_the_sphere(X))
    assert scale == "from labels"
    torch.testing.assert_close(found, X, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("facts", "scale"),
    [
        (Facts(input_norm=2.5, label_size=1.0), "known norm"),
        (Facts(), "unknown"),
        (Facts(label_size=1.0, ridge=0.1), "unknown"),  # a decay has kept the outputs from their labels
        (Facts(input_range=(-2.0, 3.0)), "from range"),
        (Facts(label_size=1.0, ridge=0.1, input_range=(-2.0, 3.0)), "from range"),
    ],
)
def test_without_fitted_labels_a_network_leaves_norm_range_or_nothing(facts: Facts, scale: str) -> None:
    X = rows_of_many_norms()
    found, said = norms_of_network(fitted_network(X, labels()[:, None], facts), X)
    assert said == scale
    if scale == "known norm":
        torch.testing.assert_close(found.norm(dim=1), torch.full((N,), 2.5, dtype=torch.float64))
    elif scale == "unknown":
        assert torch.equal(found, X)
    else:  # every row touches black or white, and none goes beyond
        least, most = found.min(dim=1).values / -2.0, found.max(dim=1).values / 3.0
        torch.testing.assert_close(torch.maximum(least, most), torch.ones(N, dtype=torch.float64))
    torch.testing.assert_close(on_the_sphere(found), on_the_sphere(X))  # directions stay


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_a_network_that_sees_norms_has_fitted_them(activation: str) -> None:
    X = rows_of_many_norms()
    found, scale = norms_of_network(fitted_network(X, labels()[:, None], Facts(label_size=1.0), activation=activation), X)
    assert scale == "fitted"
    assert torch.equal(found, X)


def test_a_bias_before_the_features_makes_norms_count() -> None:
    spec = NetworkSpec("two-layer", (D,), 1, 50, 50, biased=True)
    trained = initial_parameters(spec, seed=0, dtype=torch.float64)
    release = Release(trained["head.weight"], spec, Facts(label_size=1.0), trained)
    assert norms_of_network(release, rows_of_many_norms())[1] == "fitted"


def test_a_row_that_leaves_the_range_by_far_ends_at_it() -> None:
    """Labels ten times too large would take every row to ten times its length; a little beyond the range is let be."""
    X = rows_of_many_norms()
    span = float(X.abs().max())
    release = fitted_network(X, labels()[:, None], Facts(label_size=10.0, input_range=(-span, span)))
    far, scale = norms_of_network(release, X)
    assert scale == "from labels"
    torch.testing.assert_close(far.abs().max(dim=1).values, torch.full((N,), span, dtype=torch.float64))
    tight = replace(release, facts=Facts(label_size=1.0, input_range=(-span / 1.05, span / 1.05)))
    torch.testing.assert_close(norms_of_network(tight, X)[0], X)


@pytest.mark.parametrize(("facts", "factor"), [(Facts(one_hot=True), 1.0), (Facts(one_hot=True, input_range=(-9.0, 9.0)), None)])
def test_an_output_that_points_to_no_class_says_nothing_about_the_length(facts: Facts, factor: float | None) -> None:
    X = rows_of_many_norms()
    found, scale = norms_of_network(fitted_network(X, -ONE_HOT - 0.1, facts), X)
    assert scale == "from labels"
    if factor is not None:
        torch.testing.assert_close(found, X)
    else:
        torch.testing.assert_close(found.abs().max(dim=1).values, torch.full((N,), 9.0, dtype=torch.float64))


@pytest.mark.parametrize("k", [1, 2])
def test_a_trained_network_gives_its_norms(k: int) -> None:
    X = rows_of_many_norms(4)
    y = labels(4) if k == 1 else (labels(4) + 1) / 2
    release = NetworkVictim("two-layer", 400 * k, k=k, train_to=1e-24).train(dataset(X, y)).release
    found, scale = norms_of_network(release, on_the_sphere(X))
    assert scale == "from labels"
    torch.testing.assert_close(found, X, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_pictures_whose_labels_have_no_size_touch_their_range(low: float) -> None:
    X = low + (1 - low) * torch.rand(4, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    X[:, 0] = 1.0  # a white pixel in every picture
    data = replace(dataset(X, torch.tensor([0.0, 1.0, 0.0, 1.0]).double(), pictures=True), mean=torch.full((D,), -low).double())
    data = replace(data, white=1.0 - low)
    assert data.input_range == (low, 1.0)
    release = NetworkVictim("two-layer", 800, k=2, loss="cross-entropy").train(data).release
    found, scale = norms_of_network(release, on_the_sphere(X))
    assert scale == "from range"
    torch.testing.assert_close(found, X)


@pytest.mark.parametrize("facts", [Facts(input_range=(0.0, 1.0)), Facts(input_range=(0.0, 1.0), one_hot=True)])
def test_pixels_from_zero_up_keep_rows_that_cross_zero_by_a_little(facts: Facts) -> None:
    """A row that an attack finds is never quite without negative pixels; they must not take its length to nothing."""
    X = torch.rand(N, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    X[:, 0], X[:, 1] = 1.0, -1e-6
    found, _ = norms_of_network(fitted_network(X, ONE_HOT, facts), on_the_sphere(X))
    torch.testing.assert_close(found, X)


def test_a_row_of_the_wrong_sign_gets_no_outlandish_length() -> None:
    X = torch.rand(N, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    X[:, 0], X[:, 1] = 1.0, -1e-6
    found, _ = norms_of_network(fitted_network(X, ONE_HOT, Facts(input_range=(0.0, 1.0))), -on_the_sphere(X))
    torch.testing.assert_close(found, -X)
