"""Networks against dense arithmetic: the Kronecker form of k outputs, and the gradient."""

from __future__ import annotations

import pytest
import torch

from exhume.architectures import NETWORKS, NetworkSpec, describe_network, initial_parameters
from exhume.attacks.span.module import ModuleSpan
from exhume.features import ModuleFeatures
from support.problems import state_at

SHAPE = (1, 8, 8)


def small(name: str, *, outputs: int = 3, last_layer: int = 200) -> tuple[NetworkSpec, ModuleFeatures]:
    spec = describe_network(name, SHAPE, outputs=outputs, last_layer=last_layer)
    module = spec.module(initial_parameters(spec, seed=0, dtype=torch.float64))
    return spec, ModuleFeatures(module, SHAPE, dtype=torch.float64)


def rows(m: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(m, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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
