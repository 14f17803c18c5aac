"""Which attacks an audit runs, in which order."""

from __future__ import annotations

import pytest

from exhume.attacks import ATTACKS, Attack, GaussNewton
from exhume.auditing.attack_order import choose
from support.audit_cases import ScriptedAttack, network_case, pipeline_case


def test_fixed_features_are_attacked_exactly_and_then_for_a_noise_floor() -> None:
    options = choose(pipeline_case()[0].release)
    run = [one for one in options if one.place is not None]
    assert [(one.place, one.attack) for one in run] == [(1, GaussNewton()), (2, GaussNewton(exact=False))]
    assert "lie exactly in the features' span" in run[0].why


def test_a_moved_first_layer_is_read_first_then_its_subspace() -> None:
    release = network_case().release
    run = [one for one in choose(release) if one.place is not None]
    assert [one.attack.name for one in run] == ["first-layer", "subspace", "gauss-newton"]
    assert "has rank 4" in run[0].why
    assert run[1].why == f"the first layer's change confines the samples to 4 of {release.d} dimensions"


@pytest.mark.parametrize("case", [lambda: pipeline_case()[0], network_case])
def test_every_registered_attack_is_run_or_left_out_with_a_reason(case: object) -> None:
    options = choose(case().release)  # type: ignore[operator]
    assert {one.attack.name for one in options} == set(ATTACKS)
    assert all(one.why for one in options)
    places = [one.place for one in options]
    count = sum(place is not None for place in places)
    assert places == [*range(1, count + 1), *[None] * (len(options) - count)]  # those left out stand last


def test_the_order_is_that_of_ranks_and_of_registration_where_they_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: dict[str, Attack] = {
        "late": ScriptedAttack("late", ranks=(25, 0)),
        "never": ScriptedAttack("never", ranks=(None,)),
        "early": ScriptedAttack("early", ranks=(10, 25)),
    }
    monkeypatch.setattr("exhume.auditing.attack_order.ATTACKS", registered)
    options = choose(pipeline_case()[0].release)
    assert [(one.attack.name, one.place, one.why) for one in options] == [
        ("late", 1, "late has rank 0"),
        ("early", 2, "early has rank 10"),
        ("late", 3, "late has rank 25"),
        ("early", 4, "early has rank 25"),
        ("never", None, "never has rank None"),
    ]
