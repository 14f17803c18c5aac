"""Networks against dense arithmetic: Jacobians, the Kronecker form of k outputs, the tangent kernel, the learned subspace."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from exhume.architectures import NETWORKS, NetworkSpec, describe_network, initial_parameters
from exhume.attacks.span.module import ModuleSpan
from exhume.attacks.span.trained_network import Learned, input_space, learned, row_space
from exhume.errors import ExhumeError
from exhume.features import ModuleFeatures
from exhume.features.module_features import find_last_linear
from support.problems import state_at

SHAPE = (1, 8, 8)


def small(name: str, *, outputs: int = 3, last_layer: int = 200) -> tuple[NetworkSpec, ModuleFeatures]:
    spec = describe_network(name, SHAPE, outputs=outputs, last_layer=last_layer)
    module = spec.module(initial_parameters(spec, seed=0, dtype=torch.float64))
    return spec, ModuleFeatures(module, SHAPE, dtype=torch.float64)


def rows(m: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(m, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", NETWORKS)
def test_jvp_and_vjp_match_dense_jacobians(name: str) -> None:
    _, features = small(name)
    X, dX = rows(3), rows(3, 1)
    dense = torch.stack([torch.autograd.functional.jacobian(lambda x: features.value(x[None])[0], x) for x in X])  # (m, p, d)
    value, change = features.jvp(X, dX)
    assert torch.allclose(value, features.value(X))
    assert torch.allclose(change, torch.einsum("mpd,md->mp", dense, dX), atol=1e-12)
    cotangent = torch.randn(value.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert torch.allclose(features.vjp(X, cotangent), torch.einsum("mpd,mp->md", dense, cotangent), atol=1e-12)


@pytest.mark.parametrize("name", NETWORKS)
def test_k_outputs_match_the_explicit_kronecker_form(name: str) -> None:
    """The paper's (m k) x (k h) Jacobian of the last layer gives the same loss, coefficients and Gauss-Newton product."""
    spec, features = small(name)
    theta = torch.randn(spec.outputs, spec.count, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    problem = ModuleSpan(features, theta, radius=None)
    X, dX = rows(3), rows(3, 1)
    state = state_at(problem, X)
    Phi = features.value(X)  # (m, h)
    kron = torch.kron(torch.eye(spec.outputs, dtype=torch.float64), Phi)  # (k m, k h)
    flat = theta.flatten()
    coefficients = torch.linalg.lstsq(kron.T, flat[:, None]).solution[:, 0]
    residual = flat - kron.T @ coefficients
    assert state.loss == pytest.approx(float(residual @ residual / (flat @ flat)), rel=1e-9)
    assert torch.allclose(state.alpha.T.flatten(), coefficients, atol=1e-9)
    jacobians = torch.stack([torch.autograd.functional.jacobian(lambda x: features.value(x[None])[0], x) for x in X])
    da = torch.randn(state.alpha.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    U = torch.einsum("mpd,md,mk->pk", jacobians, dX, state.alpha) + Phi.T @ da
    image = problem.gauss_newton_product(state, (dX, da))
    assert torch.allclose(image[0], torch.einsum("mpd,pk,mk->md", jacobians, U, state.alpha), atol=1e-10)
    assert torch.allclose(image[1], Phi @ U, atol=1e-10)


def test_the_gradient_is_that_of_the_loss() -> None:
    spec, features = small("vit")
    theta = torch.randn(spec.outputs, spec.count, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    problem = ModuleSpan(features, theta, radius=None)
    X, direction = rows(2), rows(2, 5)
    slope = -2 * float((state_at(problem, X).gradient * direction).sum()) / problem.energy
    step = 1e-6
    difference = (state_at(problem, X + step * direction).loss - state_at(problem, X - step * direction).loss) / (2 * step)
    assert slope == pytest.approx(difference, rel=1e-5)


def test_row_space_ends_at_the_gap_and_weight_decay_is_taken_out() -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(50, 30, generator=generator, dtype=torch.float64)
    low = torch.randn(50, 4, generator=generator, dtype=torch.float64) @ torch.randn(
        4, 30, generator=generator, dtype=torch.float64
    )
    Q = row_space(low + 1e-9 * start)
    assert Q.shape == (30, 4)
    assert torch.allclose(low @ Q @ Q.T, low, atol=1e-6)
    plain = Learned({"w": 0.9 * start + low}, {"w": start}, kept=0.9)
    assert torch.allclose(plain.change("w"), low)
    assert torch.allclose(plain.at("midpoint")["w"], 0.9 * start + low / 2)


def test_a_convolution_allows_only_inputs_with_known_patches() -> None:
    """One picture under a 12x12 kernel: its 49 patches do not fill a patch's 144 dimensions, and it is among what is left."""
    spec = NetworkSpec("resnet", (1, 16, 16), 1, 5, 5 * 49)
    generator = torch.Generator().manual_seed(1)
    pictures = torch.randn(1, 1, 16, 16, generator=generator, dtype=torch.float64)
    patches = torch.nn.functional.unfold(pictures, 12, padding=1)[0].T  # (49, 144)
    mixing = torch.randn(60, len(patches), generator=generator, dtype=torch.float64)
    basis = input_space((mixing @ patches).reshape(60, 1, 12, 12), spec)
    assert basis.shape[1] < 256
    x = pictures.flatten()
    assert torch.allclose(basis @ (basis.T @ x), x, atol=1e-6)


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
        (nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(64, 2)), "training mode"),
        (nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(64, 2)), "training mode"),
    ],
)
def test_modules_that_cannot_be_attacked_are_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        find_last_linear(module, torch.randn(2, *SHAPE))


