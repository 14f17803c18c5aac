"""Jobs: the parts of a grid. A job says all that fixes its result, has a key made of that, and can be run anywhere."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch

from exhume.attacks import ATTACKS, Resources, Watch
from exhume.data import DataRequest
from exhume.data.registry import placed, shape_of
from exhume.knowledge import Knowledge
from exhume.lab.trial import Trial, run_trial
from exhume.score.match import match

# Increment to invalidate stored rows.
RESULT_VERSION = 1
# A pass over few features costs what calling the operations costs: as long as this many flops.
_PASS_OVERHEAD = 1.5e7
# The attacker's knowledge as it stands in stored settings.
_KNOWLEDGE_NAMES = {
    "init": "know_init",
    "n": "know_n",
    "statistics": "know_norm",
    "labels": "know_labels",
    "optimizer": "know_optimizer",
    "recipe": "know_recipe",
}


@dataclass(frozen=True)
class Done:
    """What a job made: one flat row, and tensors to be kept beside it."""

    row: dict[str, Any]
    tensors: dict[str, torch.Tensor]


class Job(Protocol):
    """One part of a grid."""

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
    text = json.dumps([RESULT_VERSION, job.kind, job.settings()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@dataclass(frozen=True)
class TrialJob:
    """Train, attack, score; `keep` says whether truth and reconstruction are kept for pictures."""

    kind: ClassVar[str] = "trial"
    trial: Trial
    keep: bool = False

    def settings(self) -> dict[str, Any]:
        """The trial without its defaults; where the data lie does not count, the content of an own file does."""
        trial = self.trial
        plain = _changed(trial, Trial(trial.data), "data", "attack", "knowledge")
        plain |= {_KNOWLEDGE_NAMES[name]: value for name, value in _changed(trial.knowledge, Knowledge()).items()}
        attack = {"name": trial.attack.name} | _changed(trial.attack, ATTACKS[trial.attack.name], "name")
        return plain | {"data": data_settings(trial.data), "attack": attack} | ({"keep": True} if self.keep else {})

    def flops(self) -> float:
        """Passes over the features times the work of one."""
        trial, (d, n) = self.trial, shape_of(self.trial.data)
        p = trial.p if trial.p is not None else (trial.ratio or 1.0) * d * n
        per_pass = 2.0 * d * n * min(p, 4.0 * d * n)
        steps = getattr(trial.attack, "max_steps", None)
        passes = 3.0 * min(steps, 5000) if isinstance(steps, int) else 900.0
        return (per_pass + _PASS_OVERHEAD) * passes + 4.0 * p * d * n

    def run(self, *, data_dir: Path | None, watch: Watch, resources: Resources) -> Done:
        """Run the trial; the tensors are rows in the units that the model sees, matched to the truth."""
        trial = replace(self.trial, data=placed(self.trial.data, data_dir))
        result = run_trial(trial, watch=watch, resources=resources)
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
    if data.file is not None:
        plain["content"] = hashlib.sha256(data.file.read_bytes()).hexdigest()
    return plain | {"source": data.source}
