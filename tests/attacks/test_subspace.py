"""The subspace attack: which releases it takes, what it proposes, and where it searches."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.attacks.interface import Proposal
from exhume.attacks.span.trained_network import row_space
from exhume.attacks.subspace import Subspace
from exhume.errors import ExhumeError
from exhume.release import Release
from support.networks import MOVED_D, moved_network, moved_pictures
from support.planted import drawn, worst_distance
from support.problems import small_sphere, trained, two_layer

ATTACK = Subspace()


def random_features() -> Release:
    return trained(small_sphere(d=10, n=3), ratio=4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            random_features,
            r"^subspace reads the first layer's change, and random features have none\. Use --attack gauss-newton\.$",
        ),
        (
            lambda: moved_network(known="last"),
            r"^subspace needs the first layer before training \(--know-init all\)\. Use --attack gauss-newton\.$",
        ),
        (lambda: moved_network(known="none"), r"needs the first layer before training"),
    ],
    ids=["random features", "last layer known", "nothing known"],
)
def test_releases_without_a_known_change_are_refused(make: object, message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        ATTACK.run(make())  # type: ignore[operator]


@pytest.mark.parametrize(
    ("make", "rank", "why"),
    [
        (lambda: moved_network(rank=3), 10, "the first layer's change confines the samples to 3 of 12 dimensions"),
        (lambda: moved_network(rank=MOVED_D), None, "the first layer's change spans every input"),
        (lambda: moved_network(rank=0), None, "the first layer was not trained, so it reveals no subspace"),
        (random_features, None, "the first layer was not trained, so it reveals no subspace"),
        (lambda: moved_network(known="last"), None, "the first layer before training is not known, so its change is not either"),
        (lambda: moved_network(known="none"), None, "the first layer before training is not known, so its change is not either"),
        (
            lambda: moved_pictures("resnet", first_moves=False),
            None,
            "the first layer did not move, so it reveals no subspace",
        ),
        (lambda: moved_pictures("resnet"), None, "the first layer's change holds no input whole, so it reveals no subspace"),
    ],
    ids=["confined", "full", "last layer only", "random features", "last known", "none known", "deep and still", "deep"],
)
def test_it_is_proposed_where_the_change_confines_the_samples(make: object, rank: int | None, why: str) -> None:
    assert ATTACK.proposals(make()) == (Proposal(ATTACK, rank, why),)  # type: ignore[operator]


def test_rows_are_searched_in_what_the_first_layer_has_learned() -> None:
    data = small_sphere(d=24, n=4)
    release = two_layer(data, 12, k=2).release
    guess = ATTACK.run(release)
    assert "searched inside the 4 dimensions that the first layer's change spans" in guess.notes
    assert "features taken at the midpoint weights" in guess.notes
    Q = row_space(release.trained["first.weight"] - release.initial["first.weight"])
    torch.testing.assert_close(guess.rows @ Q @ Q.T, guess.rows)
    assert worst_distance(guess.rows, data.rows) < 0.02


def short(release: Release, **settings: object) -> tuple[str, ...]:
    """The notes of a run that is told to fit a single row."""
    return Subspace(rows=1, **settings).run(release).notes  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [1, 2])
def test_a_claimed_number_of_rows_is_given_on(rows: int) -> None:
    assert len(Subspace(rows=rows).run(moved_network()).rows) == rows


def test_a_change_that_spans_everything_is_searched_in_the_full_space() -> None:
    notes = short(moved_network(rank=MOVED_D))
    assert "the first layer's change holds every patch: searched in the full space" in notes


def test_a_convolution_with_too_few_channels_holds_no_input() -> None:
    """Two channels span two of a patch's dimensions, and no picture has such patches only."""
    release = moved_pictures("resnet", channels=3)
    weight = release.trained["first.weight"]
    flat = weight.flatten(1)
    few = drawn(len(flat), 2, seed=1) @ drawn(2, flat.shape[1], seed=2)
    moved = {**release.trained, "first.weight": release.initial["first.weight"] + few.reshape(weight.shape)}
    notes = short(replace(release, trained=moved))
    held = "no input whole (it has fewer channels than the data has patches)"
    assert f"the first layer's change holds {held}: searched in the full space" in notes
    (proposal,) = ATTACK.proposals(replace(release, trained=moved))
    assert (proposal.rank, proposal.why) == (None, "the first layer's change holds no input whole, so it reveals no subspace")


@pytest.mark.parametrize("point", ["trained", "initial"])
def test_the_linearisation_point_is_given_on(point: str) -> None:
    assert f"features taken at the {point} weights" in short(moved_network(), linearise=point)
