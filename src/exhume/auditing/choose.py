"""Which attack fits what is known: every registered one with the reason why it is run or left out."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from exhume.attacks import ATTACKS, Attack, attack_named
from exhume.attacks.network import input_space, learned
from exhume.release import NetworkSpec, Release


@dataclass(frozen=True)
class Option:
    """One attack, with its place in the order of attempts (None: not run) and the reason."""

    attack: Attack
    place: int | None
    why: str


def choose(release: Release) -> list[Option]:
    """The attacks that are run, in their order, then those left out."""
    if release.fixed_features:
        run = [
            (attack_named("gauss-newton"), "only the last layer was trained, so its weights lie exactly in the features' span"),
            (
                attack_named("gauss-newton", exact=False),
                "in case the weights were rounded or noised since: looks for a noise floor",
            ),
        ]
        if not isinstance(release.features, NetworkSpec):
            run = run[:1]
        left = {"subspace": "the first layer was not trained, so it reveals no subspace"}
    else:
        run, left = _for_network(release)
    left |= {
        "projection-gd": "the published method: slower, and has to be told n",
        "kkt": "needs n and a margin-maximising training; proves nothing about its rows",
        "kkt-multiclass": "as kkt",
        "ntk": "needs n; proves nothing about its rows",
    }
    chosen = [Option(attack, place, why) for place, (attack, why) in enumerate(run, start=1)]
    return chosen + [Option(ATTACKS[name], None, why) for name, why in left.items()]


def _for_network(release: Release) -> tuple[list[tuple[Attack, str]], dict[str, str]]:
    spec = release.features
    assert isinstance(spec, NetworkSpec)
    first = f"{spec.first}.weight"
    full = attack_named("gauss-newton")
    if first not in release.initial:
        known = "only the last layer is known from before training" if release.initial else "nothing is known from before training"
        return [(full, f"{known}: features are taken at the trained weights")], {
            "subspace": "the first layer before training is not known, so its change is not either"
        }
    if torch.equal(release.initial[first], release.trained[first]):
        return [(full, "the first layer did not move")], {"subspace": "the first layer did not move, so it reveals no subspace"}
    r = input_space(learned(release).change(first), spec).shape[1]
    if not 0 < r < release.d:
        return [(full, "the first layer's change spans every input")], {"subspace": "the first layer's change spans every input"}
    return [
        (attack_named("subspace"), f"the first layer's change confines the samples to {r} of {release.d} dimensions"),
        (full, "the same in the full space, where the subspace was not enough"),
    ], {}
