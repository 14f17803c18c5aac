"""Any nn.Module that ends in a linear layer -> Subject: two-layer networks are recognised, others are taken whole."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from exhume.auditing.subject import Encode, Knowledge, Outputs, Subject
from exhume.data import Dataset
from exhume.data.fed import fed_rows
from exhume.errors import ExhumeError
from exhume.features import ACTIVATIONS, Activation, ModuleFeatures
from exhume.features.module import find_last_linear
from exhume.features.networks import bring_module
from exhume.release import Facts, NetworkSpec, Release

# Up to this many entries of the first layer float64 costs little.
_FLOAT64_LIMIT = 40_000_000
# Outputs this near to their targets count as fitted.
FITTED = 0.02
_PROBES = 8


class _ReachedError(Exception):
    """The head has answered: what comes after it is not needed."""

    def __init__(self, output: torch.Tensor) -> None:
        super().__init__()
        self.output = output


class _Answer(nn.Module):
    """A user's module as one that answers with a tensor: what a named layer gives, or the logits in a record, dict or tuple."""

    def __init__(self, inner: nn.Module, head: str | None) -> None:
        super().__init__()
        self.inner, self._head = inner, head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._head is None:
            return _tensor_of(self.inner(x))

        def reached(_: nn.Module, __: object, output: torch.Tensor) -> None:
            raise _ReachedError(output)

        handle = self.inner.get_submodule(self._head).register_forward_hook(reached)
        try:
            self.inner(x)
        except _ReachedError as end:
            return end.output
        finally:
            handle.remove()
        raise ExhumeError(f"--head {self._head!r} takes no part in the model's answer. Name the layer that gives it.")


def _tensor_of(answer: object) -> torch.Tensor:
    """The logits in what a module answered."""
    if isinstance(answer, Mapping):
        answer = answer.get("logits", next(iter(answer.values()), None))
    elif hasattr(answer, "logits"):
        answer = answer.logits
    elif isinstance(answer, tuple | list) and answer:
        answer = answer[0]
    if not isinstance(answer, torch.Tensor):
        raise ExhumeError(f"the model answers with a {type(answer).__name__}, not with a tensor. Name its last layer with --head.")
    return answer


def _inner(module: nn.Module) -> nn.Module:
    """The user's own module."""
    return module.inner if isinstance(module, _Answer) else module


@dataclass(frozen=True)
class _Layer:
    """A hidden layer act(W x + b) that feeds the last one."""

    name: str
    activation: Activation
    biased: bool


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
        answers = _Answer(answers, head).eval()
    shape = _input_shape(answers, truth)
    if not isinstance(_answer(answers, truth, shape), torch.Tensor):
        answers = _Answer(answers, None).eval()
    example = torch.randn(_PROBES, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    example = example * truth.rows.abs().mean()
    double = copy.deepcopy(answers).double().requires_grad_(requires_grad=False)
    _check_double(double, example)
    last = find_last_linear(double, example)
    start = _start(answers, init, knowledge)
    after = {k: v.detach().clone() for k, v in answers.state_dict().items() if v.is_floating_point()}
    layer = _hidden_layer(double, last, example)
    outputs = _outputs(double, shape)
    if layer is not None and (layer.activation.homogeneous or not layer.biased):
        subject = _two_layer(name, layer, last, after, start, truth, outputs, encode, knowledge)
    else:
        subject = _whole(name, answers, last, example, after, start, truth, outputs, encode, knowledge)
    return replace(subject, head=last.removeprefix("inner.") if isinstance(answers, _Answer) else last)


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
    _load(_inner(before), init, "initial")
    return {k: v.detach().clone() for k, v in before.state_dict().items() if v.is_floating_point()}


def _hidden_layer(module: nn.Module, last: str, example: torch.Tensor) -> _Layer | None:
    """The layer act(W x + b) that feeds the last one, if that is all there is; found by running the module."""
    seen: list[tuple[str, torch.Tensor, torch.Tensor]] = []
    handles = [
        part.register_forward_hook(lambda _, inputs, output, name=name: seen.append((name, inputs[0], output)))
        for name, part in module.named_modules()
        if isinstance(part, nn.Linear)
    ]
    with torch.no_grad():
        module(example)
    for handle in handles:
        handle.remove()
    if len(seen) != 2 or seen[1][0] != last or not torch.equal(seen[0][1].flatten(1), example.flatten(1)):
        return None
    name, _, before = seen[0]
    layer = module.get_submodule(name)
    for act in ACTIVATIONS.values():
        if (
            not act.phase
            and before.shape == seen[1][1].shape
            and torch.allclose(act.value(before), seen[1][1], rtol=1e-9, atol=1e-12)
        ):
            return _Layer(name, act, layer.bias is not None)
    return None


def _two_layer(
    name: str,
    layer: _Layer,
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
    first = _first_layer(module, last, example)
    size = sum(v.numel() for v in after.values())
    dtype = torch.float64 if size <= _FLOAT64_LIMIT else torch.float32
    trained, known = _as_known(after, start, head, dtype, knowledge)
    spec = NetworkSpec(brought, tuple(example.shape[1:]), k, h, h, head=last, first=first)
    facts = replace(facts_of(truth, outputs, knowledge, stretch=1.0 if grows else None), pruned=_pruned(trained[head]))
    about = f"a {type(_inner(module)).__name__} with {size} parameters, {h} features under its last layer"
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


def _first_layer(module: nn.Module, last: str, example: torch.Tensor) -> str | None:
    """The layer that sees the inputs themselves, if it is a matrix or a convolution whose change shows their subspace."""
    seen: list[tuple[str, torch.Tensor]] = []
    double = copy.deepcopy(module).double()
    handles = [
        part.register_forward_hook(lambda _, inputs, __, name=name: seen.append((name, inputs[0])))
        for name, part in double.named_modules()
        if isinstance(part, nn.Linear | nn.Conv2d) and name != last
    ]
    with torch.no_grad():
        double(example)
    for handle in handles:
        handle.remove()
    for name, given in seen:
        whole = given.ndim == (4 if isinstance(double.get_submodule(name), nn.Conv2d) else 2)
        if whole and given.numel() == example.numel() and torch.equal(given.flatten(1), example.flatten(1)):
            return name if _plain(double.get_submodule(name)) else None
    return None


def _plain(module: nn.Module) -> bool:
    """Whether the layer sees whole inputs or patches of them, as the subspace attack has to assume."""
    return not isinstance(module, nn.Conv2d) or (
        module.groups == 1 and set(module.dilation) == {1} and not isinstance(module.padding, str)
    )


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
