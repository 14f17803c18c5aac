"""The steps of the ladder, in the order of what they ask of the model's owner. To add one: a `yield` in `steps_for`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from exhume.auditing.audit_inputs import AuditInputs
from exhume.auditing.mitigation import retraining, weight_edits
from exhume.auditing.subject import Subject
from exhume.knowledge import Knowledge

_NOISES = (1e-4, 1e-2, 1e-1)  # of the weights' size
_PRUNED_SHARES = (0.5, 0.9)
_DECAY_FACTORS = (1e2, 1e4)  # times the present penalty
_HEAD_RATIOS = (1.0, 0.3)  # p / (d n)
_EPSILONS = (8.0, 1.0)
_DELTA_SHARE = 0.1  # delta = 0.1 / n


@dataclass(frozen=True)
class Step:
    """A step to take: its names, and how to make the changed model (and what the attacker then knows)."""

    step: str
    setting: str
    how: str  # "applied" to the weights, or "re-trained"
    make: Callable[[], tuple[AuditInputs, Knowledge]]


@dataclass(frozen=True)
class Skipped:
    """A step that does not fit the model, and why."""

    step: str
    why: str


def steps_for(inputs: AuditInputs, knowledge: Knowledge, subject: Subject, seed: int) -> Iterator[Step | Skipped]:
    """Every step that fits the model: changes of the weights first, training anew last."""

    def applied(step: str, setting: str, make: Callable[[AuditInputs], AuditInputs]) -> Step:
        return Step(step, setting, "applied", lambda: (make(inputs), knowledge))

    def trained(step: str, setting: str, make: Callable[[AuditInputs, Subject], AuditInputs]) -> Step:
        return Step(step, setting, "re-trained", lambda: (make(inputs, subject), knowledge))

    for name, dtype in (("float16", torch.float16), ("bfloat16", torch.bfloat16)):
        yield applied("rounding", name, partial(weight_edits.edited, edit=partial(weight_edits.rounded, dtype=dtype)))
    yield applied("rounding", "int8", partial(weight_edits.edited, edit=weight_edits.to_int8))
    for size in _NOISES:
        noise = partial(weight_edits.noised, size=size, seed=seed)
        yield applied("weight noise", f"{size:g} of their size", partial(weight_edits.edited, edit=noise))
    for share in _PRUNED_SHARES:
        prune = partial(weight_edits.without_features, head=subject.head, share=share)
        yield applied("pruning", f"{share:.0%} of the features", prune)
    if inputs.init is not None and knowledge.init != "none":
        hidden = replace(knowledge, init="none")
        yield Step("withholding theta_0", "no weights before training", "applied", lambda: (inputs, hidden))
    else:
        yield Skipped("withholding theta_0", "there is none to withhold" if inputs.init is None else "the attacker has none")
    for factor in _DECAY_FACTORS:
        yield trained("weight decay", f"x {factor:g}", partial(retraining.with_decay, factor=factor))
    dn, release = subject.truth.d * subject.truth.n, subject.release
    for ratio in _HEAD_RATIOS:
        if release.p * release.k > ratio * dn:
            count = max(2, math.floor(ratio * dn / release.k))
            yield trained("smaller head", f"p = {ratio:g} dn", partial(retraining.with_head, count=count))
    for epsilon in _EPSILONS:
        private = partial(retraining.with_dp, epsilon=epsilon, delta_share=_DELTA_SHARE, seed=seed)
        yield trained("DP-SGD", f"epsilon {epsilon:g}", private)
