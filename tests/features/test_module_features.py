"""Features of any module: values and derivatives against dense Jacobians, and modules that cannot be attacked."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from exhume.architectures import NETWORKS, describe_network, initial_parameters
from exhume.errors import ExhumeError
from exhume.features import ModuleFeatures
from exhume.features.module_features import find_last_linear
from support.drawn_networks import PICTURE, rows


def jacobians(features: ModuleFeatures, X: torch.Tensor) -> torch.Tensor:
    """(m, p, d)."""
    return torch.stack([torch.autograd.functional.jacobian(lambda x: features.value(x[None])[0], x, vectorize=True) for x in X])


def small_module() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 2)).double()


@pytest.mark.parametrize("name", NETWORKS)
def test_jvp_and_vjp_match_dense_jacobians(name: str) -> None:
    spec = describe_network(name, PICTURE, outputs=3, last_layer=200)
    features = ModuleFeatures(spec.module(initial_parameters(spec, seed=0, dtype=torch.float64)), PICTURE, dtype=torch.float64)
    X, dX = rows(3), rows(3, seed=1)
    dense = jacobians(features, X)
    value, change = features.jvp(X, dX)
    assert torch.allclose(value, features.value(X))
    assert torch.allclose(change, torch.einsum("mpd,md->mp", dense, dX), atol=1e-12)
    cotangent = torch.randn(value.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert torch.allclose(features.vjp(X, cotangent), torch.einsum("mpd,mp->md", dense, cotangent), atol=1e-12)


def test_torchs_own_attention_has_both_derivatives() -> None:
    """The fused kernels of inference have none."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    module = nn.Sequential(nn.Unflatten(1, (8, 8)), layer, nn.Flatten(), nn.Linear(64, 2)).double().eval()
    features = ModuleFeatures(module, (64,), dtype=torch.float64)
    X, dX, h = rows(2), rows(2, seed=1), 1e-6
    value, change = features.jvp(X, dX)
    torch.testing.assert_close(change, (features.value(X + h * dX) - features.value(X - h * dX)) / (2 * h), rtol=1e-5, atol=1e-7)
    cotangent = torch.randn(value.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    torch.testing.assert_close((features.vjp(X, cotangent) * dX).sum(), (change * cotangent).sum())


def test_inputs_may_be_coordinates_in_a_basis() -> None:
    basis = torch.linalg.qr(rows(64, 5))[0]
    whole = ModuleFeatures(small_module(), PICTURE, dtype=torch.float64)
    inside = ModuleFeatures(small_module(), PICTURE, dtype=torch.float64, basis=basis)
    Z, dZ = rows(3, 5), rows(3, 5, seed=1)
    assert (inside.d, inside.p) == (5, 20)
    torch.testing.assert_close(inside.value(Z), whole.value(Z @ basis.T))
    torch.testing.assert_close(inside.jvp(Z, dZ)[1], whole.jvp(Z @ basis.T, dZ @ basis.T)[1])
    cotangent = rows(3, 20, seed=2)
    torch.testing.assert_close(inside.vjp(Z, cotangent), whole.vjp(Z @ basis.T, cotangent) @ basis)


def test_any_module_with_a_linear_end_is_accepted() -> None:
    module = small_module()
    features = ModuleFeatures(module, PICTURE, dtype=torch.float64)
    assert (features.last, features.p) == ("3", 20)
    X = rows(2)
    assert torch.allclose(features.value(X), torch.tanh(module[1](X)))


def test_the_module_itself_is_left_as_it_was() -> None:
    module = small_module().float()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    features = ModuleFeatures(module, PICTURE, dtype=torch.float64)
    assert isinstance(module[3], nn.Linear)
    assert all(parameter.requires_grad and parameter.dtype == torch.float32 for parameter in module.parameters())
    for parameter in module.parameters():
        parameter.data.zero_()
    expected = torch.tanh(rows(2) @ before["1.weight"].double().T + before["1.bias"].double())
    torch.testing.assert_close(features.value(rows(2)), expected)


def test_a_linear_layer_alone_has_its_inputs_as_features() -> None:
    features = ModuleFeatures(nn.Linear(64, 3), (64,), dtype=torch.float64)
    assert (features.last, features.p) == ("", 64)
    assert torch.equal(features.value(rows(2)), rows(2))


class _Nested(nn.Module):
    """A linear end inside another module, after a linear layer that runs but does not end it, and before one that never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 8), nn.ReLU())
        self.out = nn.ModuleDict({"last": nn.Linear(8, 2)})
        self.unused = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out["last"](self.body(x))


def test_the_last_layer_is_found_by_running() -> None:
    assert find_last_linear(_Nested(), rows(2).float()) == "out.last"
    assert ModuleFeatures(_Nested(), (64,), dtype=torch.float64).p == 8


def test_removed_features_take_no_part() -> None:
    module = small_module()
    alive = torch.arange(20) % 3 != 0
    whole, part = (ModuleFeatures(module, PICTURE, dtype=torch.float64, alive=which) for which in (None, alive))
    X, dX = rows(2), rows(2, seed=1)
    assert part.p == int(alive.sum())
    assert torch.equal(part.value(X), whole.value(X)[:, alive])
    cotangent = torch.randn(2, part.p, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert torch.allclose((part.jvp(X, dX)[1] * cotangent).sum(), (part.vjp(X, cotangent) * dX).sum())


class _NoLinearEnd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x.flatten(1)))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (_NoLinearEnd(), "does not end in a linear layer"),
        (nn.Sequential(nn.Flatten(), nn.ReLU()), "does not end in a linear layer"),
        (nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(64, 2)), "training mode"),
        (nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(64, 2)), "training mode"),
    ],
)
def test_modules_that_cannot_be_attacked_are_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        find_last_linear(module, torch.randn(2, *PICTURE))


def test_a_layer_in_evaluation_mode_is_no_obstacle() -> None:
    module = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(64, 2)).eval()
    assert find_last_linear(module, torch.randn(2, *PICTURE)) == "3"


def test_a_noisy_forward_is_refused() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.flatten(1) + torch.randn_like(x.flatten(1)))

    with pytest.raises(ExhumeError, match="two answers"):
        find_last_linear(Noisy(), torch.randn(2, *PICTURE))