def test_a_noisy_forward_is_refused() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.flatten(1) + torch.randn_like(x.flatten(1)))

    with pytest.raises(ExhumeError, match="two answers"):
        find_last_linear(Noisy(), torch.randn(2, *SHAPE))


def test_any_module_with_a_linear_end_is_accepted() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 2)).double()
    features = ModuleFeatures(module, SHAPE, dtype=torch.float64)
    assert (features.last, features.p) == ("3", 20)
    X = rows(2)
    assert torch.allclose(features.value(X), torch.tanh(module[1](X)))


def test_removed_features_take_no_part() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 2)).double()
    alive = torch.arange(20) % 3 != 0
    whole, part = (ModuleFeatures(module, SHAPE, dtype=torch.float64, alive=which) for which in (None, alive))
    X, dX = rows(2), rows(2, 1)
    assert part.p == int(alive.sum())
    assert torch.equal(part.value(X), whole.value(X)[:, alive])
    cotangent = torch.randn(2, part.p, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert torch.allclose((part.jvp(X, dX)[1] * cotangent).sum(), (part.vjp(X, cotangent) * dX).sum())


def test_learned_needs_decay_to_differ_from_the_plain_change() -> None:
    from exhume.victims import NetworkVictim
    from support.problems import small_sphere

    data = small_sphere(d=20, n=4)
    decayed = NetworkVictim("two-layer", 800, k=2, weight_decay=1e-2, max_steps=300).train(data).release
    course = learned(decayed)
    assert 0 < course.kept < 1
    spectrum = torch.linalg.svdvals(course.change("first.weight"))
    assert spectrum[4] < 1e-6 * spectrum[0]  # four samples, four dimensions, once the decay is taken out
    assert torch.linalg.svdvals(decayed.trained["first.weight"] - decayed.initial["first.weight"])[4] > 1e-3 * spectrum[0]


def test_the_learned_subspace_is_found_under_rounding_and_not_invented() -> None:
    draw = torch.Generator().manual_seed(0)
    change = torch.randn(300, 6, generator=draw, dtype=torch.float64) @ torch.randn(6, 40, generator=draw, dtype=torch.float64)
    noise = torch.randn(300, 40, generator=draw, dtype=torch.float64)
    for size in (0.0, 1e-3, 0.1):
        assert row_space(change + size * noise).shape[1] == 6
    decaying = noise * torch.logspace(0, -2, 40, dtype=torch.float64)
    assert row_space(decaying).shape[1] == 40
