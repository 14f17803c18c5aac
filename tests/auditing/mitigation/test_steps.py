"""Which steps the ladder takes, in which order, and what each of them makes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from exhume.auditing.mitigation.steps import Skipped, Step, steps_for
from exhume.knowledge import Knowledge
from support.audit_cases import network_case, network_inputs, pipeline_case, pipeline_inputs

APPLIED = [
    ("rounding", "float16"),
    ("rounding", "bfloat16"),
    ("rounding", "int8"),
    ("weight noise", "0.0001 of their size"),
    ("weight noise", "0.01 of their size"),
    ("weight noise", "0.1 of their size"),
    ("pruning", "50% of the features"),
    ("pruning", "90% of the features"),
]
TRAINED = [
    ("weight decay", "x 100"),
    ("weight decay", "x 10000"),
    ("smaller head", "p = 1 dn"),
    ("smaller head", "p = 0.3 dn"),
    ("DP-SGD", "epsilon 8"),
    ("DP-SGD", "epsilon 1"),
]


def listed(knowledge: Knowledge = Knowledge(), *, network: bool) -> list[Step | Skipped]:
    inputs = network_inputs() if network else pipeline_inputs()
    return list(steps_for(inputs, knowledge, network_case() if network else pipeline_case()[0], 0))


def names(steps: list[Step | Skipped]) -> list[tuple[str, str]]:
    return [(one.step, one.setting) for one in steps if isinstance(one, Step)]


def test_changes_of_the_weights_come_before_training_anew() -> None:
    steps = listed(network=False)
    assert names(steps) == APPLIED + TRAINED
    assert [one.how for one in steps if isinstance(one, Step)] == ["applied"] * 8 + ["re-trained"] * 6
    assert [one for one in steps if isinstance(one, Skipped)] == [Skipped("withholding theta_0", "there is none to withhold")]


def test_a_network_may_keep_its_start_to_itself() -> None:
    steps = listed(Knowledge(n=True), network=True)
    (hidden,) = [one for one in steps if one.step == "withholding theta_0"]
    assert isinstance(hidden, Step)
    changed, known = hidden.make()
    assert known == Knowledge(n=True, init="none")
    assert changed is network_inputs()
    (skipped,) = [one for one in listed(Knowledge(init="none"), network=True) if isinstance(one, Skipped)]
    assert skipped.why == "the attacker has none"


def test_a_head_is_made_smaller_only_where_it_is_larger() -> None:
    subject = pipeline_case()[0]
    for n, expected in ((5, ["p = 1 dn", "p = 0.3 dn"]), (60, ["p = 0.3 dn"]), (500, [])):  # p = 1500, d = 30
        rows = subject.truth.rows[np.arange(n) % 5]
        truth = replace(subject.truth, rows=rows, labels=subject.truth.labels[np.arange(n) % 5])
        steps = steps_for(pipeline_inputs(), Knowledge(), replace(subject, truth=truth), 0)
        assert [one.setting for one in steps if isinstance(one, Step) and one.step == "smaller head"] == expected


@pytest.mark.parametrize(("setting", "features"), [("p = 1 dn", 150), ("p = 0.3 dn", 45)])
def test_the_smaller_head_has_the_size_that_its_name_says(setting: str, features: int) -> None:
    (step,) = [one for one in listed(network=False) if isinstance(one, Step) and one.setting == setting]
    changed, known = step.make()
    assert changed.trained[-2].n_components == features
    assert known == Knowledge()


@pytest.mark.parametrize(
    ("setting", "change"),
    [
        ("float16", lambda w: w.astype(np.float16).astype(float)),
        ("int8", lambda w: np.round(w * 127 / np.abs(w).max()) * np.abs(w).max() / 127),
        ("50% of the features", lambda w: np.where(np.abs(w) > np.median(np.abs(w)), w, 0)),
    ],
)
def test_a_step_makes_what_its_name_says(setting: str, change: object) -> None:
    (step,) = [one for one in listed(network=False) if isinstance(one, Step) and one.setting == setting]
    made, original = step.make()[0].trained[-1].coef_, pipeline_inputs().trained[-1].coef_
    np.testing.assert_allclose(made, change(original), rtol=1e-12, atol=1e-15)  # type: ignore[operator]


def test_noise_depends_on_the_seed() -> None:
    inputs, subject = pipeline_inputs(), pipeline_case()[0]
    made = []
    for seed in (0, 0, 1):
        noise = [one for one in steps_for(inputs, Knowledge(), subject, seed) if one.step == "weight noise"]
        assert isinstance(noise[2], Step)
        made.append(noise[2].make()[0].trained[-1].coef_)
    np.testing.assert_array_equal(made[0], made[1])
    assert not np.allclose(made[0], made[2])
