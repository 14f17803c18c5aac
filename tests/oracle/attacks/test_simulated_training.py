"""Training run again, against the training itself and against differences."""

from __future__ import annotations

import pytest
import torch

from exhume.attacks.simulated_training import Samples, SimulatedTraining
from exhume.data import Dataset
from exhume.knowledge import Knowledge
from exhume.linalg.pass_counter import PassCounter
from exhume.victims import NetworkVictim
from exhume.victims.losses import loss_named
from support.problems import small_sphere

MEMORY = 2**28


def again(data: Dataset, *, memory: int = MEMORY, **settings: object) -> tuple[SimulatedTraining, Samples]:
    """A victim's training as a function of its samples, and the true ones."""
    victim = NetworkVictim("mlp", 1, **({"widths": (12,)} | settings), knowledge=Knowledge(recipe=True))  # type: ignore[arg-type]
    training = SimulatedTraining(victim.train(data).release, device="cpu", memory=memory, passes=PassCounter())
    targets = loss_named(victim.loss).targets(data, victim.k).double()
    targets = (targets + 1) / 2 if victim.loss == "logistic" else targets
    ones = torch.ones(data.n, dtype=torch.float64)
    return training, Samples(data.rows.double() @ training.basis, targets, ones)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"activation": "tanh", "weight_decay": 1e-3, "max_steps": 200},
        {"loss": "logistic"},
        {"k": 3, "loss": "cross-entropy", "optimizer": "sgd", "batch": 3, "epochs": 5},
        {"widths": (12, 5), "bias": True, "optimizer": "momentum", "batch": 2, "epochs": 4, "weight_decay": 0.01},
        {"activation": "gelu", "optimizer": "adam", "batch": 4, "epochs": 6},
    ],
)
def test_the_true_samples_end_at_the_released_weights(settings: dict[str, object]) -> None:
    training, true = again(small_sphere(d=10, n=5), **settings)
    assert float(training.misses(true).norm()) < 1e-11


def test_other_samples_do_not() -> None:
    training, true = again(small_sphere(d=10, n=5), optimizer="sgd", batch=2, epochs=5)
    orders = torch.tensor([[0, 1, 2, 3, 4], [1, 0, 2, 3, 4]])
    right, wrong = training.losses_in_orders(true, orders).tolist()
    assert right < 1e-20 < 1e-8 < wrong


@pytest.mark.parametrize("memory", [MEMORY, 1])
def test_the_derivative_is_that_of_differences(memory: int) -> None:
    training, true = again(small_sphere(d=8, n=3), memory=memory, activation="tanh", optimizer="momentum", batch=2, epochs=4)
    flat = true.flat(free_weights=True)
    misses, J = training.derivative(true, free_weights=True)
    assert torch.allclose(misses, training.misses(true))
    assert J.shape == (training.parameters, len(flat))
    step = 1e-6
    for i in range(0, len(flat), 5):
        move = torch.zeros_like(flat)
        move[i] = step
        difference = (training.misses(true.moved_to(flat + move)) - training.misses(true.moved_to(flat - move))) / (2 * step)
        assert torch.allclose(J[:, i], difference, rtol=1e-5, atol=1e-7)


def test_equations_of_one_unit_are_judged_together() -> None:
    training, true = again(small_sphere(d=8, n=3))
    units = training.units()
    assert len(units) == len(training.misses(true)) == training.parameters
    first = training.goal["first.weight"]
    assert (units[: first.numel()].reshape(first.shape) == torch.arange(12)[:, None]).all()
    assert len(set(units[first.numel() :].tolist())) == training.parameters - first.numel()
