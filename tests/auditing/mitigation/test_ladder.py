"""The ladder: what counts as rebuilt, which rung is the cheapest, and what becomes of a step that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from exhume.attacks import Resources
from exhume.auditing.audit_inputs import AuditInputs
from exhume.auditing.mitigation.ladder import Ladder, Rung, cost, count_rebuilt, run_mitigations
from exhume.auditing.mitigation.steps import Skipped, Step
from exhume.auditing.mitigation.weight_edits import edited, without_features
from exhume.knowledge import Knowledge
from support.audit_cases import ScriptedAttack, pipeline_audit, pipeline_case, pipeline_inputs, reconstruction


def rung(step: str, rebuilt: int, train: float, held_out: float | None = None) -> Rung:
    return Rung(step, "", "applied", rebuilt, 10, False, train, held_out, 1.0)


OPEN = rung("as it is", 10, 0.0, 0.1)


@pytest.mark.parametrize(
    ("others", "bearable", "expected"),
    [
        ([rung("a", 0, 0.0, 0.3), rung("b", 0, 0.5, 0.2), rung("c", 1, 0.0, 0.0)], 0.0, "b"),  # held-out error decides
        ([rung("a", 0, 0.3), rung("b", 0, 0.2)], 0.0, "b"),  # without it, training error
        ([rung("a", 0, 0.2, 0.2), rung("b", 0, 0.2, 0.2)], 0.0, "a"),  # the first of equals
        ([rung("a", 1, 0.0, 0.1), rung("b", 0, 0.0, 0.4)], 0.1, "a"),  # what is bearable counts as stopped
        ([rung("a", 5, 0.0, 0.1)], 0.0, None),
        ([], 1.0, None),  # the open model is no step
    ],
)
def test_the_cheapest_step_stops_the_attack_at_the_least_error(others: list[Rung], bearable: float, expected: str | None) -> None:
    best = Ladder((OPEN, *others), (), bearable).cheapest
    assert (None if best is None else best.step) == expected


def test_the_price_of_a_rung_is_its_held_out_error_where_there_is_one() -> None:
    assert cost(rung("a", 0, 0.5, 0.0)) == 0.0
    assert cost(rung("a", 0, 0.5)) == 0.5


def test_a_ladder_is_plain_json() -> None:
    made = Ladder((OPEN, replace(rung("pruning", 0, 0.0, 0.2), setting="90%")), (("DP-SGD", "opacus is absent"),), 0.0)
    row = json.loads(json.dumps(made.row()))
    assert [one["leakage"] for one in row["rungs"]] == [1.0, 0.0]
    assert row["skipped"] == [{"step": "DP-SGD", "why": "opacus is absent"}]
    assert row["cheapest"] == "pruning, 90%"
    assert Ladder((OPEN,), (), 0.0).row()["cheapest"] is None


@pytest.mark.parametrize(
    ("scale", "factor", "expected"),
    [("fitted", 1.0, 3), ("fitted", 2.0, 0), ("from labels", 2.0, 3), ("unknown", 2.0, 3)],
)
def test_samples_are_counted_in_the_best_view_that_fits(scale: str, factor: float, expected: int) -> None:
    subject, held_out = pipeline_case()
    guess = reconstruction(factor * subject.truth.rows[:3], scale=scale)
    assert count_rebuilt(subject, held_out, guess, 0.1, seed=0) == expected


def test_a_count_that_chance_gives_is_no_leak() -> None:
    subject, held_out = pipeline_case()
    nothing = reconstruction(torch.zeros(1, 30))  # a row that is near to all rows, trained on or not
    assert count_rebuilt(subject, None, nothing, 2.0, seed=0) == 0
    assert count_rebuilt(subject, held_out, nothing, 2.0, seed=0) == 0
    assert count_rebuilt(subject, None, replace(nothing, rows=subject.truth.rows[:3]), 0.1, seed=0) == 3


def _few_steps(inputs: AuditInputs, knowledge: Knowledge, *_: object) -> Iterator[Step | Skipped]:
    """A doubled model, a half-pruned one, a step that fails, and one that does not fit."""

    def fail() -> tuple[AuditInputs, Knowledge]:
        raise RuntimeError("no such layer\nand more that nobody reads")

    yield Step("doubled", "x 2", "applied", lambda: (edited(inputs, lambda weights: 2 * weights), knowledge))
    yield Step("broken", "at once", "applied", fail)
    yield Skipped("absent", "there is none")
    yield Step("pruning", "95%", "applied", lambda: (without_features(inputs, head=None, share=0.95), knowledge))


def test_every_step_is_attacked_for_real_and_a_failing_one_does_not_lose_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exhume.auditing.mitigation.ladder.steps_for", _few_steps)
    told: list[Rung] = []
    made = run_mitigations(pipeline_inputs(), Knowledge(), pipeline_audit(), bearable=0.5, finished=told.append)
    assert [(one.step, one.rebuilt, one.certified) for one in made.rungs] == [
        ("as it is", 5, True),
        ("doubled", 5, True),
        ("pruning", 0, False),
    ]
    assert made.skipped == (("broken, at once", "no such layer"), ("absent", "there is none"))
    assert tuple(told) == made.rungs
    assert made.bearable == 0.5
    assert made.rungs[0].held_out_error == pipeline_audit().utility["held_out_error"]
    assert all(one.held_out_error is not None and one.n == 5 for one in made.rungs)


def test_a_mitigated_model_is_attacked_with_twice_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = ScriptedAttack(ranks=(0,))
    monkeypatch.setattr("exhume.auditing.attack_order.ATTACKS", {"scripted": attack})
    monkeypatch.setattr("exhume.auditing.mitigation.ladder.steps_for", _few_steps)
    for passes, most in ((700, 2000), (3000, 6000)):  # 1000 at least
        first = replace(pipeline_audit(), guess=replace(pipeline_audit().guess, passes=passes))
        run_mitigations(pipeline_inputs(), Knowledge(), first, resources=Resources(checkpoint="c", memory=77))
        assert attack.seen[-1][2] == Resources(memory=77, most_passes=most)
