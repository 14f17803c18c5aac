"""Training a user's model again with a change: a larger penalty, a smaller head, or differential privacy."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from torch import nn

from exhume.auditing.audit_inputs import AuditInputs
from exhume.auditing.loaders.torch_modules import input_shape
from exhume.auditing.mitigation.weight_edits import last_step
from exhume.auditing.subject import Subject
from exhume.errors import ExhumeError

# Of plain training: most steps, and the mean loss at which targets count as fitted.
_STEPS = 5000
_FITTED = 1e-6
# Of DP-SGD.
_DP_EPOCHS = 100
_DP_CLIP = 1.0
_DP_RATE = 0.25


def with_decay(inputs: AuditInputs, subject: Subject, factor: float) -> AuditInputs:
    """The same model under a penalty `factor` times as large (or that much where there was none)."""
    model = inputs.open_model()
    if isinstance(model, BaseEstimator):
        fresh = clone(model)
        last = last_step(fresh)
        if hasattr(last, "C"):
            last.set_params(C=last.C / factor)
        elif hasattr(last, "alpha"):
            last.set_params(alpha=factor * (last.alpha or 1e-6))
        else:
            raise ExhumeError(f"a {type(last).__name__} has no penalty to raise.")
        return _refitted(inputs, fresh)
    module = _fresh_module(inputs, model)
    _descend(module, *_fed(module, subject), decay=1e-5 * factor)
    return replace(inputs, trained=module)


def with_head(inputs: AuditInputs, subject: Subject, count: int) -> AuditInputs:
    """The same model with `count` features under its last layer."""
    model = inputs.open_model()
    if isinstance(model, BaseEstimator):
        fresh = clone(model)
        if not isinstance(fresh, Pipeline) or not hasattr(fresh[-2], "n_components"):
            raise ExhumeError("only random features can be made fewer here; train a smaller network and audit that.")
        fresh[-2].set_params(n_components=count)
        return _refitted(inputs, fresh)
    model_spec = subject.release.model
    if not model_spec.one_hidden_layer or model_spec.activation != "relu":
        raise ExhumeError("the head of this network cannot be made smaller here; train a smaller one and audit that.")
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(subject.truth.d, count), nn.ReLU(), nn.Linear(count, subject.release.k))
    start = copy.deepcopy(module)
    _descend(module, *_tensors(subject))
    return replace(inputs, trained=module, init=start if inputs.init is not None else None)


def with_dp(inputs: AuditInputs, subject: Subject, epsilon: float, delta_share: float, seed: int) -> AuditInputs:
    """The same model trained by DP-SGD (Opacus) to (epsilon, delta_share / n): its last layer, or a network as a whole."""
    model = inputs.open_model()
    y = _tensors(subject)[1]
    delta = delta_share / len(y)
    if isinstance(model, BaseEstimator):
        copied = copy.deepcopy(model)
        last = last_step(copied)
        if not hasattr(last, "coef_"):
            raise ExhumeError("DP-SGD is run here on linear models over random features and on torch modules.")
        raw = inputs.table().X
        features = torch.as_tensor(np.asarray(copied[:-1].transform(raw)), dtype=torch.float32)
        # Two classes behind one output: its targets are -1 and +1.
        targets = torch.where(y > y.mean(), 1.0, -1.0) if hasattr(last, "classes_") and y.shape[1] == 1 else y
        linear = nn.Linear(features.shape[1], targets.shape[1])
        nn.init.zeros_(linear.weight)
        nn.init.zeros_(linear.bias)
        _private(linear, features, targets, epsilon, delta, seed)
        last.coef_ = linear.weight.detach().double().numpy().reshape(np.shape(last.coef_))
        last.intercept_ = linear.bias.detach().double().numpy().reshape(np.shape(last.intercept_))
        return replace(inputs, trained=copied)
    module = _fresh_module(inputs, model)
    _private(module, *_fed(module, subject), epsilon, delta, seed)
    return replace(inputs, trained=module)


def _refitted(inputs: AuditInputs, fresh: Any) -> AuditInputs:
    table = inputs.table()
    return replace(inputs, trained=fresh.fit(table.X, table.y))


def _fresh_module(inputs: AuditInputs, model: nn.Module) -> nn.Module:
    """The module at its start: the weights before training, or drawn anew."""
    module = copy.deepcopy(model).train()
    if inputs.init is not None:
        module.load_state_dict(dict(inputs.weights(inputs.init, "initial")))
        return module
    torch.manual_seed(0)
    for part in module.modules():
        reset = getattr(part, "reset_parameters", None)
        if callable(reset):
            reset()
    return module


def _tensors(subject: Subject) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets, one-hot where the model has an output per class."""
    X, labels = subject.truth.rows.float(), subject.truth.labels
    if subject.classes:
        index = torch.tensor([subject.classes.index(float(y)) for y in labels])
        return X, nn.functional.one_hot(index, subject.release.k).float()
    return X, labels[:, None].float()


def _fed(module: nn.Module, subject: Subject) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets as the module takes them: in its own shape and precision."""
    X, y = _tensors(subject)
    shape = input_shape(copy.deepcopy(module).eval(), subject.truth)
    dtype = next(module.parameters()).dtype
    return X.reshape(len(X), *shape).to(dtype), y.to(dtype)


def _descend(module: nn.Module, X: torch.Tensor, y: torch.Tensor, decay: float = 0.0) -> None:
    """Gradient descent on the square loss until the targets are fitted, with a step that halves where the loss rises."""
    rate, last = 0.01, math.inf
    state = copy.deepcopy(module.state_dict())
    for _ in range(_STEPS):
        loss = (module(X) - y).square().sum() / 2
        if not loss.item() < 2 * last:
            rate, last = rate / 2, math.inf
            module.load_state_dict(state)
            continue
        last = min(last, loss.item())
        if last < _FITTED * len(y):
            return
        grads = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for p, g in zip(module.parameters(), grads, strict=True):
                p.mul_(1 - rate * decay).sub_(g, alpha=rate)


def _private(module: nn.Module, X: torch.Tensor, y: torch.Tensor, epsilon: float, delta: float, seed: int) -> None:
    """DP-SGD on the square loss: gradients per sample clipped, noise chosen for (epsilon, delta)."""
    try:
        from opacus import PrivacyEngine
        from opacus.validators import ModuleValidator
    except ImportError:
        raise ExhumeError("DP-SGD needs opacus. Run pip install 'exhume[dp]'.") from None
    if ModuleValidator.validate(module):
        raise ExhumeError("Opacus cannot give gradients per sample for a layer of this model.")
    import warnings

    generator = torch.Generator().manual_seed(seed)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(X, y), batch_size=max(1, len(X) // 4), shuffle=True, generator=generator
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # Opacus warns of its insecure generator and of hooks; the ladder measures, it ships nothing
        engine = PrivacyEngine(accountant="rdp")
        optimiser = torch.optim.SGD(module.parameters(), lr=_DP_RATE)
        private, optimiser, loader = engine.make_private_with_epsilon(
            module=module, optimizer=optimiser, data_loader=loader, target_epsilon=epsilon, target_delta=delta,
            epochs=_DP_EPOCHS, max_grad_norm=_DP_CLIP, noise_generator=generator,
        )  # fmt: skip
        for _ in range(_DP_EPOCHS):
            for inputs, targets in loader:
                if len(inputs):
                    optimiser.zero_grad()
                    ((private(inputs) - targets).square().sum(1) / 2).mean().backward()
                    optimiser.step()
    private.remove_hooks()
