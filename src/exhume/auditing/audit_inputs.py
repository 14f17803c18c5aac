"""What a user brings to an audit: a module, a pipeline or files of them, with data as arrays or files -> Subject."""

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

from exhume.auditing.loaders.exported_programs import load_exported
from exhume.auditing.loaders.sklearn_models import load_skops, sklearn_subject
from exhume.auditing.loaders.torch_modules import load_parameters, torch_subject
from exhume.auditing.loaders.weight_files import load_weights
from exhume.auditing.nearness import near
from exhume.auditing.subject import Subject
from exhume.data import Dataset
from exhume.data.arrays import Table, as_table
from exhume.data.image_folder import read_folder
from exhume.data.model_inputs import model_inputs
from exhume.data.table_files import read_table
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge

# Samples nearer than this, relative to their length, are one sample.
_SAME_SAMPLE = 1e-6


@dataclass(frozen=True)
class AuditInputs:
    """All that a user brings to an audit; what is not known is None."""

    trained: Any  # a module, a fitted pipeline, a state dict, or a file of weights, of a pipeline (.skops) or of a program (.pt2)
    data: Any  # (X, y) as arrays, tensors or data frames, or a file or folder
    model: Any = None  # module, factory, or "package.module:factory", where `trained` holds weights only
    init: Any = None  # a module, a state dict or a file: the weights before training
    held_out: Any = None  # as `data`: samples that were not trained on
    head: str | None = None  # name of the last linear layer, where it is not found by running the model
    mean: Sequence[float] = (0.0,)  # the model is fed (x - mean) / spread
    spread: Sequence[float] = (1.0,)
    n: int | None = None  # use the first n samples of the data
    trust_code: bool = False  # load .pt2 programs, which can run code
    name: str | None = None

    @property
    def title(self) -> str:
        """The model's name for people."""
        if self.name is not None:
            return self.name
        for part in (self.trained, self.model):
            if isinstance(part, str | Path):
                return Path(str(part)).name
        return type(self.trained).__name__

    def table(self) -> Table:
        """The training data as they were given."""
        return table_of(self.data, self.n)

    def open_model(self) -> BaseEstimator | nn.Module:
        """The trained estimator or module itself."""
        trained = self.trained
        if isinstance(trained, str | Path) and Path(trained).suffix == ".skops":
            trained = load_skops(Path(trained))
        if isinstance(trained, str | Path) and Path(trained).suffix == ".pt2":
            trained = load_exported(Path(trained), trust=self.trust_code)
        if isinstance(trained, BaseEstimator | nn.Module):
            return trained
        weights, module = self.weights(trained, "trained"), make_module(self.model)
        load_parameters(module, weights, "trained")
        return module

    def weights(self, given: Any, which: str) -> Mapping[str, torch.Tensor]:
        """A state dict from a module, a mapping or a file."""
        if isinstance(given, nn.Module):
            return given.state_dict()
        if isinstance(given, Mapping):
            return given
        if isinstance(given, str | Path):
            path = Path(given)
            return load_exported(path, trust=self.trust_code).state_dict() if path.suffix == ".pt2" else load_weights(path)
        raise ExhumeError(f"the {which} weights must be a module, a state dict or a file, got {type(given).__name__}.")


def subject_of(inputs: AuditInputs, knowledge: Knowledge = Knowledge()) -> tuple[Subject, Dataset | None]:
    """The model under audit, and the held-out samples as its inputs."""
    table, model = inputs.table(), inputs.open_model()
    if isinstance(model, BaseEstimator):
        subject = _pipeline_subject(inputs, model, table, knowledge)
    else:
        subject = _module_subject(inputs, model, table, knowledge)
    if inputs.held_out is None:
        return subject, None
    others = table_of(inputs.held_out, None)
    if others.X.shape[1:] != table.X.shape[1:]:
        raise ExhumeError(f"held-out samples have shape {others.X.shape[1:]}, the training data {table.X.shape[1:]}.")
    return _apart(subject, subject.encode(others.X, others.y))


def _pipeline_subject(inputs: AuditInputs, model: BaseEstimator, table: Table, knowledge: Knowledge) -> Subject:
    if table.X.ndim != 2:
        raise ExhumeError(f"a scikit-learn model takes rows (n, d), got data of shape {table.X.shape}.")
    if inputs.head is not None or inputs.model is not None or any(inputs.mean) or tuple(inputs.spread) != (1.0,):
        raise ExhumeError(
            "a scikit-learn pipeline holds its own scaling and its own layers. Leave --model, --head, --mean, --std out."
        )
    if inputs.init is not None:
        raise ExhumeError("scikit-learn keeps no weights from before training. Leave --init out.")
    return sklearn_subject(model, table, knowledge=knowledge, name=inputs.title)


def _module_subject(inputs: AuditInputs, model: nn.Module, table: Table, knowledge: Knowledge) -> Subject:
    def encode(X: np.ndarray, y: np.ndarray) -> Dataset:
        return model_inputs(inputs.title, X, y, mean=inputs.mean, spread=inputs.spread, columns=table.columns)

    init = None if inputs.init is None else inputs.weights(inputs.init, "initial")
    return torch_subject(
        model, encode(table.X, table.y), init=init, knowledge=knowledge, head=inputs.head, name=inputs.title, encode=encode
    )


def _apart(subject: Subject, held_out: Dataset) -> tuple[Subject, Dataset]:
    """Held-out samples without those that are training samples: they would count as false positives."""
    new = near(subject.truth.rows, held_out.rows) > _SAME_SAMPLE
    if not bool(new.any()):
        raise ExhumeError("all held-out samples are training samples. Give samples that the model was not trained on.")
    if bool(new.all()):
        return subject, held_out
    note = f"{int((~new).sum())} of {held_out.n} held-out samples are training samples and were left out"
    return replace(subject, notes=(*subject.notes, note)), replace(held_out, rows=held_out.rows[new], labels=held_out.labels[new])


def table_of(data: Any, n: int | None) -> Table:
    """Rows, labels and column names from arrays, tensors or data frames, a file (npz, csv) or a folder of images."""
    if isinstance(data, tuple | list) and len(data) == 2:
        return as_table(*data, n=n)
    if not isinstance(data, str | Path):
        raise ExhumeError(f"data must be (X, y), a file or a folder, got {type(data).__name__}.")
    path = Path(data)
    return Table(*read_folder(path, n)) if path.is_dir() else read_table(path, n)


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
