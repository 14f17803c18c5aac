"""What every attack shares: its interface, progress reports, and checkpoints from which a run goes on."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from exhume.checkpoint import Checkpoint
from exhume.errors import ExhumeError
from exhume.linalg.blocks import DEFAULT_BUDGET
from exhume.linalg.team import ALONE, Team
from exhume.release import Release
from exhume.result import Reconstruction

_ETA_WINDOW = 20


@dataclass(frozen=True)
class Progress:
    """One outer step of a running attack."""

    stage: str
    step: int
    loss: float
    rows: int
    passes: int
    seconds: float
    eta: float | None  # seconds left if the loss goes on falling as it does; None while it does not
    X: torch.Tensor  # the candidate rows, for those who want to look
    attempt: int = 0  # starts before this one


Watch = Callable[[Progress], None]


def ignore(_: Progress) -> None:
    """Watch nothing."""


@dataclass(frozen=True)
class Resources:
    """Where and within what an attack computes."""

    device: str = "cpu"
    memory: int = DEFAULT_BUDGET  # bytes for V, features and slopes together
    checkpoint: Path | None = None  # written while running; an existing one is resumed
    cache: Path | None = None  # a folder for parts of V that memory does not hold
    team: Team = ALONE  # processes that share the features of a run


class Attack(Protocol):
    """Release -> Reconstruction. A frozen record of settings with a name, what it has to know, and one method."""

    @property
    def about(self) -> str:
        """The method in one line."""
        ...

    @property
    def needs(self) -> str:
        """What the attacker must know, in a few words."""
        ...

    @property
    def name(self) -> str:
        """The registered name."""
        ...

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        """Rebuild the training rows from the release alone."""
        ...


def check_rows(rows: int | None, release: Release) -> None:
    """A claimed number of rows must be possible: their features must be independent."""
    if rows is not None and not 1 <= rows <= release.p:
        raise ExhumeError(f"rows must be at least 1 and at most p = {release.p}, got {rows}.")


class Clock:
    """Seconds of work, counted on across a resume."""

    def __init__(self, already: float = 0.0) -> None:
        self._origin = time.perf_counter() - already

    @property
    def seconds(self) -> float:
        """Seconds since the run began, pauses excluded."""
        return time.perf_counter() - self._origin


def estimate_eta(losses: tuple[float, ...], seconds: tuple[float, ...], target: float) -> float | None:
    """Seconds until the loss reaches `target` at the pace of the last steps, in orders of magnitude per second."""
    if len(losses) < 3 or min(losses) <= 0 or target <= 0:
        return None
    back = min(_ETA_WINDOW, len(losses) - 1)
    gained = math.log(losses[-1 - back] / losses[-1])
    spent = seconds[-1] - seconds[-1 - back]
    if gained <= 1e-3 or spent <= 0:
        return None
    return max(0.0, math.log(losses[-1] / target)) * spent / gained


def checkpoint_of(resources: Resources, attack: Any, release: Release, seed: int) -> Checkpoint:
    """The checkpoint of one run: same release, same attack, same seed. All processes of a team read it, the first writes it."""
    return Checkpoint(resources.checkpoint, run_of(attack, release, seed), writes=resources.team.rank == 0)


def run_of(attack: Any, release: Release, seed: int) -> dict[str, Any]:
    """What tells one run from another."""
    digest = hashlib.sha256(release.weights.cpu().contiguous().numpy().tobytes()).hexdigest()
    facts = json.dumps([asdict(release.features), asdict(release.facts)], sort_keys=True)
    return {"attack": attack.name, "settings": asdict(attack), "seed": seed, "weights": digest, "facts": facts}
