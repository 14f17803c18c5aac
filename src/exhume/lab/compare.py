"""Several attacks on one victim: the same release, the same score, one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from exhume.attacks import Attack, Resources, Watch
from exhume.attacks.base import ignore
from exhume.data import load
from exhume.errors import ExhumeError
from exhume.lab.trial import Cell, TrialResult, attack_victim, train_cell


@dataclass(frozen=True)
class Comparison:
    """What each attack made of one release; attacks that cannot take it say why."""

    results: tuple[TrialResult, ...]
    refused: tuple[tuple[str, str], ...]  # attack, reason


def compare(
    cell: Cell,
    attacks: list[Attack],
    *,
    watch: Watch = ignore,
    resources: Resources = Resources(),
    finished: Callable[[TrialResult], None] = lambda result: None,
) -> Comparison:
    """Train the cell's victim once and run every attack on its release; `finished` hears of each as it ends."""
    if not attacks:
        raise ExhumeError("there is nothing to compare. Name at least one attack.")
    trained = train_cell(cell, load(cell.data), watch=watch, resources=resources)
    results: list[TrialResult] = []
    refused: list[tuple[str, str]] = []
    for attack in attacks:
        try:
            result = attack_victim(replace(cell, attack=attack), trained, watch=watch, resources=resources)
        except ExhumeError as error:
            refused.append((attack.name, str(error)))
            continue
        results.append(result)
        finished(result)
    return Comparison(tuple(results), tuple(refused))
