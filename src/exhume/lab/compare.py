"""Several attacks on one victim: the same release, the same score, one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from exhume.attacks import Attack, Resources, Watch, ignore
from exhume.data import load
from exhume.errors import ExhumeError
from exhume.lab.trial import Trial, TrialResult, attack_victim, train_victim


@dataclass(frozen=True)
class Comparison:
    """What each attack made of one release; attacks that cannot take it say why."""

    results: tuple[TrialResult, ...]
    refused: tuple[tuple[str, str], ...]  # attack, reason


def compare(
    trial: Trial,
    attacks: list[Attack],
    *,
    watch: Watch = ignore,
    resources: Resources = Resources(),
    finished: Callable[[TrialResult], None] = lambda result: None,
) -> Comparison:
    """Train the trial's victim once and run every attack on its release; `finished` hears of each as it ends."""
    if not attacks:
        raise ExhumeError("there is nothing to compare. Name at least one attack.")
    trained = train_victim(trial, load(trial.data), watch=watch, resources=resources)
    results: list[TrialResult] = []
    refused: list[tuple[str, str]] = []
    for attack in attacks:
        reason = attack.refusal(trained.release)
        if reason is not None:
            refused.append((attack.name, reason))
            continue
        try:
            result = attack_victim(replace(trial, attack=attack), trained, watch=watch, resources=resources)
        except ExhumeError as error:  # a step size that diverges, say: the others go on
            refused.append((attack.name, str(error)))
            continue
        results.append(result)
        finished(result)
    return Comparison(tuple(results), tuple(refused))
