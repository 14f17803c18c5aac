"""What a user brings -> Subject: a module, a pipeline or files of them, with data as arrays or files."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import nn

from exhume.auditing.compare import near
from exhume.auditing.exported import load_exported
from exhume.auditing.sklearn_model import load_skops, sklearn_subject
from exhume.auditing.subject import Knowledge, Subject
from exhume.auditing.torch_model import torch_subject
from exhume.auditing.weights import load_weights
from exhume.data import Dataset
from exhume.data.fed import fed_rows
from exhume.data.folder import read_folder
from exhume.data.own import check_arrays, read_rows
from exhume.errors import ExhumeError

# Samples nearer than this, relative to their length, are one sample.
_SAME = 1e-6

Rows = tuple[np.ndarray, np.ndarray, tuple[str, ...]]  # X, y, column names


@dataclass(frozen=True)
class Brought:
    """All that a user brings to an audit; what is not known is None."""

    trained: Any  # a module, a fitted pipeline, or a file of weights, of a pipeline (.skops) or of a program (.pt2)
    data: Any  # (X, y), or a file or folder
    model: Any = None  # module, factory, or "package.module:factory", where `trained` holds weights only
    init: Any = None  # a module, a state dict or a file: the weights before training
    held_out: Any = None  # (X, y) or a file of samples that were not trained on
    head: str | None = None
    mean: Sequence[float] = (0.0,)
    spread: Sequence[float] = (1.0,)
    n: int | None = None
    trust_code: bool = False
    name: str | None = None


def subject_of(brought: Brought, knowledge: Knowledge = Knowledge()) -> tuple[Subject, Dataset | None]:
    """The model under audit, and the held-out samples in its inputs."""
    X, y, columns = rows_of(brought.data, brought.n)
    trained, name = brought.trained, brought.name or _name(brought)
    if isinstance(trained, str | Path) and Path(trained).suffix == ".skops":
        trained = load_skops(Path(trained))
    if isinstance(trained, BaseEstimator):
        if X.ndim != 2:
            raise ExhumeError(f"a scikit-learn model takes rows (n, d), got data of shape {X.shape}.")
        if brought.head is not None or brought.model is not None or any(brought.mean) or tuple(brought.spread) != (1.0,):
            raise ExhumeError(
                "a scikit-learn pipeline holds its own scaling and its own layers. Leave --model, --head, --mean, --std out."
            )
        if brought.init is not None:
            raise ExhumeError("scikit-learn keeps no weights from before training. Leave --init out.")
        subject = sklearn_subject(trained, X, y, columns=columns, knowledge=knowledge, name=name)
    else:
        truth = fed_rows(name, X, y, mean=brought.mean, spread=brought.spread, columns=columns)
        subject = _module_subject(brought, truth, knowledge, name)
    if brought.held_out is None:
        return subject, None
    other, labels, _ = rows_of(brought.held_out, None)
    if other.shape[1:] != X.shape[1:]:
        raise ExhumeError(f"held-out samples have shape {other.shape[1:]}, the training data {X.shape[1:]}.")
    return _apart(subject, subject.encode(other, labels))


def _apart(subject: Subject, held_out: Dataset) -> tuple[Subject, Dataset]:
    """Held-out samples without those that are training samples: they would count as false positives."""
    new = near(subject.truth.rows, held_out.rows) > _SAME
    if not bool(new.any()):
        raise ExhumeError("all held-out samples are training samples. Give samples that the model was not trained on.")
    if bool(new.all()):
        return subject, held_out
    note = f"{int((~new).sum())} of {held_out.n} held-out samples are training samples and were left out"
    return replace(subject, notes=(*subject.notes, note)), replace(held_out, rows=held_out.rows[new], labels=held_out.labels[new])


def rows_of(data: Any, n: int | None) -> Rows:
    """X, y and column names from arrays, a file (npz, csv) or a folder of images."""
    if isinstance(data, tuple | list) and len(data) == 2:
        X, y = (np.asarray(part.toarray() if hasattr(part, "toarray") else part) for part in data)
        columns = tuple(str(c) for c in getattr(data[0], "columns", ()))
        check_arrays("data", X, y)
        if n is not None and not 1 <= n <= len(X):
            raise ExhumeError(f"the data have {len(X)} rows, n = {n} were asked for.")
        return X[:n], y[:n].astype(float), columns
    if not isinstance(data, str | Path):
        raise ExhumeError(f"data must be (X, y), a file or a folder, got {type(data).__name__}.")
    path = Path(data)
    if path.is_dir():
        return *read_folder(path, n), ()
    return read_rows(path, n)


def import_model(name: str) -> Any:
    """What "package.module:attribute" names. Importing runs that code: naming it is the user's consent."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise ExhumeError(f"--model must be package.module:factory, got {name!r}.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise ExhumeError(f"--model {name}: {error}. Run in the folder of that module, or install it.") from None
    except AttributeError:
        raise ExhumeError(f"--model {name}: {module} has no {attribute!r}.") from None


def _name(brought: Brought) -> str:
    for part in (brought.trained, brought.model):
        if isinstance(part, str | Path):
            return Path(str(part)).name
    return type(brought.trained).__name__


def _module_subject(brought: Brought, truth: Dataset, knowledge: Knowledge, name: str) -> Subject:
    trained, weights = brought.trained, None
    if isinstance(trained, str | Path) and Path(trained).suffix == ".pt2":
        module = load_exported(Path(trained), trust=brought.trust_code)
    elif isinstance(trained, nn.Module):
        module = trained
    else:
        weights = weights_of(trained, "trained", brought)
        module = make_module(brought.model)
    init = None if brought.init is None else weights_of(brought.init, "initial", brought)

    def encode(X: np.ndarray, y: np.ndarray) -> Dataset:
        return fed_rows("held out", X, y, mean=brought.mean, spread=brought.spread, columns=truth.columns)

    return torch_subject(
        module, truth, trained=weights, init=init, knowledge=knowledge, head=brought.head, name=name, encode=encode
    )


def make_module(model: Any) -> nn.Module:
    """The module that was named, made by its factory or given."""
    if model is None:
        raise ExhumeError("weights alone are no model. Name it with --model package.module:factory (model= in Python).")
    made = import_model(model) if isinstance(model, str) else model
    if not isinstance(made, nn.Module):
        try:
            made = made()
        except Exception as error:  # code of the user's own
            raise ExhumeError(f"--model {model} failed: {(str(error) or type(error).__name__).splitlines()[0]}") from None
    if not isinstance(made, nn.Module):
        raise ExhumeError(f"--model must give a torch.nn.Module, got {type(made).__name__}.")
    return made


def weights_of(given: Any, which: str, brought: Brought) -> Mapping[str, torch.Tensor]:
    """A state dict from a module, a mapping or a file."""
    if isinstance(given, nn.Module):
        return given.state_dict()
    if isinstance(given, Mapping):
        return given
    if isinstance(given, str | Path):
        path = Path(given)
        return load_exported(path, trust=brought.trust_code).state_dict() if path.suffix == ".pt2" else load_weights(path)
    raise ExhumeError(f"the {which} weights must be a module, a state dict or a file, got {type(given).__name__}.")
