"""Any nn.Module that ends in a linear layer -> Subject: two-layer networks are recognised, others are taken whole."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from exhume.auditing.answers import Answer, inner_of
from exhume.auditing.layers import Layer, first_layer, hidden_layer
from exhume.auditing.subject import Encode, Knowledge, Outputs, Subject
from exhume.data import Dataset
from exhume.data.fed import fed_rows
from exhume.errors import ExhumeError
from exhume.features import ModuleFeatures
from exhume.features.module import find_last_linear
from exhume.features.networks import bring_module
from exhume.release import Facts, NetworkSpec, Release

# Up to this many entries of the first layer float64 costs little.
_FLOAT64_LIMIT = 40_000_000
# Outputs this near to their targets count as fitted.
FITTED = 0.02
_PROBES = 8


def torch_subject(
    module: nn.Module,
    truth: Dataset,
    *,
    trained: Mapping[str, torch.Tensor] | None = None,
    init: Mapping[str, torch.Tensor] | None = None,
    knowledge: Knowledge = Knowledge(),
    head: str | None = None,
    name: str = "model",
    encode: Encode | None = None,
) -> Subject:
    """The module with its weights after training (its own where none are given) and, where known, before."""
    answers = copy.deepcopy(module).eval()
    _load(answers, trained, "trained")
    if head is not None:
        if not isinstance(dict(answers.named_modules()).get(head), nn.Linear):
            raise ExhumeError(f"--head {head!r} is not a linear layer of the model. Name one, or leave it out to have it found.")
        answers = Answer(answers, head).eval()
    shape = _input_shape(answers, truth)
    if not isinstance(_answer(answers, truth, shape), torch.Tensor):
        answers = Answer(answers, None).eval()
    example = torch.randn(_PROBES, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    example = example * truth.rows.abs().mean()
    double = copy.deepcopy(answers).double().requires_grad_(requires_grad=False)
    _check_double(double, example)
    last = find_last_linear(double, example)
    start = _start(answers, init, knowledge)
    after = {k: v.detach().clone() for k, v in answers.state_dict().items() if v.is_floating_point()}
    layer = hidden_layer(double, last, example)
    outputs = _outputs(double, shape)
    if layer is not None and (layer.activation.homogeneous or not layer.biased):
        subject = _two_layer(name, layer, last, after, start, truth, outputs, encode, knowledge)
    else:
        subject = _whole(name, answers, last, example, after, start, truth, outputs, encode, knowledge)
    return replace(subject, head=last.removeprefix("inner.") if isinstance(answers, Answer) else last)


def _load(module: nn.Module, weights: Mapping[str, torch.Tensor] | None, which: str) -> None:
    if weights is None:
        return
    try:
        module.load_state_dict(dict(weights))
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        raise ExhumeError(f"the {which} weights do not fit the model: {lines[1] if len(lines) > 1 else lines[0]}") from None


def _input_shape(module: nn.Module, truth: Dataset) -> tuple[int, ...]:
    """The shape in which the module takes an input: that of the data, or flat."""
    reasons = []
    for shape in dict.fromkeys([truth.shape, (truth.d,)]):
        try:
            _answer(module, truth, shape)
        except ExhumeError:
            raise
        except Exception as error:  # the code of a stranger's model may fail in any way
            reasons.append((str(error) or type(error).__name__).splitlines()[0])
        else:
            return tuple(shape)
    raise ExhumeError(f"the model does not take inputs of shape {truth.shape}: {reasons[0]}. Check --data and --model.")


def _answer(module: nn.Module, truth: Dataset, shape: tuple[int, ...]) -> object:
    dtype = next((p.dtype for p in module.parameters()), torch.float32)
    with torch.no_grad():
        return module(truth.rows[:2].reshape(-1, *shape).to(dtype))


def _check_double(module: nn.Module, example: torch.Tensor) -> None:
    """The model must run on float64 inputs of its shape, several at once."""
    try:
        with torch.no_grad():
            module(example)
    except ExhumeError:
        raise
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ExhumeError(f"the model fails in float64 ({reason}). Remove casts such as x.float() from its forward.") from None


def _outputs(module: nn.Module, shape: tuple[int, ...]) -> Outputs:
    def outputs(inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return module(inputs.double().reshape(len(inputs), *shape))

    return outputs


def _start(module: nn.Module, init: Mapping[str, torch.Tensor] | None, knowledge: Knowledge) -> dict[str, torch.Tensor]:
    """Floating-point weights before training that the attacker knows, under the module's names."""
    if init is None or knowledge.init == "none":
        return {}
    before = copy.deepcopy(module)
    _load(inner_of(before), init, "initial")
    return {k: v.detach().clone() for k, v in before.state_dict().items() if v.is_floating_point()}


