"""What is said of a model before any attack, against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from exhume.auditing import AuditInputs, RandomFeatureMap, Subject, subject_of
from exhume.auditing.preflight import Preflight, preflight, training_error
from exhume.knowledge import Knowledge
from support.audit_cases import network_case, network_inputs, pipeline_case, pipeline_law, vectors
from support.models import digit_pictures, patients


def test_the_law_counts_the_pipelines_parameters() -> None:
    law = pipeline_law()
    assert (law.p, law.d, law.n, law.ratio) == (1500, 30, 5, 10.0)
    assert law.equations_per_unknown == pytest.approx(1500 / (5 * 30))
    assert (law.determined, law.outcome, law.interpolates) == (True, "expected", True)
    assert law.weights_per_coordinate == 10.0
    assert law.warnings == ()


def test_all_outputs_count_and_so_do_the_other_layers_that_moved() -> None:
    law = preflight(network_case())
    assert law.p == 160 * 10
    assert law.weights_per_coordinate == (160 * 64 + 160 * 10) / (64 * 4)
    assert law.first_layer_rank == 4  # as many as there are samples


def test_outputs_that_repeat_each_other_give_no_equations() -> None:
    """Targets of three classes add up to a constant, so that the weights of two outputs tell those of the third."""
    iris = load_iris()
    X, y = iris.data[::12], iris.target[::12]
    model = make_pipeline(StandardScaler(), RandomFeatureMap(300), RidgeClassifier(alpha=1e-3)).fit(X, y)
    law = preflight(subject_of(AuditInputs(model, (X, y)))[0])
    assert law.p == 900
    assert law.equations_per_unknown == pytest.approx(600 / (13 * 4))


def test_the_effective_dimension_carries_99_percent_of_the_energy() -> None:
    subject = pipeline_case()[0]
    energy = np.linalg.svd(subject.truth.rows.numpy(), compute_uv=False) ** 2
    law = preflight(subject)
    r = law.effective_dimension
    assert energy[:r].sum() >= 0.99 * energy.sum() > energy[: r - 1].sum()
    assert law.ratio_effective == 1500 / (r * 5)
    # Rows in two directions, the second of which carries less than a hundredth.
    rows = torch.zeros(4, 30, dtype=torch.float64)
    rows[:, 0], rows[:, 1] = 1.0, torch.tensor([0.09, -0.09, 0.09, -0.09])
    assert preflight(replace(subject, truth=replace(vectors(rows), shape=(30,)))).effective_dimension == 1


def test_conditioning_and_drift_are_those_of_the_training_features() -> None:
    inputs, subject = network_inputs(), network_case()
    X = inputs.data[0].reshape(4, -1)
    assert inputs.init is not None
    before, after = (np.maximum(X @ W["1.weight"].numpy().T, 0) for W in (inputs.init, inputs.trained.state_dict()))
    values = np.linalg.eigvalsh(after @ after.T)
    law = preflight(subject)
    assert law.conditioning == pytest.approx(values[-1] / values[0], rel=1e-6)
    assert law.drift == pytest.approx(np.linalg.norm(after - before) / np.linalg.norm(before))
    assert pipeline_law().drift == 0


def test_an_unknown_start_is_named_and_leaves_the_drift_open() -> None:
    law = preflight(subject_of(network_inputs(), Knowledge(init="none"))[0])
    assert law.drift is None
    assert law.first_layer_rank is None
    assert "weights before training are not known: the last layer's start acts as noise" in law.warnings


def test_features_that_moved_far_and_labels_that_are_missed_are_named() -> None:
    inputs = network_inputs()
    far = {name: value + 0.3 * torch.randn_like(value) for name, value in inputs.trained.state_dict().items()}
    X, y = inputs.data
    law = preflight(subject_of(AuditInputs(inputs.trained, (X, 9 - y), init=far))[0])
    assert law.drift is not None
    assert law.drift > 0.3
    assert any("features moved by" in warning for warning in law.warnings)
    assert any("misses labels of the data given (error 1)" in warning for warning in law.warnings)
    assert not law.interpolates


def _answering(outputs: list[list[float]], labels: list[float], classes: tuple[float, ...] = ()) -> Subject:
    """A model whose answers are given, on data with these labels."""
    answers = torch.tensor(outputs, dtype=torch.float64)
    truth = vectors(torch.ones(len(labels), 30), labels)
    return replace(pipeline_case()[0], truth=truth, outputs=lambda _: answers, classes=classes)


@pytest.mark.parametrize(
    ("outputs", "labels", "classes", "expected"),
    [
        ([[0.1, 0.9], [0.8, 0.2], [0.3, 0.4]], [7, 3, 3], (3.0, 7.0), (1 / 3, False)),  # the largest output is the class
        ([[0.1, 0.9], [0.8, 0.2]], [7, 3], (3.0, 7.0), (0.0, True)),
        ([[2.0], [-1.0], [0.5], [0.1]], [1, -1, 1, -1], (), (0.25, False)),  # margins part at zero
        ([[0.2], [0.9], [0.3]], [0, 1, 0], (), (0.0, True)),  # regression on labels parts at their middle
        ([[4.0], [0.6]], [3, 1], (), (0.0, True)),
    ],
)
def test_the_training_error_of_classes_is_the_share_missed(
    outputs: list, labels: list, classes: tuple, expected: tuple[float, bool]
) -> None:
    subject = _answering(outputs, labels, classes)
    error, fits = training_error(subject, subject.truth)
    assert (error, fits) == (pytest.approx(expected[0]), expected[1])


def test_the_training_error_of_a_regression_is_relative_to_the_labels_spread() -> None:
    labels, answers = np.array([1.0, 2.0, 4.0, 9.0]), np.array([1.5, 2.0, 4.0, 8.0])
    subject = _answering([[v] for v in answers], labels.tolist())
    expected = np.sqrt(np.mean((answers - labels) ** 2)) / labels.std(ddof=1)
    assert training_error(subject, subject.truth) == (pytest.approx(expected), False)
    exact = _answering([[v] for v in labels + 1e-3], labels.tolist())
    assert training_error(exact, exact.truth)[1]


def test_one_sample_has_no_spread_and_is_compared_with_its_label() -> None:
    subject = _answering([[2.02]], [2.0])
    assert training_error(subject, subject.truth) == (pytest.approx(0.01), True)


def test_signs_and_lengths_are_told_by_what_leaves_a_trace() -> None:
    pipeline, network = pipeline_law(), preflight(network_case())
    assert pipeline.scale == "from labels that are fitted and of known size"
    assert network.scale == "from labels that are fitted and of known size"
    assert preflight(network_case(bias=True)).scale == "read off the biases"
    blind = preflight(subject_of(network_inputs(), Knowledge(labels=False))[0])
    assert blind.scale == "from the range of pixels"
    nothing = preflight(subject_of(network_inputs(), Knowledge(labels=False, statistics=False))[0])
    assert nothing.scale.startswith("lost: ")


def test_features_that_see_lengths_say_so() -> None:
    X, y = patients(5)
    model = make_pipeline(StandardScaler(), RBFSampler(n_components=300, random_state=0), Ridge()).fit(X, y)
    law = preflight(subject_of(AuditInputs(model, (X, y)))[0])
    assert not law.scale.startswith(("lost", "from"))
    assert 20_000 * 1e-6 < law.seconds < 20_000 * 1.0  # so many passes, each of which takes between a microsecond and a second


def test_an_attack_on_a_module_takes_some_thousand_passes() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.Tanh(), nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 10))
    assert 3000 * 1e-6 < preflight(subject_of(AuditInputs(net, digit_pictures(4)))[0]).seconds < 3000 * 1.0


@pytest.mark.parametrize(("middle", "expected"), [(nn.Identity(), "from fitted labels"), (nn.Tanh(), "in the features")])
def test_a_module_taken_whole_is_judged_by_whether_it_grows_with_its_inputs(middle: nn.Module, expected: str) -> None:
    X, y = digit_pictures(3)
    torch.manual_seed(0)
    layers = [nn.Flatten(), nn.Linear(64, 20, bias=False), nn.ReLU(), nn.Linear(20, 30, bias=False), nn.ReLU()]
    net = nn.Sequential(*layers, middle, nn.Linear(30, 10, bias=False)).double()
    features = net[:-1](torch.as_tensor(X)).detach()
    net[-1].weight.data = (torch.linalg.pinv(features) @ nn.functional.one_hot(torch.as_tensor(y), 10).double()).T
    assert preflight(subject_of(AuditInputs(net, (X, y)))[0]).scale == expected


@pytest.mark.parametrize(
    ("weights", "ratio", "outnumbered"), [(0.5, 0.5, True), (1.0, 0.2, True), (5.0, 0.2, False), (3.0, 3.0, True)]
)
def test_samples_are_outnumbered_unless_other_layers_hold_more(weights: float, ratio: float, outnumbered: bool) -> None:
    law: Preflight = replace(pipeline_law(), weights_per_coordinate=weights, ratio=ratio)
    assert law.outnumbered is outnumbered
