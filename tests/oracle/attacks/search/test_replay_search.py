"""The parts of the search through training."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from exhume.attacks.search.replay_search import CauchyCost, ReplaySearch, ReplaySettings, Stage, best_places, removal_costs
from exhume.attacks.simulated_training import Samples, SimulatedTraining
from exhume.knowledge import Knowledge
from exhume.linalg.pass_counter import PassCounter
from exhume.victims import NetworkVictim
from support.problems import small_sphere


def tanh_training(**settings: object) -> tuple[SimulatedTraining, Samples]:
    """A tanh network's training, and its true samples."""
    data = small_sphere(d=10, n=4)
    usual: dict[str, object] = {"widths": (30,), "activation": "tanh", "epochs": 30}
    victim = NetworkVictim("mlp", 1, **(usual | settings), knowledge=Knowledge(recipe=True))  # type: ignore[arg-type]
    training = SimulatedTraining(victim.train(data).release, device="cpu", memory=2**28, passes=PassCounter())
    return training, Samples(data.rows.double() @ training.basis, data.labels.double()[:, None], torch.ones(4).double())


def searching(training: SimulatedTraining, **settings: object) -> ReplaySearch:
    """A search with n = 4."""
    return ReplaySearch(training, norm=10**0.5, kinks=False, seed=0, starts=4, enough=1e-15, **settings)  # type: ignore[arg-type]


def test_a_crowd_loses_one_candidate_at_a_time_and_ends_with_weights_of_one() -> None:
    training, _ = tanh_training()
    search = searching(training, settings=ReplaySettings(most_steps=8))
    state = search._random_start(1, 0)
    counts = [state.samples.m]
    while state.attempt == 1 and not search.done(state):
        state = search.advance(state)
        counts.append(state.samples.m)
        if state.stage is Stage.EXACT:
            break
    assert counts[0] == 6
    assert all(before - after in (0, 1) for before, after in pairwise(counts))
    assert state.samples.m == 4
    assert (state.samples.weights == 1).all()


def test_a_start_near_the_truth_ends_at_it() -> None:
    training, true = tanh_training()
    noise = torch.randn(true.rows.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    search = searching(training, first=true.rows + 0.1 * noise)
    state = search.begin()
    while not search.done(state):
        state = search.advance(state)
    assert state.attempt == 0
    assert float((state.samples.rows - true.rows).norm() / true.rows.norm()) < 1e-9


def test_candidates_find_their_places() -> None:
    training, true = tanh_training(optimizer="sgd", batch=2, lr=0.1, epochs=10)
    shuffled = torch.tensor([2, 0, 3, 1])
    loss, order = best_places(training, true.taken(shuffled), torch.arange(4))
    assert loss < 1e-20
    assert shuffled[order].tolist() == [0, 1, 2, 3]


def test_a_candidate_that_changes_nothing_costs_nothing() -> None:
    training, true = tanh_training()
    idle = Samples(
        torch.cat([true.rows, true.rows[:1] * 0.7]),
        torch.cat([true.targets, true.targets[:1]]),
        torch.cat([true.weights, torch.full((1,), 1e-9, dtype=torch.float64)]),
    )
    costs = removal_costs(training, idle)
    assert int(costs.argmin()) == 4
    assert float(costs[4]) < 1e-3 * float(costs[:4].min())


def test_units_that_miss_by_far_hardly_count() -> None:
    groups = torch.tensor([0, 0, 1, 1, 2, 2])
    misses = torch.tensor([1.0, 0.0, 0.0, 1.0, 100.0, 0.0])
    cost = CauchyCost(groups, misses)
    assert cost.counts(misses).tolist() == [0.5, 0.5, 0.5, 0.5, pytest.approx(1 / 10001), pytest.approx(1 / 10001)]
    assert float(CauchyCost(None, misses)(misses)) == 10002.0
    assert float(cost(misses)) < 12