def _two_layer(
    name: str,
    layer: Layer,
    last: str,
    after: dict[str, torch.Tensor],
    start: dict[str, torch.Tensor],
    truth: Dataset,
    outputs: Outputs,
    encode: Encode | None,
    knowledge: Knowledge,
) -> Subject:
    """theta2 act(theta1 x), a bias folded in as the weight of a constant input: then it tells each row's length."""

    def first(weights: Mapping[str, torch.Tensor]) -> torch.Tensor:
        W = weights[f"{layer.name}.weight"].double()
        return torch.cat([W, weights[f"{layer.name}.bias"].double()[:, None]], dim=1) if layer.biased else W

    V = first(start or after)
    p, d = V.shape
    stretch = float(V.square().mean().sqrt()) * math.sqrt(d)  # attacks expect entries of variance 1 / d

    def layers(side: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        heads = {f"head.{part}": side[f"{last}.{part}"].double() for part in ("weight", "bias") if f"{last}.{part}" in side}
        return {"first.weight": first(side) / stretch} | heads

    trained, known = layers(after), layers(start) if start else {}
    fixed = bool(start) and torch.equal(known["first.weight"], trained["first.weight"])
    native = after[f"{last}.weight"].dtype
    dtype = torch.float64 if native == torch.float64 or (not fixed and p * d <= _FLOAT64_LIMIT) else torch.float32
    trained, known = _as_known(trained, known, "head.weight", dtype, knowledge)
    k, biased = len(trained["head.weight"]), "head.bias" in trained
    spec = NetworkSpec("two-layer", (d,), k, p, p, layer.activation.name, head_biased=biased)
    facts = facts_of(truth, outputs, knowledge, stretch=None if layer.biased else stretch)
    about = f"a layer of {p} {layer.activation.name} units{' with biases' if layer.biased else ''} under a linear one"
    facts = replace(facts, pruned=_pruned(trained["head.weight"]))
    release = Release(_learned(trained, known, "head.weight"), spec, facts, trained, known)
    return Subject(name, about, release, truth, outputs, encode or _as_fed, _classes(truth, release.k), stretch, layer.biased)


def _whole(
    name: str,
    module: nn.Module,
    last: str,
    example: torch.Tensor,
    after: dict[str, torch.Tensor],
    start: dict[str, torch.Tensor],
    truth: Dataset,
    outputs: Outputs,
    encode: Encode | None,
    knowledge: Knowledge,
) -> Subject:
    """Any other module as it is, through its penultimate features."""
    head = f"{last}.weight"
    k, h = after[head].shape
    features = ModuleFeatures(module, tuple(example.shape[1:]), dtype=torch.float64)
    with torch.no_grad():
        once, twice = (features.value(times * example.flatten(1)) for times in (1, 2))
    grows = torch.allclose(twice, 2 * once, rtol=1e-9, atol=1e-12)
    brought = f"{name} (brought)"
    bring_module(brought, module, homogeneous=grows)
    first = first_layer(module, last, example)
    size = sum(v.numel() for v in after.values())
    dtype = torch.float64 if size <= _FLOAT64_LIMIT else torch.float32
    trained, known = _as_known(after, start, head, dtype, knowledge)
    spec = NetworkSpec(brought, tuple(example.shape[1:]), k, h, h, head=last, first=first)
    facts = replace(facts_of(truth, outputs, knowledge, stretch=1.0 if grows else None), pruned=_pruned(trained[head]))
    about = f"a {type(inner_of(module)).__name__} with {size} parameters, {h} features under its last layer"
    release = Release(_learned(trained, known, head), spec, facts, trained, known)
    return Subject(name, about, release, truth, outputs, encode or _as_fed, _classes(truth, k))


_Weights = dict[str, torch.Tensor]


def _as_known(after: _Weights, start: _Weights, head: str, dtype: torch.dtype, knowledge: Knowledge) -> tuple[_Weights, _Weights]:
    """Weights after and before training in `dtype`, of the latter what the attacker knows."""
    kept = {head: start[head]} if knowledge.init == "last" and start else start
    return {k: v.to(dtype) for k, v in after.items()}, {k: v.to(dtype) for k, v in kept.items()}


def _pruned(weights: torch.Tensor) -> bool:
    """Whether features were removed after training: their weights are zero in every output."""
    return bool((weights == 0).all(0).any())


def _learned(trained: _Weights, known: _Weights, head: str) -> torch.Tensor:
    """theta_T - theta_0 of the last layer, or theta_T where theta_0 is not known."""
    return trained[head] - known[head] if head in known else trained[head]


def _as_fed(X: np.ndarray, y: np.ndarray) -> Dataset:
    """Other samples, taken for inputs of the model as they are."""
    return fed_rows("held out", X, y)


def _classes(truth: Dataset, k: int) -> tuple[float, ...]:
    """Labels in the order of the outputs: numbers of outputs, or as many values as there are outputs."""
    values = torch.unique(truth.labels).tolist()
    if k > 1 and all(0 <= v < k and v == int(v) for v in values):
        return tuple(float(i) for i in range(k))
    return tuple(values) if k > 1 and len(values) == k else ()


def facts_of(truth: Dataset, outputs: Outputs, knowledge: Knowledge, *, stretch: float | None) -> Facts:
    """Facts of the threat model; sizes of targets count where they are fitted, `stretch` None where lengths come from elsewhere."""
    answers = outputs(truth.rows)
    one_hot, size = False, None
    if knowledge.labels and stretch is not None:
        if answers.shape[1] > 1:
            top = answers.max(dim=1).values
            rest = answers.sum(dim=1) - top
            one_hot = bool(((top - 1).abs() < FITTED).all() and (rest.abs() < FITTED * answers.shape[1]).all())
        elif truth.label_size is not None:
            fitted = bool(((answers[:, 0].abs() - truth.label_size).abs() < FITTED * truth.label_size).all())
            size = truth.label_size if fitted else None
    span = truth.input_range if knowledge.statistics else None
    return Facts(
        n=truth.n if knowledge.n else None,
        input_range=None if span is None or stretch is None else (span[0] * stretch, span[1] * stretch),
        label_size=size,
        one_hot=one_hot,
        ridge=None,
    )
