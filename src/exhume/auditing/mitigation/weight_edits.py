"""Changes of a trained model's weights that need no training: rounding, noise, pruning."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from torch import nn

from exhume.auditing.audit_inputs import AuditInputs
from exhume.linalg import streams
from exhume.victims.pruning import prune_by_magnitude

Edit = Callable[[np.ndarray], np.ndarray]


def noised(weights: np.ndarray, *, size: float, seed: int) -> np.ndarray:
    """Weights with normal noise of `size` times their root mean square."""
    draw = streams.generator(seed, "weight noise", 0)
    noise = torch.randn(weights.shape, generator=draw, dtype=torch.float64).numpy()
    return weights + size * np.sqrt(np.mean(np.square(weights))) * noise


def rounded(weights: np.ndarray, *, dtype: torch.dtype) -> np.ndarray:
    """Weights as a dtype of fewer bits holds them."""
    return torch.as_tensor(weights).to(dtype).to(torch.float64).numpy()


def to_int8(weights: np.ndarray) -> np.ndarray:
    """Weights as 8-bit integers hold them: symmetric, one scale per tensor."""
    step = np.abs(weights).max() / 127 or 1.0  # zeros stay zeros
    return np.round(weights / step) * step


def last_step(model: Any) -> Any:
    """The estimator itself, or a pipeline's last step."""
    return model[-1] if isinstance(model, Pipeline) else model


def edited(inputs: AuditInputs, edit: Edit) -> AuditInputs:
    """The model with every weight matrix edited."""
    model = copy.deepcopy(inputs.open_model())
    if isinstance(model, BaseEstimator):
        last = last_step(model)
        if hasattr(last, "coef_"):
            last.coef_ = edit(np.asarray(last.coef_, dtype=np.float64))
        else:
            last.coefs_ = [edit(W) for W in last.coefs_]
        return replace(inputs, trained=model)
    state = {
        name: torch.as_tensor(edit(value.double().numpy())).to(value.dtype)
        if value.is_floating_point() and value.ndim > 1
        else value
        for name, value in model.state_dict().items()
    }
    model.load_state_dict(state)
    return replace(inputs, trained=model)


def without_features(inputs: AuditInputs, *, head: str | None, share: float) -> AuditInputs:
    """The model without whole features: those with the smallest weights in the last layer go out of every output."""
    model = copy.deepcopy(inputs.open_model())
    if isinstance(model, nn.Module):
        assert head is not None
        weight = model.get_parameter(f"{head}.weight")
        weight.data = prune_by_magnitude(weight.data, share)
        return replace(inputs, trained=model)
    last = last_step(model)
    if hasattr(last, "coef_"):
        weights = torch.as_tensor(np.atleast_2d(np.asarray(last.coef_, dtype=np.float64)))
        last.coef_ = prune_by_magnitude(weights, share).numpy().reshape(np.shape(last.coef_))
    else:
        last.coefs_ = [*last.coefs_[:-1], prune_by_magnitude(torch.as_tensor(last.coefs_[-1].T.copy()), share).numpy().T]
    return replace(inputs, trained=model)
