"""Optimal Brain Surgeon against refitting without each feature in turn."""

from __future__ import annotations

import pytest
import torch

from exhume.attacks import GaussNewton
from exhume.errors import ExhumeError
from exhume.score import evaluate
from exhume.victims import RandomFeaturesVictim
from exhume.victims.pruning import optimal_brain_surgeon
from support.problems import small_sphere


def problem(p: int = 30, n: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(p, n, generator=generator, dtype=torch.float64), torch.randn(n, generator=generator, dtype=torch.float64)


def refit(Phi: torch.Tensor, y: torch.Tensor, alive: list[int]) -> torch.Tensor:
    theta = torch.zeros(len(Phi), dtype=torch.float64)
    theta[alive] = torch.linalg.pinv(Phi[alive].T) @ y
    return theta


def test_each_removal_is_the_cheapest_and_the_rest_interpolates() -> None:
    """The cost of a removal is the growth of ||theta||^2 when the rest is fitted again: found here by trying all of them."""
    Phi, y = problem()
    alive = list(range(len(Phi)))
    for _ in range(12):
        norms = {q: float(refit(Phi, y, [i for i in alive if i != q]).norm()) for q in alive}
        alive.remove(min(norms, key=norms.__getitem__))
    theta = optimal_brain_surgeon(Phi, y, 12 / 30)
    assert (theta != 0).nonzero().flatten().tolist() == alive
    assert torch.allclose(theta, refit(Phi, y, alive), atol=1e-10)
    assert torch.allclose(Phi.T @ theta, y, atol=1e-10)


def test_too_much_pruning_is_refused() -> None:
    with pytest.raises(ExhumeError, match="too few to fit"):
        optimal_brain_surgeon(*problem(), 0.9)


def test_a_pruned_model_gives_up_its_data() -> None:
    data = small_sphere(d=20, n=5)
    trained = RandomFeaturesVictim(p=1200, prune=0.5).train(data)
    assert int((trained.release.weights == 0).sum()) == 600
    assert trained.train_loss < 1e-20
    guess = GaussNewton().run(trained.release)
    assert guess.certified
    assert evaluate(guess, data, trained.release).rho_signed < 1e-8
