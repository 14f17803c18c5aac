"""What an attack hands back: frozen values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from exhume import counting
from exhume.errors import ExhumeError
from exhume.storage.tensor_file import read_tensors, write_tensors

_FORMAT = "exhume-reconstruction-1"


class Status(Enum):
    """How an attack ended; the value is what a person reads."""

    CERTIFIED = "converged and certified"
    UNCERTIFIED = "converged, not certified"
    STALLED = "stalled"


@dataclass(frozen=True)
class Certificate:
    """Why the rows must be training data, without looking at the truth."""

    equations: int  # p * k
    unknowns: int  # m * (free coordinates per row + k)
    loss: float  # ||P_perp theta||^2 / ||theta||^2 on all features
    floor: float  # the loss that rounding alone leaves in this dtype
    row_errors: tuple[float, ...] = ()  # standard error of each row, relative to its norm
    weakest_row: float = 0.0  # smallest loss that removing a row would cost
    strongest_spare: float | None = None  # largest such loss among random rows added on top
    separation: float = 0.0  # least share of the hyperplanes expected between two rows that lie there; 0: one linear cell

    @property
    def margin(self) -> float:
        """Equations per unknown."""
        return counting.margin(self.equations, self.unknowns)


@dataclass(frozen=True)
class Curve:
    """The course of a run: one entry per outer step."""

    loss: tuple[float, ...] = ()
    rows: tuple[int, ...] = ()
    passes: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()

    def extended(self, *, loss: float, rows: int, passes: int, seconds: float) -> Curve:
        """The curve with one more step."""
        return Curve((*self.loss, loss), (*self.rows, rows), (*self.passes, passes), (*self.seconds, seconds))


@dataclass(frozen=True)
class Reconstruction:
    """Rows rebuilt from a release, and how sure we are of them."""

    rows: torch.Tensor  # (m, d)
    status: Status
    reason: str  # one sentence: why this status, and what would help
    certificate: Certificate
    attack: str
    passes: int  # GEMMs over all of V, one side each
    seconds: float
    curve: Curve = field(default_factory=Curve)
    removal_costs: tuple[float, ...] = ()  # of the rows and of spare ones added on top, descending: the cliff is n
    signs_resolved: bool = False
    scale: str = "unknown"  # "known norm", "from labels", "from range", "fitted" or "unknown"
    notes: tuple[str, ...] = ()

    @property
    def loss(self) -> float:
        """Final normalised loss on all features."""
        return self.certificate.loss

    def row(self) -> dict[str, Any]:
        """What was found, how sure it is and what it cost, as one flat JSON object."""
        proof = self.certificate
        return {
            "n_found": len(self.rows),
            "attack": self.attack,
            "certified": self.certified,
            "status": self.status.value,
            "reason": self.reason,
            "loss": self.loss,
            "equations": proof.equations,
            "unknowns": proof.unknowns,
            "row_error_max": max(proof.row_errors, default=None),
            "weakest_row": proof.weakest_row,
            "strongest_spare": proof.strongest_spare,
            "signs_resolved": self.signs_resolved,
            "scale": self.scale,
            "passes": self.passes,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }

    @property
    def certified(self) -> bool:
        """Whether the rows are training data beyond doubt."""
        return self.status is Status.CERTIFIED


def save_reconstruction(guess: Reconstruction, path: str | Path) -> None:
    """Write a reconstruction as one safetensors file with a JSON header."""
    header = {"format": _FORMAT} | {k: v for k, v in asdict(replace(guess, rows=torch.empty(0))).items() if k != "rows"}
    write_tensors(Path(path), {"rows": guess.rows}, header | {"status": guess.status.name})


def load_reconstruction(path: str | Path) -> Reconstruction:
    """Read a reconstruction that exhume wrote."""
    tensors, header = read_tensors(Path(path), "reconstruction", _FORMAT)
    try:
        values: dict[str, Any] = {k: v for k, v in header.items() if k != "format"}
        values["status"] = Status[values["status"]]
        values["certificate"] = Certificate(**_tuples(values["certificate"]))
        values["curve"] = Curve(**_tuples(values["curve"]))
        return Reconstruction(rows=tensors["rows"], **_tuples(values))
    except (KeyError, TypeError, AttributeError) as error:
        raise ExhumeError(f"reconstruction {path} lacks or misspells {error}. Write it again with `exhume reconstruct`.") from None


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
