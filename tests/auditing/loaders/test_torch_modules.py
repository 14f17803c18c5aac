"""Modules as subjects: two layers recognised with the same answers, others whole, and what an attacker is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from exhume.auditing import AuditInputs, Subject, subject_of
from exhume.auditing.loaders.torch_modules import load_parameters, torch_subject
from exhume.data import Dataset
from exhume.data.model_inputs import model_inputs
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from support.audit_cases import network_case, network_inputs, state, vectors
from support.models import digit_pictures, two_layer

X, Y = digit_pictures(4)
DIGITS = model_inputs("digits", X, Y)


def net(*layers: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    for layer in layers:
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
    return nn.Sequential(*layers).double().eval()


def deep() -> nn.Sequential:
    return net(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 10))


def features(subject: Subject) -> torch.Tensor:
    """The release's own features of the training rows, (p, n)."""
    (Phi,) = subject.release.model.feature_blocks(subject.release.trained)(subject.rows_for(subject.truth.rows))
    return Phi


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("known", ["all", "none"])
def test_two_layers_are_recognised_and_answer_as_before(bias: bool, known: str) -> None:
    module = two_layer(30, bias=bias)
    start = state(module)
    module[-1].weight.data += 0.1
    subject = torch_subject(module, DIGITS, init=start, knowledge=Knowledge(init=known))
    assert subject.about == f"a layer of 30 relu units{' with biases' if bias else ''} under a linear one"
    expected = module(torch.as_tensor(X)).detach()
    torch.testing.assert_close(subject.outputs(DIGITS.rows), expected)
    head = subject.release.trained["head.weight"]
    answer = features(subject).T @ head.T + (subject.release.trained["head.bias"] if bias else 0.0)
    torch.testing.assert_close(answer, expected)
    V = subject.release.trained["first.weight"]
    assert V.shape == (30, 65 if bias else 64)
    assert float(V.square().mean() * V.shape[1]) == pytest.approx(1)  # attacks expect entries of variance 1 / d
    assert (subject.constant, subject.head) == (bias, "3")


@pytest.mark.parametrize("module", [deep(), net(nn.Flatten(), nn.Linear(64, 30), nn.Tanh(), nn.Linear(30, 10))])
def test_other_modules_are_taken_whole_and_answer_as_before(module: nn.Sequential) -> None:
    """A bias under an activation that is not homogeneous cannot be folded in, so that such a network is one of them."""
    subject = torch_subject(module, DIGITS)
    assert subject.about.startswith("a Sequential with ")
    expected = module(torch.as_tensor(X)).detach()
    torch.testing.assert_close(features(subject).T @ module[-1].weight.T.detach() + module[-1].bias.detach(), expected)
    torch.testing.assert_close(subject.outputs(DIGITS.rows), expected)
    assert (subject.constant, subject.stretch) == (False, 1.0)


def test_the_release_is_the_change_of_the_last_layer_where_its_start_is_known() -> None:
    module, start = deep(), state(deep())
    module[-1].weight.data += 1.0
    for known, expected, names in (
        ("all", torch.ones(10, 9), set(start)),
        ("last", torch.ones(10, 9), {"5.weight"}),
        ("none", module[-1].weight.data, set()),
    ):
        release = torch_subject(module, DIGITS, init=start, knowledge=Knowledge(init=known)).release
        torch.testing.assert_close(release.weights, expected.double())
        assert set(release.initial) == names


def test_a_last_layer_trained_alone_leaves_fixed_features() -> None:
    module = two_layer(30, bias=False)
    start = state(module)
    module[-1].weight.data += 0.1
    assert torch_subject(module, DIGITS, init=start).release.features_stayed
    module[1].weight.data += 0.1
    assert not torch_subject(module, DIGITS, init=start).release.features_stayed


def test_one_hot_targets_count_where_they_are_fitted() -> None:
    fitted = network_case().release.facts
    assert fitted.one_hot
    assert not torch_subject(two_layer(30, bias=False), DIGITS).release.facts.one_hot
    assert not torch_subject(network_inputs(bias=True).trained, DIGITS).release.facts.one_hot  # biases tell lengths already


def test_the_range_of_pixels_is_told_in_the_attackers_units() -> None:
    subject = network_case()
    low, high = subject.truth.input_range or (0.0, 0.0)
    span = subject.release.facts.input_range
    assert span == (pytest.approx(low * subject.stretch), pytest.approx(high * subject.stretch))


