"""`exhume.audit(...)`: the whole audit as one call."""

from __future__ import annotations

from typing import Any

from exhume.attacks import Resources, Watch
from exhume.attacks.base import ignore
from exhume.auditing.inputs import Brought, subject_of
from exhume.auditing.run import WITHIN, Audit, run_audit
from exhume.auditing.subject import Knowledge


def audit(
    trained: Any,
    *,
    data: Any,
    init: Any = None,
    model: Any = None,
    held_out: Any = None,
    knowledge: Knowledge = Knowledge(),
    within: float = WITHIN,
    seed: int = 0,
    watch: Watch = ignore,
    resources: Resources = Resources(),
    **details: Any,
) -> Audit:
    """What an attacker could rebuild of `data` from a module or pipeline (or its files); `details` are fields of `Brought`."""
    subject, others = subject_of(Brought(trained, data, model=model, init=init, held_out=held_out, **details), knowledge)
    return run_audit(subject, knowledge=knowledge, held_out=others, within=within, seed=seed, watch=watch, resources=resources)
