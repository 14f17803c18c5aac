"""scikit-learn models -> Subject: a random-feature step and a linear model, or a multi-layer perceptron, scalers before them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import linear_model
from sklearn.kernel_approximation import RBFSampler
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from torch import nn

from exhume.architectures import NetworkSpec
from exhume.auditing.loaders.torch_modules import torch_subject
from exhume.auditing.subject import Encode, Subject
from exhume.auditing.transformer import RandomFeatureMap
from exhume.data import Dataset
from exhume.data.arrays import Table
from exhume.data.model_inputs import model_inputs
from exhume.errors import ExhumeError
from exhume.knowledge import Facts, Knowledge
from exhume.release import Release
from exhume.storage.file_checks import check_zip, require_file

# Linear models whose weights are a combination of the training features.
LINEAR = (
    linear_model.Ridge,
    linear_model.RidgeCV,
    linear_model.LinearRegression,
    linear_model.LogisticRegression,
    linear_model.LogisticRegressionCV,
    linear_model.RidgeClassifier,
    linear_model.RidgeClassifierCV,
)
_MARGINS = (linear_model.LogisticRegression, linear_model.LogisticRegressionCV)
_UNITS = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid, "identity": nn.Identity}
# Pipelines may be compressed, but weights hardly shrink: a file that claims to unpack to more bytes than this, ...
_MOST_UNPACKED = 32 * 1024**3
# ... or to this many times its size, is refused.
_MOST_RATIO = 50
_TRUSTED = ["exhume.auditing.transformer.RandomFeatureMap"]


def load_skops(path: Path) -> Any:
    """A pipeline from a .skops file; types that skops does not vouch for are refused."""
    require_file(path, "model file")
    check_zip(path, "model file", most=_MOST_UNPACKED, ratio=_MOST_RATIO)
    try:
        from skops import io
    except ImportError:
        raise ExhumeError("reading .skops files needs skops. Run pip install 'exhume[sklearn]'.") from None
    try:
        strange = [kind for kind in io.get_untrusted_types(file=path) if kind not in _TRUSTED]
        if strange:
            raise ExhumeError(f"model file {path} was refused: it needs {', '.join(strange[:3])}, which could run code.")
        return io.load(path, trusted=_TRUSTED)
    except ExhumeError:
        raise
    except Exception as error:  # a hostile file can fail anywhere in the reader
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ExhumeError(f"model file {path} is not a skops file ({reason}). Write it with skops.io.dump.") from None


def sklearn_subject(model: Any, table: Table, *, knowledge: Knowledge = Knowledge(), name: str = "pipeline") -> Subject:
    """A fitted pipeline and the raw rows it was fitted on."""
    X = table.X
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    steps = [step for step in steps if step not in (None, "passthrough")]
    last = steps[-1]
    perceptron = isinstance(last, MLPClassifier | MLPRegressor)
    before = steps[:-1] if perceptron else steps[:-2]
    _check_fitted(last)
    taken = getattr(model, "n_features_in_", X.shape[1])
    if X.shape[1] != taken:
        raise ExhumeError(f"the pipeline was fitted on {taken} columns, the data have {X.shape[1]}. Check --data.")
    encode = _encoder(before, np.asarray(X, dtype=np.float64), table.columns)
    truth = encode(X, table.y)
    classes = tuple(float(c) for c in getattr(last, "classes_", ()) if np.isreal(c))
    if perceptron:
        return replace(_perceptron(last, truth, knowledge, name), encode=encode)
    if len(steps) < 2 or not isinstance(last, LINEAR) or not isinstance(steps[-2], RBFSampler | RandomFeatureMap):
        kinds = [type(step).__name__ for step in steps]
        raise ExhumeError(
            f"expected a pipeline that ends in RBFSampler or RandomFeatureMap and a linear model "
            f"({', '.join(kind.__name__ for kind in LINEAR[::2])}), or in an MLP, got {' -> '.join(kinds)}."
        )
    release, stretch, outputs = _features(steps[-2], last, truth, knowledge)
    about = f"{release.p} features of a {type(steps[-2]).__name__} under a {type(last).__name__}"
    return Subject(name, about, release, truth, outputs, encode, classes if release.k > 1 else (), stretch)


def _check_fitted(last: Any) -> None:
    if not hasattr(last, "coef_") and not hasattr(last, "coefs_"):
        raise ExhumeError(f"the {type(last).__name__} is not fitted. Call fit first, or give the fitted pipeline.")


def _apply(steps: list[Any], X: np.ndarray) -> np.ndarray:
    try:
        for step in steps:
            X = step.transform(X)
    except ValueError as error:
        raise ExhumeError(f"the pipeline does not take these rows: {str(error).splitlines()[0]} Check --data.") from None
    if not isinstance(X, np.ndarray):
        raise ExhumeError("the steps before the features give no dense array. Make them give one (sparse_output=False).")
    return X


def _encoder(steps: list[Any], X: np.ndarray, columns: tuple[str, ...]) -> Encode:
    """Raw samples -> inputs of the features; shown in raw units where the steps before only shift and stretch columns."""
    rows, d = _apply(steps, X), X.shape[1]
    if rows.shape == X.shape and not any(isinstance(step, FunctionTransformer) for step in steps):
        offset, unit = (_apply(steps, np.full((1, d), value))[0] for value in (0.0, 1.0))
        slope = unit - offset
        if (slope > 0).all() and np.allclose(X * slope + offset, rows, rtol=1e-7, atol=1e-9):
            mean, spread = -offset / slope, 1 / slope
            return lambda Z, y: model_inputs("rows", np.asarray(Z, dtype=np.float64), y, mean=mean, spread=spread, columns=columns)
    names = tuple(f"component {i}" for i in range(rows.shape[1]))
    return lambda Z, y: model_inputs("rows", _apply(steps, np.asarray(Z, dtype=np.float64)), y, columns=names)


def _features(step: Any, last: Any, truth: Dataset, knowledge: Knowledge) -> tuple[Release, float, Any]:
    """Random features and the linear model on top: the weights lie in the span of the training features."""
    theta = torch.as_tensor(np.atleast_2d(np.asarray(last.coef_, dtype=np.float64)))  # (k, p)
    offset = torch.as_tensor(np.atleast_1d(np.asarray(last.intercept_, dtype=np.float64)))
    d, p = truth.d, theta.shape[1]
    transform = step.transform
    if isinstance(step, RandomFeatureMap):
        layer, stretch, act = step.layer(), 1.0, step.activation
    else:
        V = torch.as_tensor(np.ascontiguousarray(step.random_weights_.T))  # (p, d), entries of variance 2 gamma
        stretch, act = float(V.square().mean().sqrt()) * math.sqrt(d), "cosine"
        layer = {"first.weight": V / stretch, "first.bias": torch.as_tensor(step.random_offset_)}
        theta = theta / math.sqrt(p)  # scikit-learn's features are sqrt(2 / p) cos, ours sqrt(2) cos
    spec = NetworkSpec("two-layer", (d,), len(theta), p, p, act, biased="first.bias" in layer)
    trained, known = layer | {"head.weight": theta}, layer | {"head.weight": torch.zeros_like(theta)}
    coefficients = torch.as_tensor(np.atleast_2d(np.asarray(last.coef_, dtype=np.float64)))

    def outputs(inputs: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(transform(inputs.double().numpy())) @ coefficients.T + offset

    return Release(theta, spec, _facts(last, truth, offset, knowledge), trained, known), stretch, outputs


def _facts(last: Any, truth: Dataset, offset: torch.Tensor, knowledge: Knowledge) -> Facts:
    """A released pipeline names its penalty and its intercept; with labels of one size they tell lengths."""
    size = 1.0 if hasattr(last, "classes_") else truth.label_size
    penalties = np.ravel(getattr(last, "alpha_", getattr(last, "alpha", 0.0)))
    weighted = getattr(last, "class_weight", None) is not None  # then each sample has a penalty of its own
    if weighted or isinstance(last, _MARGINS) or len(offset) > 1:
        size = None
    penalty = float(penalties[0])
    pruned = bool((np.atleast_2d(last.coef_) == 0).all(0).any())
    true = Facts(n=truth.n, label_size=size, penalty=penalty, offset=float(offset[0]), pruned=pruned)
    return knowledge.facts(true)


def _perceptron(last: Any, truth: Dataset, knowledge: Knowledge, name: str) -> Subject:
    """An MLP as a torch module; scikit-learn keeps no weights from before training."""
    if last.activation == "identity":
        raise ExhumeError("an MLP with identity activation is a linear model: it has no features to rebuild samples from.")
    layers: list[nn.Module] = []
    for W, b in zip(last.coefs_, last.intercepts_, strict=True):
        linear = nn.Linear(W.shape[0], W.shape[1], dtype=torch.float64)
        linear.weight.data, linear.bias.data = torch.as_tensor(W.T.copy()), torch.as_tensor(b.copy())
        layers += [linear, _UNITS[last.activation]()]
    return torch_subject(nn.Sequential(*layers[:-1]), truth, knowledge=knowledge, name=name)
