"""Rounding, noise and pruning, in numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from exhume.auditing import AuditInputs
from exhume.auditing.mitigation.weight_edits import edited, last_step, noised, rounded, to_int8, without_features
from support.audit_cases import network_inputs, pipeline_inputs, state
from support.models import patients, relu_pipeline

W = np.random.default_rng(0).normal(size=(40, 50))


def test_noise_is_normal_and_relative_to_the_weights_size() -> None:
    noise = noised(W, size=0.1, seed=0) - W
    assert noise.std() == pytest.approx(0.1 * np.sqrt(np.mean(W**2)), rel=0.05)
    assert abs(noise.mean()) < 0.01
    np.testing.assert_allclose(noised(7 * W, size=0.1, seed=0) - 7 * W, 7 * noise, rtol=1e-9)
    assert not np.allclose(noised(W, size=0.1, seed=1) - W, noise)


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float16, 11), (torch.bfloat16, 8)])
def test_rounding_keeps_the_bits_of_the_dtype(dtype: torch.dtype, bits: int) -> None:
    error = np.abs(rounded(W, dtype=dtype) - W) / np.abs(W)
    assert error.max() <= 2.0**-bits
    assert error.max() > 2.0 ** -(bits + 2)
    np.testing.assert_array_equal(rounded(np.array([1.0, -0.5, 0.0]), dtype=dtype), [1.0, -0.5, 0.0])


def test_int8_has_255_levels_that_are_symmetric() -> None:
    held = to_int8(W)
    step = np.abs(W).max() / 127
    levels = held / step
    np.testing.assert_allclose(levels, np.round(levels), atol=1e-9)
    assert np.abs(levels).max() == pytest.approx(127)
    assert np.abs(held - W).max() <= step / 2 * (1 + 1e-9)
    np.testing.assert_array_equal(to_int8(-W), -held)


def test_int8_of_zeros_is_zeros() -> None:
    np.testing.assert_array_equal(to_int8(np.zeros((2, 2))), np.zeros((2, 2)))


def test_the_last_step_is_that_of_a_pipeline_or_the_estimator() -> None:
    model = pipeline_inputs().trained
    assert last_step(model) is model[-1]
    assert last_step(model[-1]) is model[-1]


def test_the_edit_of_a_pipeline_is_that_of_its_coefficients() -> None:
    inputs = pipeline_inputs()
    before = inputs.trained[-1].coef_.copy()
    changed = edited(inputs, lambda weights: 2 * weights)
    np.testing.assert_array_equal(changed.trained[-1].coef_, 2 * before)
    np.testing.assert_array_equal(inputs.trained[-1].coef_, before)  # the original stays
    assert replace(changed, trained=None) == replace(inputs, trained=None)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_edit_of_a_perceptron_is_that_of_all_its_layers() -> None:
    model = MLPRegressor(hidden_layer_sizes=(4, 3), max_iter=2, random_state=0).fit(*patients(6))
    changed = edited(replace(pipeline_inputs(), trained=model), lambda weights: 2 * weights).trained
    for new, old in zip(changed.coefs_, model.coefs_, strict=True):
        np.testing.assert_array_equal(new, 2 * old)
    np.testing.assert_array_equal(changed.intercepts_[0], model.intercepts_[0])


def test_the_edit_of_a_module_is_that_of_its_matrices_in_their_own_dtype() -> None:
    inputs = network_inputs(bias=True)
    before = state(inputs.trained)
    changed = edited(inputs, lambda weights: 2 * weights).trained.state_dict()
    for name, old in before.items():
        assert torch.equal(changed[name], 2 * old if name.endswith("weight") else old)
        assert changed[name].dtype == old.dtype
    assert torch.equal(inputs.trained.state_dict()["1.weight"], before["1.weight"])


def test_pruning_takes_the_weakest_features_out_of_every_output() -> None:
    inputs = network_inputs()
    pruned = without_features(inputs, head="3", share=0.25).trained.state_dict()["3.weight"]
    old = inputs.trained.state_dict()["3.weight"]
    gone = (pruned == 0).all(0)
    assert int(gone.sum()) == 40  # of 160
    assert old.norm(dim=0)[gone].max() <= old.norm(dim=0)[~gone].min()
    assert torch.equal(pruned[:, ~gone], old[:, ~gone])


def test_pruning_a_pipeline_keeps_the_shape_of_its_coefficients() -> None:
    model, _, _ = relu_pipeline(5)
    pruned = without_features(replace(pipeline_inputs(), trained=model), head=None, share=0.5).trained[-1].coef_
    assert pruned.shape == model[-1].coef_.shape
    assert (pruned == 0).sum() == 750
    assert np.abs(model[-1].coef_[pruned == 0]).max() <= np.abs(pruned[pruned != 0]).min()


def test_pruning_a_perceptron_takes_whole_units_out_of_its_last_layer() -> None:
    X, y = patients(8)
    model = make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(60,), max_iter=500, random_state=0)).fit(X, y)
    pruned = without_features(AuditInputs(model, (X, y)), head="2", share=0.5).trained
    assert int((pruned[-1].coefs_[-1] == 0).all(1).sum()) == 30
    assert (model[-1].coefs_[-1] != 0).all()
