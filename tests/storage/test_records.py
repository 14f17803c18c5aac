"""Frozen records through tensors and JSON, and records from files that anybody may have written."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest
import torch

from exhume.errors import ExhumeError
from exhume.storage.records import checked_record, not_stored, pack, unpack


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    X: torch.Tensor
    weight: float = 0.0


@dataclass(frozen=True)
class Outer:
    inner: Inner
    other: Inner | None
    colour: Colour
    losses: tuple[float, ...]
    fits: tuple[torch.Tensor, ...]
    memory: dict[str, dict[str, torch.Tensor]]
    count: int = 0
    note: str = ""
    heavy: torch.Tensor | None = not_stored()


def test_a_record_survives_json_and_tensors() -> None:
    X = torch.arange(4.0).reshape(2, 2)
    record = Outer(
        Inner(X, math.inf), None, Colour.BLUE, (1.0, math.nan, -math.inf), (X, 2 * X), {"X": {"step": X + 1}}, 3, "hm", heavy=X
    )
    tensors, values = pack(record)
    assert "heavy" not in json.dumps(values)
    back = unpack(Outer, tensors, json.loads(json.dumps(values)))
    assert back.inner.weight == math.inf
    assert torch.equal(back.inner.X, X)
    assert back.other is None
    assert back.colour is Colour.BLUE
    assert back.losses[0] == 1.0
    assert math.isnan(back.losses[1])
    assert back.losses[2] == -math.inf
    assert torch.equal(back.fits[1], 2 * X)
    assert torch.equal(back.memory["X"]["step"], X + 1)
    assert (back.count, back.note, back.heavy) == (3, "hm", None)


@pytest.mark.parametrize("damage", [lambda v: v.pop("inner"), lambda v: v.update(colour="green"), lambda v: v.update(inner=7)])
def test_values_that_do_not_fit_raise(damage: object) -> None:
    X = torch.ones(1)
    tensors, values = pack(Outer(Inner(X), Inner(X), Colour.RED, (), (), {}))
    damage(values)  # type: ignore[operator]
    with pytest.raises((KeyError, TypeError, ValueError)):
        unpack(Outer, tensors, values)


@dataclass(frozen=True)
class Described:
    name: str
    size: int
    share: float | None = None
    shape: tuple[int, ...] = ()


def test_fields_of_a_strange_file_are_checked_one_by_one() -> None:
    where = Path("file")
    assert checked_record(Described, {"name": "a", "size": 2, "shape": [1, 2]}, where) == Described("a", 2, None, (1, 2))
    for values, message in (
        ({"name": "a"}, "wrong fields"),
        ({"name": "a", "size": 2, "more": 1}, "wrong fields"),
        ({"name": "a", "size": True}, "size must be int"),
        ({"name": "a", "size": 2.5}, "size must be int"),
        ({"name": 3, "size": 2}, "name must be str"),
        ({"name": "a", "size": 2, "share": math.inf}, "share must be float"),
        ([], "wrong fields"),
    ):
        with pytest.raises(ExhumeError, match=message):
            checked_record(Described, values, where)
