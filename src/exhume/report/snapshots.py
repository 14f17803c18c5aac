"""A watch that keeps a few snapshots of the rows, evenly spread over the run."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from exhume.attacks import Progress

_MOST = 64


@dataclass(frozen=True)
class Snapshot:
    """The candidate rows at one step."""

    step: int
    loss: float
    X: torch.Tensor


class Recorder:
    """Keeps every k-th step; when full, drops every second one and doubles k."""

    def __init__(self) -> None:
        self._every, self._attempt = 1, 0
        self.snapshots: list[Snapshot] = []

    def __call__(self, now: Progress) -> None:
        """Record one step of an attack; training has no rows to show."""
        if not len(now.X):
            return
        if now.attempt != self._attempt:  # the film shows the attempt that led to the end
            self._every, self._attempt, self.snapshots = 1, now.attempt, []
        if now.step % self._every:
            return
        self.snapshots.append(Snapshot(now.step, now.loss, now.X.detach().cpu().clone()))
        if len(self.snapshots) > _MOST:
            self.snapshots = self.snapshots[::2]
            self._every *= 2

    def frames(self, count: int) -> list[Snapshot]:
        """At most `count` snapshots, first and last included."""
        if len(self.snapshots) <= count:
            return self.snapshots
        picks = torch.linspace(0, len(self.snapshots) - 1, count).round().int().tolist()
        return [self.snapshots[i] for i in picks]
