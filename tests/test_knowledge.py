"""The threat model: which facts and weights each switch gives away."""

from __future__ import annotations

from dataclasses import fields

import pytest

from exhume.errors import ExhumeError
from exhume.knowledge import Facts, Knowledge

TRUE = Facts(n=20, input_norm=10.0, label_size=1.0, ridge=0.1, offset=0.5, one_hot=True, pruned=True, input_range=(-1.0, 2.0))
DEFAULTS = Facts()


@pytest.mark.parametrize(
    ("knowledge", "hidden"),
    [
        (Knowledge(), {"n"}),
        (Knowledge(n=True), set()),
        (Knowledge(n=True, statistics=False), {"input_norm", "input_range"}),
        (Knowledge(n=True, labels=False), {"label_size", "one_hot"}),
        (Knowledge(statistics=False, labels=False), {"n", "input_norm", "input_range", "label_size", "one_hot"}),
    ],
)
def test_a_switch_hides_its_facts_and_no_others(knowledge: Knowledge, hidden: set[str]) -> None:
    told = knowledge.facts(TRUE)
    for field in fields(Facts):
        expected = getattr(DEFAULTS if field.name in hidden else TRUE, field.name)
        assert getattr(told, field.name) == expected, field.name


@pytest.mark.parametrize(
    ("init", "known"), [("all", {"first.weight": 1, "head.weight": 2}), ("last", {"head.weight": 2}), ("none", {})]
)
def test_weights_before_training_are_known_as_far_as_the_switch_says(init: str, known: dict[str, int]) -> None:
    assert Knowledge(init=init).initial({"first.weight": 1, "head.weight": 2}, "head.weight") == known


@pytest.mark.parametrize("init", ["all", "last", "none"])
def test_where_there_are_none_before_training_none_are_known(init: str) -> None:
    assert Knowledge(init=init).initial({}, "head.weight") == {}


def test_known_weights_are_a_copy_of_the_mapping() -> None:
    start = {"head.weight": 2}
    known = Knowledge().initial(start, "head.weight")
    known["more"] = 3
    assert start == {"head.weight": 2}


def test_another_word_for_the_initial_weights_is_refused() -> None:
    with pytest.raises(ExhumeError, match="--know-init must be one of all, last, none, got 'first'"):
        Knowledge(init="first")


@pytest.mark.parametrize("name", ["n", "input_norm", "label_size"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan")])
def test_facts_that_cannot_be_are_refused(name: str, value: float) -> None:
    with pytest.raises(ExhumeError, match=f"fact '{name}' must be positive, got {value}"):
        Facts(**{name: value})  # type: ignore[arg-type]
