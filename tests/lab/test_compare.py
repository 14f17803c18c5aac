"""Several attacks on one release: who ran, who was refused, who failed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.attacks import Attack, attack_named
from exhume.data import DataRequest
from exhume.errors import ExhumeError
from exhume.lab import Trial, TrialResult, compare
from exhume.release import Release
from exhume.result import Reconstruction
from support.audit_cases import ScriptedAttack, reconstruction

TRIAL = Trial(DataRequest("sphere", n=4, d=10), ratio=6.0)


def fail(release: Release) -> Reconstruction:
    raise ExhumeError("its step size diverges.")


def test_every_attack_gets_the_same_release_and_those_that_fail_say_why() -> None:
    attacks: list[Attack] = [
        ScriptedAttack("one", answer=lambda release: reconstruction(torch.zeros(1, release.d), attack="one")),
        ScriptedAttack("broken", answer=fail),
        attack_named("kkt"),  # it needs a trained network
        ScriptedAttack("two", answer=lambda release: reconstruction(torch.ones(2, release.d), attack="two")),
    ]
    told: list[TrialResult] = []
    done = compare(replace(TRIAL, seed=5), attacks, finished=told.append)
    assert [(one.guess.attack, one.score.n_found) for one in done.results] == [("one", 1), ("two", 2)]
    assert [name for name, _ in done.refused] == ["broken", "kkt"]
    assert done.refused[0][1] == "its step size diverges."
    assert done.refused[1][1] == attacks[2].refusal(done.results[0].release)
    assert tuple(told) == done.results
    given = [attack.seen[0] for attack in (attacks[0], attacks[3])]  # type: ignore[attr-defined]
    assert given[0][0] is given[1][0]  # trained once
    assert [seed for _, seed, _ in given] == [5, 5]
    assert [one.trial.attack.name for one in done.results] == ["one", "two"]


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(ExhumeError, match=r"nothing to compare\. Name at least one attack"):
        compare(TRIAL, [])
