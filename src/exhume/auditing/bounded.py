"""An attack with a bound on its work: where that is spent, the rows in hand are the answer."""

from __future__ import annotations

from dataclasses import replace

import torch

from exhume.attacks import Attack, Progress, Resources, Watch
from exhume.attacks.base import ignore
from exhume.release import Release
from exhume.result import Certificate, Reconstruction, Status


class _EnoughError(Exception):
    """The work is spent."""


def run_bounded(
    attack: Attack, release: Release, *, passes: int, seed: int, watch: Watch = ignore, resources: Resources = Resources()
) -> Reconstruction:
    """The attack's answer, or after `passes` the rows it then had."""
    last = torch.empty(0, release.d, dtype=torch.float64)
    spent = 0.0

    def bounded(now: Progress) -> None:
        nonlocal last, spent
        watch(now)
        spent = now.seconds
        if now.X.ndim == 2 and now.X.shape[1] == release.d:
            last = now.X.detach().cpu().clone()
        if now.passes > passes:
            raise _EnoughError

    try:
        return attack.run(release, seed=seed, watch=bounded, resources=replace(resources, checkpoint=None))
    except _EnoughError:
        reason = f"stopped after {passes} passes, before it had ended"
        return Reconstruction(last, Status.STALLED, reason, Certificate(0, 0, 1.0, 0.0), attack.name, passes, spent)