@pytest.mark.parametrize(("factor", "size"), [(1.0, 1.0), (1.01, 1.0), (1.05, None)])
def test_a_label_size_counts_where_the_outputs_have_it(factor: float, size: float | None) -> None:
    truth = replace(vectors(torch.eye(6)[:4] + 0.1), label_size=1.0)
    module = net(nn.Linear(6, 40, bias=False), nn.ReLU(), nn.Linear(40, 1, bias=False))
    Phi = module[:2](truth.rows).detach()
    module[2].weight.data = factor * (torch.linalg.pinv(Phi) @ truth.labels)[None]
    assert torch_subject(module, truth).release.facts.label_size == size


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0.0, 3.0, 9.0, 1.0], tuple(float(i) for i in range(10))),
        ([0.5, 3.0, 9.0, 1.0], ()),
        ([0.0, 10.0, 1.0, 2.0], ()),
    ],
)
def test_classes_are_numbers_of_outputs(labels: list[float], classes: tuple[float, ...]) -> None:
    assert torch_subject(deep(), replace(DIGITS, labels=torch.tensor(labels).double())).classes == classes


def test_classes_may_be_as_many_values_as_there_are_outputs() -> None:
    module = net(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
    assert torch_subject(module, vectors(torch.eye(6)[:4], [-1, 7, 7, -1])).classes == (-1.0, 7.0)
    single = net(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1))
    assert torch_subject(single, vectors(torch.eye(6)[:4], [0, 0, 1, 1])).classes == ()


def test_pictures_may_be_fed_flat() -> None:
    module = net(nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 10))
    subject = torch_subject(module, DIGITS)
    torch.testing.assert_close(subject.outputs(DIGITS.rows), module(DIGITS.rows).detach())


def test_zeros_in_a_whole_column_of_the_last_layer_are_pruned_features() -> None:
    module = two_layer(30)
    module[-1].weight.data[:, :10] = 0
    release = torch_subject(module, DIGITS).release
    assert release.facts.pruned
    assert int(release.alive.sum()) == 20


@pytest.mark.parametrize(("relu_bias", "grows"), [(False, True), (True, False)])
def test_whole_modules_are_tried_for_growth_with_their_inputs(relu_bias: bool, grows: bool) -> None:
    layers = [nn.Flatten(), nn.Linear(64, 9, bias=relu_bias), nn.ReLU(), nn.Linear(9, 8, bias=relu_bias), nn.ReLU()]
    assert torch_subject(net(*layers, nn.Linear(8, 10)), DIGITS).release.model.homogeneous is grows


@pytest.mark.parametrize(
    ("module", "settings", "message"),
    [
        (deep(), {"head": "2"}, "--head '2' is not a linear layer of the model"),
        (deep(), {"init": {"x": torch.ones(1)}}, "the initial weights do not fit the model: Missing key"),
        (net(nn.Linear(5, 2)), {}, r"does not take inputs of shape \(1, 8, 8\): .*\. Check --data and --model"),
        (net(nn.Flatten(), nn.Linear(64, 2), nn.ReLU()), {}, "does not end in a linear layer"),
    ],
)
def test_misfits_are_told(module: nn.Module, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        torch_subject(module, DIGITS, **settings)


def test_the_users_module_stays_as_it_was() -> None:
    module = two_layer(10).float().train()
    before = state(module)
    torch_subject(module, DIGITS)
    assert module.training
    assert all(torch.equal(value, before[name]) and value.dtype == before[name].dtype for name, value in state(module).items())
    assert all(p.requires_grad for p in module.parameters())


def test_held_out_samples_are_encoded_as_told() -> None:
    def encode(A: np.ndarray, b: np.ndarray) -> Dataset:
        return model_inputs("others", A, b, mean=(1.0,))

    subject = torch_subject(deep(), DIGITS, encode=encode, name="mine")
    assert subject.encode is encode
    assert subject.name == "mine"
    plain = torch_subject(deep(), DIGITS)
    np.testing.assert_allclose(plain.encode(X, Y).rows.numpy(), X.reshape(4, -1))


def test_loading_weights_names_the_first_misfit() -> None:
    with pytest.raises(ExhumeError, match=r"the trained weights do not fit the model: size mismatch for 1.weight") as error:
        load_parameters(two_layer(10), state(two_layer(11)), "trained")
    assert "\n" not in str(error.value)


class _Casts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x.float().flatten(1))


class _Asserts(_Casts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[1] == 3, "three channels are needed"
        return self.last(x.flatten(1))


class _Several(_Casts):
    def forward(self, x: torch.Tensor) -> object:
        return {"hidden": x, "logits": self.last(x.flatten(1))}


def test_code_of_strangers_fails_in_one_line() -> None:
    data = digit_pictures(4)
    with pytest.raises(ExhumeError, match="float64"):
        subject_of(AuditInputs(_Casts(), data))
    with pytest.raises(ExhumeError, match="three channels"):
        subject_of(AuditInputs(_Asserts(), data))
    with pytest.raises(ExhumeError, match="failed"):
        subject_of(AuditInputs(state(_Casts()), data, model=nn.Linear))
    assert subject_of(AuditInputs(_Several(), data))[0].release.k == 10
