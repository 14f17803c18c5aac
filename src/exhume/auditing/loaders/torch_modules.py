"""Any nn.Module that ends in a linear layer -> Subject: two-layer networks are recognised, others are taken whole."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from exhume.architectures import ModuleSpec, NetworkSpec
from exhume.auditing.loaders.layer_probe import Layer, first_layer, hidden_layer, off_below_zero
from exhume.auditing.loaders.output_adapter import OutputAdapter, inner_of
from exhume.auditing.subject import Encode, Outputs, Subject
from exhume.data import Dataset
from exhume.data.model_inputs import model_inputs
from exhume.errors import ExhumeError
from exhume.features import ModuleFeatures
from exhume.features.module_features import find_last_linear
from exhume.knowledge import Facts, Knowledge
from exhume.release import Release

# Up to this many entries of the first layer float64 costs little.
_FLOAT64_LIMIT = 40_000_000
# Outputs this near to their targets count as fitted.
FITTED = 0.02
# Random inputs on which a module is tried.
_TRIED_INPUTS = 8

Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class _Network:
    """A user's module, looked at: where its last layer is, its weights, its data, and what the attacker knows."""

    name: str
    module: nn.Module
    last: str
    example: torch.Tensor  # random inputs, float64
    after: Weights
    start: Weights  # empty where it is not known
    truth: Dataset
    outputs: Outputs
    encode: Encode
    knowledge: Knowledge

    def release(self, spec: NetworkSpec, trained: Weights, start: Weights, facts: Facts, dtype: torch.dtype) -> Release:
        """The release with weights in `dtype`, of those before training what the attacker knows."""
        head = spec.head_weight
        trained = {k: v.to(dtype) for k, v in trained.items()}
        known = {k: v.to(dtype) for k, v in self.knowledge.initial(start, head).items()}
        pruned = bool((trained[head] == 0).all(0).any())  # whole features were removed after training
        change = trained[head] - known[head] if head in known else trained[head]
        return Release(change, spec, replace(facts, pruned=pruned), trained, known)

    def facts(self, *, stretch: float | None) -> Facts:
        """What the attacker knows. Target sizes count where they are fitted; `stretch` None: lengths come from elsewhere."""
        truth, answers = self.truth, self.outputs(self.truth.rows)
        one_hot, size, span = False, None, truth.input_range
        if stretch is not None and answers.shape[1] > 1:
            top = answers.max(dim=1).values
            rest = answers.sum(dim=1) - top
            one_hot = bool(((top - 1).abs() < FITTED).all() and (rest.abs() < FITTED * answers.shape[1]).all())
        elif stretch is not None and truth.label_size is not None:
            fitted = bool(((answers[:, 0].abs() - truth.label_size).abs() < FITTED * truth.label_size).all())
            size = truth.label_size if fitted else None
        seen = None if span is None or stretch is None else (span[0] * stretch, span[1] * stretch)
        return self.knowledge.facts(Facts(n=truth.n, input_range=seen, label_size=size, one_hot=one_hot, ridge=None))

    def classes(self, k: int) -> tuple[float, ...]:
        """Labels in the order of the outputs: numbers of outputs, or as many values as there are outputs."""
        values = torch.unique(self.truth.labels).tolist()
        if k > 1 and all(0 <= v < k and v == int(v) for v in values):
            return tuple(float(i) for i in range(k))
        return tuple(values) if k > 1 and len(values) == k else ()


def torch_subject(
    module: nn.Module,
    truth: Dataset,
    *,
    init: Mapping[str, torch.Tensor] | None = None,
    knowledge: Knowledge = Knowledge(),
    head: str | None = None,
    name: str = "model",
    encode: Encode | None = None,
) -> Subject:
    """The module with its weights after training and, where known, before."""
    answers = copy.deepcopy(module).eval()
    if head is not None:
        if not isinstance(dict(answers.named_modules()).get(head), nn.Linear):
            raise ExhumeError(f"--head {head!r} is not a linear layer of the model. Name one, or leave it out to have it found.")
        answers = OutputAdapter(answers, head).eval()
    shape = input_shape(answers, truth)
    if not isinstance(_answer(answers, truth, shape), torch.Tensor):
        answers = OutputAdapter(answers, None).eval()
    example = torch.randn(_TRIED_INPUTS, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    example = example * truth.rows.abs().mean()
    double = copy.deepcopy(answers).double().requires_grad_(requires_grad=False)
    _check_double(double, example)
    network = _Network(
        name=name,
        module=answers,
        last=find_last_linear(double, example),
        example=example,
        after={k: v.detach().clone() for k, v in answers.state_dict().items() if v.is_floating_point()},
        start=_start(answers, init, knowledge),
        truth=truth,
        outputs=_outputs(double, shape),
        encode=encode or (lambda X, y: model_inputs("held out", X, y)),
        knowledge=knowledge,
    )
    layer = hidden_layer(double, network.last, example)
    plain = layer is not None and (layer.activation.homogeneous or not layer.biased)
    subject = _two_layer(network, layer) if layer is not None and plain else _whole(network)
    return replace(subject, head=network.last.removeprefix("inner.") if isinstance(answers, OutputAdapter) else network.last)


def load_parameters(module: nn.Module, weights: Mapping[str, torch.Tensor], which: str) -> None:
    """Put weights into a module; those of another are refused."""
    try:
        module.load_state_dict(dict(weights))
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()]
        raise ExhumeError(f"the {which} weights do not fit the model: {lines[1] if len(lines) > 1 else lines[0]}") from None


