"""The expected curvature: against derivatives of the kernel in closed form, against dense algebra, and against drawn features."""

from __future__ import annotations

import math

import torch

from exhume.attacks.span.expected_curvature import ExpectedCurvature
from exhume.features import activation, beyond_linear, kernel_beyond_linear

D, M, K = 12, 4, 2


def relu_kernel(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """E |v x| |v y| / 4 - E |v x| E |v y| / 4 for v ~ N(0, I/d): that of ReLU without its linear part."""
    size = x.norm() * y.norm() / D
    c = (x @ y) / (x.norm() * y.norm())
    return size * ((1 - c * c).sqrt() + c * torch.asin(c) - 1) / (2 * math.pi)


def rows_and_coefficients() -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    X = torch.randn(M, D, generator=draw, dtype=torch.float64)
    return X * (math.sqrt(D) / X.norm(dim=1, keepdim=True)), torch.randn(M, K, generator=draw, dtype=torch.float64)


def dense(curvature: ExpectedCurvature) -> torch.Tensor:
    """The matrix on (rows, coefficients) by its products, (M D + M K) squared."""
    unit = torch.eye(M * D, dtype=torch.float64).reshape(M * D, M, D)
    other = torch.eye(M * K, dtype=torch.float64).reshape(M * K, M, K)
    rows = torch.stack([curvature.tangent(curvature.rows_product(curvature.tangent(u))).flatten() for u in unit])
    mixed = torch.stack([curvature.towards_rows(u).flatten() for u in other])
    return torch.cat([torch.cat([rows, mixed.T], dim=1), torch.cat([mixed, torch.zeros(M * K, M * K)], dim=1)])


def test_blocks_are_second_derivatives_of_the_kernel() -> None:
    X, alpha = rows_and_coefficients()
    curvature = ExpectedCurvature(kernel_beyond_linear(activation("relu"), scale=1.0), X, alpha, radius=math.sqrt(D))
    found = dense(curvature)
    for i in range(M):
        for j in range(M):
            if i == j:
                continue  # there the kernel has a kink, which tangents do not see
            P, Q = (torch.eye(D, dtype=torch.float64) - torch.outer(x, x) / D for x in (X[i], X[j]))
            x, y = X[i].clone().requires_grad_(), X[j].clone().requires_grad_()
            first = torch.autograd.grad(relu_kernel(x, y), x, create_graph=True)[0]
            mixed = torch.stack([torch.autograd.grad(g, y, retain_graph=True)[0] for g in first])
            expected = float(alpha[i] @ alpha[j]) * P @ mixed @ Q
            torch.testing.assert_close(found[i * D : (i + 1) * D, j * D : (j + 1) * D], expected, atol=1e-6, rtol=1e-4)
            pull = torch.outer(P @ first.detach(), alpha[i])  # from coefficient j to row i
            place = M * D + j * K
            torch.testing.assert_close(found[i * D : (i + 1) * D, place : place + K], pull, atol=1e-6, rtol=1e-4)


def test_it_is_the_mean_of_what_features_give() -> None:
    X, alpha = rows_and_coefficients()
    curvature = ExpectedCurvature(kernel_beyond_linear(activation("relu"), scale=1.0), X, alpha, radius=math.sqrt(D))
    act = beyond_linear(activation("relu"), scale=1.0)
    draw = torch.Generator().manual_seed(1)
    move = curvature.tangent(torch.randn(M, D, generator=draw, dtype=torch.float64))
    seen, counted = torch.zeros_like(move), 0
    for _ in range(20):
        V = torch.randn(100_000, D, generator=draw, dtype=torch.float64) / math.sqrt(D)
        slopes = act.slope(V @ X.T)
        image = (slopes * (V @ move.T)) @ alpha  # J move, (b, k)
        seen += (slopes * (image @ alpha.T)).T @ V
        counted += len(V)
    seen, expected = curvature.tangent(seen / counted), curvature.tangent(curvature.rows_product(move))
    assert float((seen - expected).norm() / expected.norm()) < 0.02


def test_a_solve_is_the_dense_one() -> None:
    X, alpha = rows_and_coefficients()
    kernel = kernel_beyond_linear(activation("relu"), scale=1.0)
    curvature = ExpectedCurvature(kernel, X, alpha, radius=math.sqrt(D))
    draw = torch.Generator().manual_seed(2)
    gradient = curvature.tangent(torch.randn(M, D, generator=draw, dtype=torch.float64))
    pull = torch.randn(M, K, generator=draw, dtype=torch.float64)
    ridge = torch.rand(M, generator=draw, dtype=torch.float64) * 0.05 + 0.01
    matrix = dense(curvature)
    values = kernel.value(((X @ X.T) / D).clamp(-1, 1))
    matrix[M * D :, M * D :] = torch.kron(values, torch.eye(K, dtype=torch.float64))
    matrix[: M * D, : M * D] += torch.diag(ridge.repeat_interleave(D))
    right = torch.cat([gradient.flatten(), pull.flatten()])
    expected = torch.linalg.solve(matrix, right)
    followed = torch.linalg.solve(values, pull)
    move = curvature.solve(gradient - curvature.towards_rows(followed), ridge)
    torch.testing.assert_close(move.flatten(), expected[: M * D], rtol=0, atol=2e-3 * float(expected.norm()))
    torch.testing.assert_close(curvature.tangent(move), move)
