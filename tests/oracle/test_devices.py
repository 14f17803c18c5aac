"""The inner loops on a device that is not the CPU: meta tensors check that nothing is left there and nothing waits for it."""

from __future__ import annotations

import pytest
import torch

from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import Point, State
from exhume.features import MatrixFeatures, activation
from exhume.linalg.projector import Projector

P, D, M, K = 600, 12, 5, 2


@pytest.mark.parametrize("act", ["relu", "tanh"])
@pytest.mark.parametrize("nuisance", [False, True])
def test_products_stay_on_the_device_and_never_wait(act: str, nuisance: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockwiseSpan, "_use", lambda self, count: setattr(self, "p", count))  # its sums are read on the host
    other = torch.device("meta")  # reading a value of it is an error

    def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(*shape, device=other, dtype=dtype)

    problem = BlockwiseSpan(MatrixFeatures(tensor(P, D), activation(act)), tensor(K, P), radius=1.0, nuisance=nuisance)
    problem.theta = problem._weights
    double = torch.float64
    projector = Projector(tensor(M, M, dtype=double), None, None)
    zeta = tensor(D + 1, K, dtype=double) if nuisance else None
    parts = (tensor(P, M), tensor(P, M), projector, tensor(M, K, dtype=double), zeta, tensor(P, K), tensor(M, D))
    state = State(Point(tensor(M, D)), *parts, loss=0.0)
    unknowns = (tensor(M, D), tensor(M, K, dtype=double), *([] if zeta is None else [zeta]))
    made = [*problem.gauss_newton_product(state, unknowns), problem.moment_product(tensor(P), tensor(D, 3, dtype=double))]
    made += [problem.row_curvature(state), *problem._residual(state.Phi, state.slopes, state.alpha, zeta)]
    assert all(part.device.type == "meta" for part in made)
    with pytest.raises(RuntimeError):
        problem.state(state.at)  # a state ends in a loss that the host reads: the check can fail
