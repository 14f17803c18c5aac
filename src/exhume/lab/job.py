"""Jobs: the cells of a grid. A job says all that fixes its result, has a key made of that, and can be run anywhere."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch

from exhume.attacks import ATTACKS, Resources, Watch
from exhume.data import DataRequest
from exhume.lab.trial import Cell, run_trial
from exhume.score.match import match

# Part of every key: to be raised when a change makes rows stored before it wrong.
_MEANING = 1
# A pass over few features costs what calling the operations costs: as long as this many flops.
_PASS_OVERHEAD = 1.5e7


@dataclass(frozen=True)
class Done:
    """What a job made: one flat row, and tensors to be kept beside it."""

    row: dict[str, Any]
    tensors: dict[str, torch.Tensor]


class Job(Protocol):
    """One cell of a grid."""

    kind: ClassVar[str]

    def settings(self) -> dict[str, Any]:
        """All that fixes the result, as plain values; what is left at its default is left out."""
        ...

    def flops(self) -> float:
        """Rough work, for ordering and estimates."""
        ...

    def run(self, *, data_dir: Path | None, watch: Watch, resources: Resources) -> Done:
        """Compute the result."""
        ...


def key_of(job: Job) -> str:
    """The content hash of a job: same settings, same key, on every machine and in every version."""
    text = json.dumps([_MEANING, job.kind, job.settings()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True)
class Trial:
    """Train, attack, score; `keep` says whether truth and reconstruction are kept for pictures."""

    kind: ClassVar[str] = "trial"
    cell: Cell
    keep: bool = False

    def settings(self) -> dict[str, Any]:
        """The cell without its defaults; where the data lie does not count, the content of an own file does."""
        cell = self.cell
        plain = _changed(cell, Cell(cell.data), "data", "attack")
        attack = {"name": cell.attack.name} | _changed(cell.attack, ATTACKS[cell.attack.name], "name")
        return plain | {"data": data_settings(cell.data), "attack": attack} | ({"keep": True} if self.keep else {})

    def flops(self) -> float:
        """Passes over the features times the work of one."""
        cell, (d, n) = self.cell, shape_of(self.cell.data)
        p = cell.p if cell.p is not None else (cell.ratio or 1.0) * d * n
        per_pass = 2.0 * d * n * min(p, 4.0 * d * n)
        steps = getattr(cell.attack, "max_steps", None)
        passes = 3.0 * min(steps, 5000) if isinstance(steps, int) else 900.0
        return (per_pass + _PASS_OVERHEAD) * passes + 4.0 * p * d * n

    def run(self, *, data_dir: Path | None, watch: Watch, resources: Resources) -> Done:
        """Run the cell; the tensors are rows in the units that the model sees, matched to the truth."""
        cell = replace(self.cell, data=placed(self.cell.data, data_dir))
        result = run_trial(cell, watch=watch, resources=resources)
        if not self.keep:
            return Done(result.row(), {})
        truth, rows = result.truth, result.guess.rows.double()
        matched = match(truth.rows, rows, forgive_sign=False).rows(rows)
        tensors = {"found": result.guess.rows.contiguous()}
        if truth.kind == "image":
            # Every found picture beside those matched to the truth: a guess may have too many or too few.
            for name, values in (("truth", truth.rows), ("rebuilt", matched), ("all", rows)):
                tensors[f"{name}_pictures"] = torch.from_numpy((truth.pictures(values) * 255).round().astype("uint8"))
        return Done(result.row(), tensors)


def _changed(value: Any, default: Any, *without: str) -> dict[str, Any]:
    named = (f.name for f in fields(value) if f.name not in without)
    return {name: getattr(value, name) for name in named if getattr(value, name) != getattr(default, name)}


def data_settings(data: DataRequest) -> dict[str, Any]:
    """Which samples, as plain values: not where they lie, but what is in a file of one's own."""
    plain = _changed(data, DataRequest(data.source), "data_dir", "data_file")
    if data.data_file is not None:
        plain["content"] = hashlib.sha256(data.data_file.read_bytes()).hexdigest()
    return plain | {"source": data.source}


def placed(data: DataRequest, data_dir: Path | None) -> DataRequest:
    """The request with the folder of this machine."""
    return data if data.data_dir is not None else replace(data, data_dir=data_dir)


def shape_of(data: DataRequest) -> tuple[int, int]:
    """(d, n) of a request without loading it; rough where the source decides."""
    side = {"cifar10": 32, "cifar10-multi": 32, "tiny-imagenet": 64}.get(data.source)
    if side is not None:
        return 3 * (data.size or side) ** 2, data.n or 20
    return (64 if data.source == "digits" else data.d or 30), data.n or 20
