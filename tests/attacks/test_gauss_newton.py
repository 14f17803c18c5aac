"""The default attack: which method it takes for which release, and what it says of itself in an audit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.attacks.gauss_newton import GaussNewton
from exhume.attacks.interface import Proposal
from exhume.attacks.search.candidates import InnerSolve
from exhume.attacks.search.growth import GrowthSettings
from exhume.errors import ExhumeError
from exhume.release import Release
from exhume.result import Status
from exhume.victims import NetworkVictim
from support.networks import moved_network, moved_pictures
from support.planted import worst_distance
from support.problems import small_sphere, trained

ATTACK = GaussNewton()
EXACTLY = "only the last layer was trained, so its weights lie exactly in the features' span"


def test_random_features_are_searched_exactly_and_shared() -> None:
    release = trained(small_sphere(d=10, n=3), ratio=4)
    assert ATTACK.refusal(release) is None
    assert ATTACK.proposals(release) == (Proposal(ATTACK, 20, EXACTLY),)
    assert ATTACK.shares_features(release)


def test_inexact_weights_of_random_features_are_refused() -> None:
    release = trained(small_sphere(d=10, n=3), ratio=4)
    with pytest.raises(ExhumeError, match=r"^inexact weights are searched in a network's release; this one is of drawn random"):
        GaussNewton(exact=False).run(release)
    assert GaussNewton(exact=False).refusal(moved_network()) is None


def test_a_network_of_which_the_last_layer_alone_was_trained_is_searched_exactly_and_for_noise() -> None:
    release = moved_network(rank=0)
    assert release.features_stayed
    exactly, noisy = ATTACK.proposals(release)
    assert exactly == Proposal(ATTACK, 20, EXACTLY)
    assert (noisy.attack, noisy.rank) == (GaussNewton(exact=False), 30)
    assert noisy.why == "in case the weights were rounded or noised since: looks for a noise floor"
    assert not ATTACK.shares_features(release)


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ("all", "a search in the full space of inputs"),
        ("last", "only the last layer is known from before training: features are taken at the trained weights"),
        ("none", "nothing is known from before training: features are taken at the trained weights"),
    ],
)
def test_features_that_moved_are_searched_through_their_drift(known: str, why: str) -> None:
    assert ATTACK.proposals(moved_network(known=known)) == (Proposal(ATTACK, 20, why),)


def test_a_deep_network_whose_first_layer_stayed_says_so() -> None:
    assert ATTACK.proposals(moved_pictures("resnet", first_moves=False)) == (Proposal(ATTACK, 20, "the first layer did not move"),)
    assert ATTACK.proposals(moved_pictures("resnet"))[0].why == "a search in the full space of inputs"


def test_settings_reach_the_search() -> None:
    attack = GaussNewton(cg_steps=7, cg_tolerance=0.3, starts=9, full_rounds=2, turnover=0.4)
    growth = GrowthSettings(inner=InnerSolve(7, 0.3), starts=9, rounds_at_limit=2, turnover=0.4)
    assert attack.growth() == growth
    assert ATTACK.growth() == GrowthSettings()  # the same defaults in both places


@pytest.fixture(scope="module")
def frozen() -> tuple[Release, torch.Tensor]:
    """A network of which the last layer alone was trained: its release, and the rows."""
    data = small_sphere(d=12, n=3)
    release = NetworkVictim("two-layer", 600, seed=0).train(data).release
    features = release.network.features_at(release.initial, dtype=torch.float64).value(data.rows).T  # (p, n)
    change = features @ torch.linalg.solve(features.T @ features, data.labels)
    head = release.initial["head.weight"] + change
    stayed = {"first.weight": release.initial["first.weight"], "head.weight": head}
    return replace(release, weights=change[None].contiguous(), trained=stayed), data.rows


def test_weights_in_the_span_are_certified_and_inexact_ones_told_by_their_noise(frozen: tuple[Release, torch.Tensor]) -> None:
    release, rows = frozen
    exactly = GaussNewton().run(release)
    assert exactly.status is Status.CERTIFIED
    assert worst_distance(exactly.rows, rows) < 1e-9
    assert not any("features taken" in note for note in exactly.notes)
    noisy = GaussNewton(exact=False).run(release)
    assert "features taken at the midpoint weights" in noisy.notes
    assert worst_distance(noisy.rows, rows) < 1e-3


def test_a_claimed_number_of_rows_is_given_on(frozen: tuple[Release, torch.Tensor]) -> None:
    release, _ = frozen
    assert len(GaussNewton(rows=2, starts=1, full_rounds=1).run(release).rows) == 2
    with pytest.raises(ExhumeError, match="at least 1 and at most p = 600, got 601"):
        GaussNewton(rows=601).run(release)


@pytest.mark.parametrize("point", ["midpoint", "trained", "initial"])
def test_the_linearisation_point_is_given_on(point: str) -> None:
    guess = GaussNewton(linearise=point, rows=1).run(moved_network(k=1))
    assert f"features taken at the {point} weights" in guess.notes
