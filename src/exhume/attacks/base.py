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
from safetensors.torch import save_file

from exhume.errors import ExhumeError
from exhume.files import write_atomically
from exhume.linalg.blocks import DEFAULT_BUDGET
from exhume.release import Release, read_tensors
from exhume.result import Reconstruction

_FORMAT = "exhume-checkpoint-1"
_SAVE_EVERY = 2.0  # seconds
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


class Checkpoint:
    """A file that holds the last finished step of one run: same release, same attack, same seed."""

    def __init__(self, path: Path | None, attack: Any, release: Release, seed: int) -> None:
        self._path = path
        digest = hashlib.sha256(release.weights.cpu().contiguous().numpy().tobytes()).hexdigest()
        facts = json.dumps([asdict(release.features), asdict(release.facts)], sort_keys=True)
        self._run = {"attack": attack.name, "settings": asdict(attack), "seed": seed, "weights": digest, "facts": facts}
        self._saved = 0.0
        self._pending: dict[str, Any] | None = None  # the last step, where it is not yet in the file

    def load(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """Tensors and values of the last finished step, or None when there is nothing to go on from."""
        if self._path is None or not self._path.exists():
            return None
        tensors, header = read_tensors(self._path, "checkpoint", _FORMAT)
        if not all(torch.isfinite(tensor).all() for tensor in tensors.values()) or {"run", "values"} - header.keys():
            raise ExhumeError(f"checkpoint {self._path} is damaged. Delete it and run again.")
        if header["run"] != json.loads(json.dumps(self._run)):
            raise ExhumeError(
                f"checkpoint {self._path} belongs to another run (other release, attack settings or seed). "
                "Give another --checkpoint path or delete the file."
            )
        return tensors, header["values"]

    def save(self, tensors: dict[str, torch.Tensor], values: dict[str, Any], *, now: bool = False) -> None:
        """Keep a finished step; at most one write every two seconds unless `now`. The tensors must not change afterwards."""
        if self._path is None:
            return
        if not now and time.monotonic() - self._saved < _SAVE_EVERY:
            self._pending = {"tensors": tensors, "values": values}
            return
        self._pending = None
        header = {"format": _FORMAT, "run": self._run, "values": values}
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        write_atomically(self._path, lambda path: save_file(plain, path, metadata={"exhume": json.dumps(header)}))
        self._saved = time.monotonic()

    def flush(self) -> None:
        """Write the last step that was given to `save`."""
        if self._pending is not None:
            self.save(**self._pending, now=True)

    def clear(self) -> None:
        """Remove the file of a run that has ended."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
