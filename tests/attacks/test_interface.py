"""What every attack inherits: the claim to n, paths, and an honest default about where it applies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest

from exhume.attacks.interface import Attack, Proposal, Resources, Watch, claimed_rows, ignore
from exhume.errors import ExhumeError
from exhume.release import Release
from exhume.result import Reconstruction
from support.problems import small_sphere, trained


@cache
def told(n: int | None = None) -> Release:
    """A release of 120 features whose facts know n, or do not."""
    release = trained(small_sphere(d=10, n=3), ratio=4)
    return replace(release, facts=replace(release.facts, n=n))


@pytest.mark.parametrize(
    ("rows", "n", "claimed"),
    [(None, None, None), (None, 3, 3), (5, None, 5), (5, 3, 5), (1, None, 1), (120, None, 120)],
)
def test_settings_claim_n_before_facts_do(rows: int | None, n: int | None, claimed: int | None) -> None:
    assert claimed_rows(rows, told(n)) == claimed


@pytest.mark.parametrize(("rows", "n", "got"), [(0, 3, 0), (-2, None, -2), (121, None, 121), (None, 121, 121)])
def test_a_claim_that_no_features_could_hold_is_refused(rows: int | None, n: int | None, got: int) -> None:
    with pytest.raises(ExhumeError, match=f"at least 1 and at most p = 120, got {got}"):
        claimed_rows(rows, told(n))


@pytest.mark.parametrize("given", ["some/where", Path("some/where"), None])
def test_resources_give_paths_for_whatever_was_given(given: str | Path | None) -> None:
    expected = None if given is None else Path("some/where")
    resources = Resources(checkpoint=given, cache=given)
    assert (resources.checkpoint_file, resources.cache_folder) == (expected, expected)


@dataclass(frozen=True)
class _Picky(Attack):
    """An attack with as little of its own as there can be."""

    name: str = field(default="picky", init=False)
    about: str = field(default="nothing", init=False)
    needs: str = field(default="nothing", init=False)
    reason: str | None = None

    def refusal(self, release: Release) -> str | None:
        return super().refusal(release) if self.reason is None else self.reason

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        raise NotImplementedError


def test_an_attack_takes_every_release_alone_and_waits_to_be_asked() -> None:
    attack = _Picky()
    assert attack.refusal(told()) is None
    attack.check(told())
    assert attack.proposals(told()) == (Proposal(attack, None, "run it with --attack picky"),)
    assert not attack.shares_features(told())


def test_a_refusal_is_the_error_and_the_reason_in_an_audit() -> None:
    attack = _Picky(reason="it takes nothing. Use --attack gauss-newton.")
    with pytest.raises(ExhumeError, match=r"^it takes nothing\. Use --attack gauss-newton\.$"):
        attack.check(told())
    assert attack.proposals(told()) == (Proposal(attack, None, "it takes nothing. Use --attack gauss-newton."),)
