"""scikit-learn models as subjects: the same answers, the same features, the right units, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge, RidgeClassifier, RidgeCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from exhume.auditing import RandomFeatureMap, Subject
from exhume.auditing.loaders.sklearn_models import load_skops, sklearn_subject
from exhume.data.arrays import Table
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from support.audit_cases import pipeline_inputs
from support.models import patients

X, Y = patients(8)
THREE = np.arange(8) % 3


def subject_of_model(model: Any, y: np.ndarray = Y, **settings: Any) -> Subject:
    return sklearn_subject(model, Table(X, np.asarray(y, dtype=float), tuple(f"c{i}" for i in range(30))), **settings)


def fitted(last: Any, y: np.ndarray = Y, features: Any = None, scaler: Any = None) -> Pipeline:
    return make_pipeline(scaler or StandardScaler(), features or RandomFeatureMap(60), last).fit(X, y)


@pytest.mark.parametrize(
    ("last", "y", "answer"),
    [
        (Ridge(alpha=0.1), Y, "predict"),
        (RidgeCV(), Y, "predict"),
        (LinearRegression(), Y, "predict"),
        (RidgeClassifier(), Y, "decision_function"),
        (RidgeClassifier(), THREE, "decision_function"),
        (LogisticRegression(), Y, "decision_function"),
    ],
)
@pytest.mark.parametrize("features", [RandomFeatureMap(60), RBFSampler(gamma=0.02, n_components=60, random_state=0)])
def test_outputs_are_those_of_the_model(last: Any, y: np.ndarray, answer: str, features: Any) -> None:
    model = fitted(last, y, features)
    subject = subject_of_model(model, y)
    expected = getattr(model, answer)(X)
    np.testing.assert_allclose(subject.outputs(subject.truth.rows).numpy(), expected.reshape(8, -1), rtol=1e-9, atol=1e-9)
    assert subject.about == f"60 features of a {type(features).__name__} under a {type(last).__name__}"


@pytest.mark.parametrize("features", [RandomFeatureMap(60), RBFSampler(gamma=0.02, n_components=60, random_state=0)])
def test_the_release_holds_the_same_model_in_the_attackers_units(features: Any) -> None:
    """theta phi(rows) + offset, with phi computed by the release's own features, is what the pipeline predicts."""
    model = fitted(Ridge(alpha=0.1), features=features)
    subject = subject_of_model(model)
    release = subject.release
    (Phi,) = release.model.feature_blocks(release.trained)(subject.rows_for(subject.truth.rows))
    np.testing.assert_allclose((release.weights @ Phi).numpy()[0] + release.facts.offset, model.predict(X), rtol=1e-9)
    V = release.trained["first.weight"]
    assert float(V.square().mean()) == pytest.approx(1 / 30, rel=0.1)  # attacks expect entries of variance 1 / d
    assert release.features_stayed


def test_facts_are_the_penalty_the_intercept_and_labels_of_one_size() -> None:
    model = fitted(Ridge(alpha=0.1))
    facts = subject_of_model(model, knowledge=Knowledge(n=True)).release.facts
    assert (facts.n, facts.penalty, facts.label_size, facts.pruned) == (8, 0.1, 1.0, False)
    assert facts.offset == pytest.approx(float(model[-1].intercept_))
    hidden = subject_of_model(model, knowledge=Knowledge(labels=False)).release.facts
    assert (hidden.n, hidden.label_size) == (None, None)
    chosen = fitted(RidgeCV(alphas=(0.5, 5.0)))
    assert subject_of_model(chosen).release.facts.penalty == chosen[-1].alpha_


@pytest.mark.parametrize(
    ("last", "y", "size"),
    [
        (Ridge(), 2 * Y, 2.0),
        (Ridge(), np.arange(8.0), None),
        (RidgeClassifier(), np.where(Y > 0, 7, 3), 1.0),  # it fits -1 and +1, whatever the classes are called
        (RidgeClassifier(class_weight="balanced"), Y, None),
        (LogisticRegression(), Y, None),
        (RidgeClassifier(), THREE, None),
    ],
)
def test_label_sizes_tell_lengths_only_where_every_sample_has_the_same(last: Any, y: np.ndarray, size: float | None) -> None:
    assert subject_of_model(fitted(last, y), y).release.facts.label_size == size


def test_features_whose_weights_are_all_zero_were_pruned() -> None:
    model = fitted(Ridge())
    model[-1].coef_[:20] = 0
    release = subject_of_model(model).release
    assert release.facts.pruned
    assert int(release.alive.sum()) == 40


