"""Models trained again with a change: the right penalty, the right size, the right start, and privacy that costs digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from exhume.auditing import AuditInputs, RandomFeatureMap, Subject, subject_of
from exhume.auditing.mitigation.retraining import with_decay, with_dp, with_head
from exhume.errors import ExhumeError
from support.audit_cases import network_case, network_inputs, pipeline_case, pipeline_inputs, state
from support.models import digit_pictures, patients, two_layer

X, Y = patients(6)


def pipeline(last: Any) -> AuditInputs:
    return AuditInputs(make_pipeline(StandardScaler(), RandomFeatureMap(90), last).fit(X, Y), (X, Y))


def flat() -> nn.Module:
    """A network that takes pictures as rows."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10))


def fits(inputs: AuditInputs) -> bool:
    X, y = inputs.data
    model = inputs.trained
    rows = torch.as_tensor(X, dtype=next(model.parameters()).dtype)
    rows = rows.flatten(1) if isinstance(model[0], nn.Linear) else rows
    return bool((model(rows).argmax(1) == torch.as_tensor(y)).all())


def test_a_ridge_is_fitted_again_under_a_larger_penalty() -> None:
    inputs = pipeline(Ridge(alpha=0.5))
    changed = with_decay(inputs, pipeline_case()[0], 100.0).trained
    expected = make_pipeline(StandardScaler(), RandomFeatureMap(90), Ridge(alpha=50.0)).fit(X, Y)
    np.testing.assert_allclose(changed.predict(X), expected.predict(X))
    assert inputs.trained[-1].alpha == 0.5


@pytest.mark.parametrize(("last", "setting", "value"), [(LogisticRegression(C=2.0), "C", 0.02), (Ridge(alpha=0.0), "alpha", 1e-4)])
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")  # of fitting without a penalty
def test_other_penalties_are_raised_too(last: Any, setting: str, value: float) -> None:
    changed = with_decay(pipeline(last), pipeline_case()[0], 100.0).trained[-1]
    assert getattr(changed, setting) == pytest.approx(value)


def test_a_model_without_a_penalty_is_refused() -> None:
    with pytest.raises(ExhumeError, match="a LinearRegression has no penalty to raise"):
        with_decay(pipeline(LinearRegression()), pipeline_case()[0], 100.0)


def test_a_pipeline_gets_fewer_features() -> None:
    changed = with_head(pipeline(Ridge()), pipeline_case()[0], 17).trained
    assert changed[-1].coef_.shape == (17,)
    assert changed.predict(X).shape == (6,)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_perceptron_cannot_be_made_smaller_or_private_here() -> None:
    inputs = AuditInputs(make_pipeline(StandardScaler(), MLPRegressor(max_iter=1)).fit(X, Y), (X, Y))
    with pytest.raises(ExhumeError, match="only random features can be made fewer here"):
        with_head(inputs, pipeline_case()[0], 17)
    with pytest.raises(ExhumeError, match="DP-SGD is run here on linear models over random features and on torch modules"):
        with_dp(inputs, pipeline_case()[0], 1.0, 0.1, 0)


def test_a_network_with_fewer_units_fits_its_labels_and_has_a_start_of_its_own() -> None:
    changed = with_head(network_inputs(), network_case(), 50)
    assert changed.trained[1].weight.shape == (50, 64)
    assert fits(changed)
    assert changed.init[1].weight.shape == (50, 64)
    assert not torch.equal(changed.init[1].weight, changed.trained[1].weight)
    assert with_head(replace(network_inputs(), init=None), network_case(), 50).init is None


def test_other_networks_cannot_be_made_smaller_here() -> None:
    X, y = digit_pictures(4)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 10))
    inputs = AuditInputs(net, (X, y))
    with pytest.raises(ExhumeError, match="cannot be made smaller here; train a smaller one and audit that"):
        with_head(inputs, subject_of(inputs)[0], 5)


@cache
def _digit_case(name: str) -> tuple[AuditInputs, Subject]:
    """Networks in single and double precision, fed with pictures and with rows."""
    nets: dict[str, Callable[[], nn.Module]] = {
        "double": lambda: two_layer(40),
        "single": lambda: two_layer(40).float(),
        "flat": flat,
        "flat double": lambda: flat().double(),
    }
    inputs = AuditInputs(nets[name](), digit_pictures(4))
    return inputs, subject_of(inputs)[0]


NETS = ["double", "single", "flat", "flat double"]


@pytest.mark.parametrize("name", NETS)
def test_every_network_is_trained_again_under_decay(name: str) -> None:
    inputs, subject = _digit_case(name)
    changed = with_decay(inputs, subject, 1.0)
    assert fits(changed)
    assert next(changed.trained.parameters()).dtype == next(inputs.trained.parameters()).dtype


def test_decay_shrinks_the_weights() -> None:
    weak, strong = (with_decay(network_inputs(), network_case(), factor).trained for factor in (1.0, 1e4))
    sizes = [float(sum(p.detach().square().sum() for p in net.parameters())) for net in (weak, strong)]
    assert sizes[1] < 0.9 * sizes[0]


def test_training_begins_at_the_weights_before_training() -> None:
    """Training moves the first layer of a wide network by little, so that it shows where it began."""
    start = {name: 2 * value for name, value in state(two_layer(160, bias=False)).items()}
    trained = with_decay(replace(network_inputs(), init=start), network_case(), 1.0).trained
    drift = (trained[1].weight.detach() - start["1.weight"]).norm() / start["1.weight"].norm()
    assert 0 < float(drift) < 0.2


@cache
def private(epsilon: float, seed: int) -> np.ndarray:
    """The coefficients of the pipeline's last layer, trained privately."""
    pytest.importorskip("opacus", reason="opacus is not installed: pip install 'exhume[dp]'")
    return with_dp(pipeline_inputs(), pipeline_case()[0], epsilon, 0.1, seed).trained[-1].coef_


@pytest.mark.parametrize("name", ["double", "flat"])
def test_a_network_is_trained_privately_as_a_whole(name: str) -> None:
    pytest.importorskip("opacus", reason="opacus is not installed: pip install 'exhume[dp]'")
    inputs, subject = _digit_case(name)
    before = state(inputs.trained)
    changed = with_dp(inputs, subject, 8.0, 0.1, 0).trained
    assert set(changed.state_dict()) == set(before)
    assert not any(torch.equal(value, before[key]) for key, value in changed.state_dict().items())
    assert all(torch.equal(value, before[key]) for key, value in inputs.trained.state_dict().items())
    assert subject_of(replace(inputs, trained=changed))[0].release.k == 10  # it can be audited


def test_the_last_layer_of_a_pipeline_is_trained_privately() -> None:
    assert private(1.0, 0).shape == pipeline_inputs().trained[-1].coef_.shape
    again = with_dp(pipeline_inputs(), pipeline_case()[0], 1.0, 0.1, 0).trained[-1].coef_
    np.testing.assert_array_equal(private(1.0, 0), again)


def test_a_smaller_epsilon_is_more_noise() -> None:
    noise = [np.abs(private(epsilon, 0) - private(epsilon, 1)).mean() for epsilon in (50.0, 1.0)]
    assert noise[1] > 3 * noise[0]
