"""Small models under audit, each trained and attacked once for all tests, and values made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

from exhume.attacks import Attack, Proposal, Resources, Watch, ignore
from exhume.auditing import Audit, AuditInputs, Preflight, Subject, preflight, run_audit, subject_of
from exhume.data import Dataset
from exhume.release import Release
from exhume.result import Certificate, Reconstruction, Status
from support.models import descend, digit_pictures, patients, relu_pipeline, two_layer


def state(net: nn.Module) -> dict[str, torch.Tensor]:
    """A copy of a module's parameters."""
    return {name: value.clone() for name, value in net.state_dict().items()}


@cache
def pipeline_inputs() -> AuditInputs:
    """A pipeline fitted on five patients, with forty others."""
    model, X, y = relu_pipeline(5)
    return AuditInputs(model, (X, y), held_out=patients(40, 100), name="five patients")


@cache
def pipeline_case() -> tuple[Subject, Dataset]:
    """The pipeline as a subject, and the held-out patients as its inputs."""
    subject, held_out = subject_of(pipeline_inputs())
    assert held_out is not None
    return subject, held_out


@cache
def pipeline_audit() -> Audit:
    """The audit of the pipeline: all five are rebuilt, with proof."""
    subject, held_out = pipeline_case()
    return run_audit(subject, held_out=held_out)


@cache
def network_inputs(*, bias: bool = False, width: int = 160) -> AuditInputs:
    """A two-layer network fitted to four digits, with its weights before training."""
    X, y = digit_pictures(4)
    net = two_layer(width, bias=bias)
    init = state(net)
    return AuditInputs(descend(net, X, y), (X, y), init=init, name="four digits")


@cache
def pipeline_law() -> Preflight:
    """The law on the pipeline."""
    return preflight(pipeline_case()[0])


@cache
def network_case(*, bias: bool = False) -> Subject:
    """The network as a subject."""
    return subject_of(network_inputs(bias=bias))[0]


@cache
def network_audit() -> Audit:
    """The audit of the network: all four are rebuilt, without proof."""
    return run_audit(network_case())


def reconstruction(rows: Any, status: Status = Status.STALLED, **changes: Any) -> Reconstruction:
    """A reconstruction made by hand."""
    values: dict[str, Any] = {
        "reason": "it is made by hand",
        "certificate": Certificate(100, 50, 1e-3, 1e-15),
        "attack": "by hand",
        "passes": 400,
        "seconds": 1.5,
        "scale": "fitted",
    }
    return Reconstruction(torch.as_tensor(rows, dtype=torch.float64), status, **(values | changes))


def vectors(rows: Any, labels: Any = None, **changes: Any) -> Dataset:
    """A dataset made by hand; labels alternate unless they are given."""
    X = torch.as_tensor(rows, dtype=torch.float64)
    y = torch.as_tensor(np.where(np.arange(len(X)) % 2, 1.0, -1.0) if labels is None else labels, dtype=torch.float64)
    d = X.shape[1]
    values: dict[str, Any] = {
        "kind": "vector",
        "mean": torch.zeros(d, dtype=torch.float64),
        "spread": torch.ones(d, dtype=torch.float64),
        "shape": (d,),
    }
    return Dataset("by hand", X, y, **(values | changes))


Answer = Callable[[Release], Reconstruction]


@dataclass(frozen=True)
class ScriptedAttack(Attack):
    """An attack whose answer is written beforehand; it remembers what it was given."""

    name: str = "scripted"
    about: str = "answers as it is told"
    needs: str = "nothing"
    ranks: tuple[int | None, ...] = ()  # its places in the order of an audit's attempts
    answer: InitVar[Answer | None] = None  # by default, no rows

    def __post_init__(self, answer: Answer | None) -> None:
        # Beside the settings, which must be plain values.
        object.__setattr__(self, "_answer", answer or (lambda release: reconstruction(torch.zeros(0, release.d))))
        object.__setattr__(self, "seen", [])

    def proposals(self, release: Release) -> tuple[Proposal, ...]:
        return tuple(Proposal(self, rank, f"{self.name} has rank {rank}") for rank in self.ranks)

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        self.seen.append((release, seed, resources))  # type: ignore[attr-defined]
        return self._answer(release)  # type: ignore[attr-defined]