def test_classes_are_named_in_the_order_of_the_outputs() -> None:
    assert subject_of_model(fitted(RidgeClassifier(), THREE + 4), THREE + 4).classes == (4.0, 5.0, 6.0)
    assert subject_of_model(fitted(RidgeClassifier())).classes == ()  # one output for two classes


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()])
def test_rows_behind_a_scaler_are_shown_in_their_own_units(scaler: Any) -> None:
    model = fitted(Ridge(), scaler=scaler)
    truth = subject_of_model(model).truth
    np.testing.assert_allclose(truth.rows.numpy(), model[0].transform(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(truth.raw(truth.rows).numpy(), X, rtol=1e-9)
    assert truth.columns[:2] == ("c0", "c1")


@pytest.mark.parametrize("scaler", [PCA(4), FunctionTransformer(np.log1p)])
def test_rows_behind_other_steps_are_components(scaler: Any) -> None:
    model = fitted(Ridge(), scaler=scaler)
    truth = subject_of_model(model).truth
    np.testing.assert_allclose(truth.raw(truth.rows).numpy(), model[0].transform(X), rtol=1e-9, atol=1e-9)
    assert truth.columns[:2] == ("component 0", "component 1")


def test_held_out_rows_go_through_the_same_steps() -> None:
    model = fitted(Ridge())
    others, labels = patients(5, 50)
    np.testing.assert_allclose(subject_of_model(model).encode(others, labels).rows.numpy(), model[0].transform(others), rtol=1e-9)


@pytest.mark.parametrize(("activation", "unit"), [("relu", lambda z: np.maximum(z, 0)), ("tanh", np.tanh), ("logistic", expit)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_perceptron_is_a_network_with_the_same_features_and_answers(activation: str, unit: Any) -> None:
    model = make_pipeline(
        StandardScaler(), MLPRegressor(hidden_layer_sizes=(20,), activation=activation, max_iter=3, random_state=0)
    ).fit(X, Y)
    subject = subject_of_model(model)
    np.testing.assert_allclose(subject.outputs(subject.truth.rows).numpy()[:, 0], model.predict(X), rtol=1e-9)
    release = subject.release
    (Phi,) = release.model.feature_blocks(release.trained)(subject.rows_for(subject.truth.rows))
    expected = unit(model[0].transform(X) @ model[-1].coefs_[0] + model[-1].intercepts_[0])
    np.testing.assert_allclose(Phi.T.numpy(), expected, rtol=1e-9, atol=1e-12)
    assert not release.initial  # scikit-learn keeps none
    np.testing.assert_allclose(subject.truth.raw(subject.truth.rows).numpy(), X, rtol=1e-9)


def _sparse() -> Pipeline:
    """A pipeline whose first step gives sparse rows, as those of texts do."""
    return Pipeline([("sparse", TfidfTransformer().fit(X)), *fitted(Ridge(), scaler=FunctionTransformer()).steps[1:]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_pipeline(StandardScaler(), RandomFeatureMap(5), Ridge()), "the Ridge is not fitted. Call fit first"),
        (lambda: fitted(Lasso()), "expected a pipeline that ends in RBFSampler or RandomFeatureMap .* -> Lasso"),
        (lambda: make_pipeline(StandardScaler(), Ridge()).fit(X, Y), "got StandardScaler -> Ridge"),
        (lambda: Ridge().fit(X, Y), "got Ridge"),
        (lambda: make_pipeline(RandomFeatureMap(5), Ridge()).fit(X[:, :4], Y), "fitted on 4 columns, the data have 30"),
        (_sparse, "give no dense array"),
        (
            lambda: MLPClassifier(hidden_layer_sizes=(3,), activation="identity", max_iter=1).fit(X, Y),
            "identity activation is a linear model",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_models_that_hold_no_samples_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        subject_of_model(make())


def test_steps_that_do_nothing_are_passed_over() -> None:
    model = Pipeline([("nothing", "passthrough"), ("features", RandomFeatureMap(60)), ("last", Ridge())]).fit(X, Y)
    subject = subject_of_model(model)
    np.testing.assert_allclose(subject.truth.rows.numpy(), X)
    np.testing.assert_allclose(subject.outputs(torch.as_tensor(X)).numpy()[:, 0], model.predict(X), rtol=1e-6)


def test_a_stored_pipeline_comes_back(tmp_path: Path) -> None:
    io = pytest.importorskip("skops.io", reason="skops is not installed: pip install 'exhume[sklearn]'")
    model = pipeline_inputs().trained
    io.dump(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(load_skops(tmp_path / "model.skops").predict(X), model.predict(X))
    with pytest.raises(ExhumeError, match="is not a file"):
        load_skops(tmp_path / "absent.skops")
