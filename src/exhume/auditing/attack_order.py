"""Which attacks an audit runs, in which order and why: every registered attack says it of itself."""

from __future__ import annotations

from dataclasses import dataclass

from exhume.attacks import ATTACKS, Attack
from exhume.release import Release


@dataclass(frozen=True)
class Option:
    """One attack, with its place in the order of attempts (None: not run) and the reason."""

    attack: Attack
    place: int | None
    why: str


def choose(release: Release) -> list[Option]:
    """The attacks that are run, in their order, then those left out."""
    proposed = [one for attack in ATTACKS.values() for one in attack.proposals(release)]
    run = sorted((one for one in proposed if one.rank is not None), key=lambda one: one.rank or 0)
    chosen = [Option(one.attack, place, one.why) for place, one in enumerate(run, start=1)]
    return chosen + [Option(one.attack, None, one.why) for one in proposed if one.rank is None]