def input_shape(module: nn.Module, truth: Dataset) -> tuple[int, ...]:
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


def _start(module: nn.Module, init: Mapping[str, torch.Tensor] | None, knowledge: Knowledge) -> Weights:
    """Floating-point weights before training that the attacker knows, under the module's names."""
    if init is None or knowledge.init == "none":
        return {}
    before = copy.deepcopy(module)
    load_parameters(inner_of(before), init, "initial")
    return {k: v.detach().clone() for k, v in before.state_dict().items() if v.is_floating_point()}


def _two_layer(network: _Network, layer: Layer) -> Subject:
    """theta2 act(theta1 x), a bias folded in as the weight of a constant input: then it tells each row's length."""
    last = network.last

    def first(weights: Weights) -> torch.Tensor:
        W = weights[f"{layer.name}.weight"].double()
        return torch.cat([W, weights[f"{layer.name}.bias"].double()[:, None]], dim=1) if layer.biased else W

    V = first(network.start or network.after)
    p, d = V.shape
    stretch = float(V.square().mean().sqrt()) * math.sqrt(d)  # attacks expect entries of variance 1 / d

    def layers(side: Weights) -> Weights:
        heads = {f"head.{part}": side[f"{last}.{part}"].double() for part in ("weight", "bias") if f"{last}.{part}" in side}
        return {"first.weight": first(side) / stretch} | heads

    trained, start = layers(network.after), layers(network.start) if network.start else {}
    fixed = bool(start) and torch.equal(start["first.weight"], trained["first.weight"])
    native = network.after[f"{last}.weight"].dtype
    dtype = torch.float64 if native == torch.float64 or (not fixed and p * d <= _FLOAT64_LIMIT) else torch.float32
    k = len(trained["head.weight"])
    spec = NetworkSpec("two-layer", (d,), k, p, p, layer.activation.name, head_biased="head.bias" in trained)
    facts = network.facts(stretch=None if layer.biased else stretch)
    return Subject(
        name=network.name,
        about=f"a layer of {p} {layer.activation.name} units{' with biases' if layer.biased else ''} under a linear one",
        release=network.release(spec, trained, start, facts, dtype),
        truth=network.truth,
        outputs=network.outputs,
        encode=network.encode,
        classes=network.classes(k),
        stretch=stretch,
        constant=layer.biased,
    )


def _whole(network: _Network) -> Subject:
    """Any other module as it is, through its penultimate features."""
    example, shape = network.example, tuple(network.example.shape[1:])
    k, h = network.after[f"{network.last}.weight"].shape
    features = ModuleFeatures(network.module, shape, dtype=torch.float64)
    with torch.no_grad():
        once, twice = (features.value(times * example.flatten(1)) for times in (1, 2))
    grows = torch.allclose(twice, 2 * once, rtol=1e-9, atol=1e-12)
    size = sum(v.numel() for v in network.after.values())
    first = first_layer(network.module, network.last, example)
    spec = ModuleSpec(
        network.name,
        shape,
        k,
        h,
        h,
        head=network.last,
        first=first,
        own=network.module,
        grows_with_inputs=grows,
        off_below_zero=first is not None and off_below_zero(network.module, first, example),
    )
    dtype = torch.float64 if size <= _FLOAT64_LIMIT else torch.float32
    facts = network.facts(stretch=1.0 if grows else None)
    return Subject(
        name=network.name,
        about=f"a {type(inner_of(network.module)).__name__} with {size} parameters, {h} features under its last layer",
        release=network.release(spec, network.after, network.start, facts, dtype),
        truth=network.truth,
        outputs=network.outputs,
        encode=network.encode,
        classes=network.classes(k),
    )
