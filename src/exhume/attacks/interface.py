"""What every attack shares: its interface, what it may use, and what it tells while it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from exhume.errors import ExhumeError
from exhume.linalg.blocks import DEFAULT_BUDGET
from exhume.parallel.team import ALONE, Team
from exhume.release import Release
from exhume.result import Reconstruction


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
    checkpoint: str | Path | None = None  # written while running; an existing one is resumed
    cache: str | Path | None = None  # a folder for parts of V that memory does not hold
    team: Team = ALONE  # processes that share the features of a run
    most_passes: int | None = None  # after so much work the rows in hand are the answer

    @property
    def checkpoint_file(self) -> Path | None:
        """`checkpoint` as a path."""
        return None if self.checkpoint is None else Path(self.checkpoint)

    @property
    def cache_folder(self) -> Path | None:
        """`cache` as a path."""
        return None if self.cache is None else Path(self.cache)


@dataclass(frozen=True)
class Proposal:
    """How an attack would take part in an audit of a release."""

    attack: Attack
    rank: int | None  # place in the order of attempts, smallest first; None: it is left out
    why: str


class Attack(ABC):
    """Release -> Reconstruction: a frozen record of settings with a name, what it has to know, and one method.

    To add one: a frozen dataclass in a file beside this one, and its name in registry.py. The command line, `exhume compare` and
    `exhume audit` find it there, and so does the contract suite of the tests.
    """

    name: str
    about: str  # the method in one line
    needs: str  # what the attacker must know, in a few words

    @abstractmethod
    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        """Rebuild the training rows from the release alone."""

    def refusal(self, release: Release) -> str | None:
        """Why this attack cannot take the release, with the remedy; None where it can."""
        return None

    def check(self, release: Release) -> None:
        """Raise with the reason where this attack cannot take the release."""
        refused = self.refusal(release)
        if refused is not None:
            raise ExhumeError(refused)

    def proposals(self, release: Release) -> tuple[Proposal, ...]:
        """Whether an audit of the release should run this attack, as which of its variants, and why."""
        refused = self.refusal(release)
        return (Proposal(self, None, refused if refused is not None else f"run it with --attack {self.name}"),)

    def shares_features(self, release: Release) -> bool:
        """Whether several processes can share one run of this attack on the release."""
        return False


def claimed_rows(rows: int | None, release: Release) -> int | None:
    """n, as the attack's settings or the release's facts claim to know it; it must leave the rows' features independent."""
    claimed = rows if rows is not None else release.facts.n
    if claimed is not None and not 1 <= claimed <= release.p:
        raise ExhumeError(f"rows must be at least 1 and at most p = {release.p}, got {claimed}.")
    return claimed
