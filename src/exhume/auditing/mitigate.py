"""The mitigation ladder: each step applied or re-trained for real, attacked again, and weighed against what it costs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import nn

from exhume.attacks import Resources, Watch
from exhume.attacks.base import ignore
from exhume.auditing import retrain
from exhume.auditing.bounded import run_bounded
from exhume.auditing.choose import choose
from exhume.auditing.compare import beyond_chance, near, references, views
from exhume.auditing.inputs import Brought, subject_of
from exhume.auditing.preflight import training_error
from exhume.auditing.run import Audit
from exhume.auditing.subject import Knowledge, Subject
from exhume.data import Dataset
from exhume.linalg import streams
from exhume.result import Reconstruction
from exhume.victims.pruning import prune_by_magnitude

# An attack on a mitigated model gets this many times the work that the open one took.
_PATIENCE = 2.0
NOISES = (1e-4, 1e-2, 1e-1)
PRUNED = (0.5, 0.9)
DECAYS = (1e2, 1e4)  # times the present penalty
HEADS = (1.0, 0.3)  # p / (d n)
EPSILONS = (8.0, 1.0)
DELTA_SHARE = 0.1  # delta = 0.1 / n

Edit = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Rung:
    """One step of the ladder, measured."""

    step: str
    setting: str
    how: str  # "as it is", "applied" or "re-trained"
    rebuilt: int
    n: int
    certified: bool
    train_error: float
    held_out_error: float | None
    seconds: float

    @property
    def leakage(self) -> float:
        """Share of samples that were rebuilt."""
        return self.rebuilt / self.n


@dataclass(frozen=True)
class Ladder:
    """All rungs, the open model first; `cheapest` is the first that stops the attack at the least loss of utility."""

    rungs: tuple[Rung, ...]
    skipped: tuple[tuple[str, str], ...]  # step, reason
    bearable: float  # leakage that counts as stopped

    @property
    def cheapest(self) -> Rung | None:
        """The rung that stops the attack with the smallest held-out (else training) error."""
        stopped = [rung for rung in self.rungs[1:] if rung.leakage <= self.bearable]
        return min(stopped, key=cost, default=None)

    def row(self) -> dict[str, Any]:
        """The ladder as one JSON object."""
        best = self.cheapest
        return {
            "rungs": [asdict(rung) | {"leakage": rung.leakage} for rung in self.rungs],
            "skipped": [{"step": step, "why": why} for step, why in self.skipped],
            "cheapest": None if best is None else f"{best.step}, {best.setting}",
        }


def cost(rung: Rung) -> float:
    """What a rung is weighed by: the held-out error, or the training error where nothing was held out."""
    return rung.held_out_error if rung.held_out_error is not None else rung.train_error


@dataclass(frozen=True)
class _Step:
    """A step to take: its names, and how to make the changed model (and what the attacker then knows)."""

    step: str
    setting: str
    how: str
    make: Callable[[], tuple[Brought, Knowledge]]


def climb(
    brought: Brought,
    knowledge: Knowledge,
    first: Audit,
    *,
    bearable: float = 0.0,
    seed: int = 0,
    watch: Watch = ignore,
    finished: Callable[[Rung], None] = lambda rung: None,
    resources: Resources = Resources(),
) -> Ladder:
    """Every step that fits the model, measured as the open model was (`first`)."""
    verdict = first.verdict
    rungs = [
        Rung(
            step="as it is",
            setting="",
            how="as it is",
            rebuilt=verdict.rebuilt,
            n=verdict.n,
            certified=verdict.certified,
            train_error=first.law.train_error,
            held_out_error=first.utility.get("held_out_error"),
            seconds=first.guess.seconds,
        )
    ]
    finished(rungs[0])
    skipped: list[tuple[str, str]] = []
    work = int(_PATIENCE * max(first.guess.passes, 1000))
    for step in _steps(brought, knowledge, first.subject, seed, skipped):
        try:
            changed, known = step.make()
            rung = _measure(step, changed, known, first, work, seed, watch, resources)
        except Exception as error:  # a step that fails on somebody's model must not lose those that were measured
            skipped.append((f"{step.step}, {step.setting}", (str(error) or type(error).__name__).splitlines()[0]))
            continue
        rungs.append(rung)
        finished(rung)
    return Ladder(tuple(rungs), tuple(skipped), bearable)


def _measure(
    step: _Step, brought: Brought, knowledge: Knowledge, first: Audit, work: int, seed: int, watch: Watch, resources: Resources
) -> Rung:
    """Attack the changed model as an attacker who knows of the change would, and see what it is still good for."""
    subject, held_out = subject_of(brought, knowledge)
    found = None
    spent = 0.0
    for option in (o for o in choose(subject.release) if o.place is not None):
        guess = run_bounded(option.attack, subject.release, passes=work, seed=seed, watch=watch, resources=resources)
        inputs, spent = subject.inputs_from(guess), spent + guess.seconds
        count = count_rebuilt(subject, held_out, inputs, first.within, seed=seed)
        found = max(found or (0, False), (count, guess.certified))
        if found[0] == subject.truth.n:
            break
    assert found is not None
    error = training_error(subject, subject.truth)[0]
    outside = None if held_out is None else training_error(subject, held_out)[0]
    return Rung(step.step, step.setting, step.how, found[0], subject.truth.n, found[1] and found[0] > 0, error, outside, spent)


def count_rebuilt(subject: Subject, held_out: Dataset | None, inputs: Reconstruction, within: float, *, seed: int) -> int:
    """Training samples near a row; none where samples that were not trained on are as near as often."""
    others, _ = references(subject.truth, held_out, seed)
    best = 0
    for view in views(inputs.scale):
        rows = view(inputs.rows)
        errors = near(rows, view(subject.truth.rows))
        if beyond_chance(errors, near(rows, view(others)), within):
            best = max(best, int((errors < within).sum()))
    return best


def _steps(brought: Brought, knowledge: Knowledge, subject: Subject, seed: int, skipped: list[tuple[str, str]]) -> Iterator[_Step]:
    """All steps in the order of what they ask of the model's owner: changes of the weights first, training anew last."""
    sklearn = isinstance(retrain.open_model(brought), BaseEstimator)
    change = _change_sklearn if sklearn else _change_torch

    def applied(step: str, setting: str, edit: Edit) -> _Step:
        return _Step(step, setting, "applied", lambda: (change(brought, edit), knowledge))

    def trained(step: str, setting: str, make: Callable[[Brought, Subject], Brought]) -> _Step:
        return _Step(step, setting, "re-trained", lambda: (make(brought, subject), knowledge))

    yield applied("rounding", "float16", partial(_rounded, dtype=torch.float16))
    yield applied("rounding", "bfloat16", partial(_rounded, dtype=torch.bfloat16))
    yield applied("rounding", "int8", _int8)
    for size in NOISES:
        yield applied("weight noise", f"{size:g} of their size", partial(_noised, size=size, seed=seed))
    for share in PRUNED:
        prune = partial(prune_features, brought, head=subject.head, share=share)
        yield _Step("pruning", f"{share:.0%} of the features", "applied", lambda prune=prune: (prune(), knowledge))  # type: ignore[misc]
    if brought.init is not None and knowledge.init != "none":
        hidden = replace(knowledge, init="none")
        yield _Step("withholding theta_0", "no weights before training", "applied", lambda: (brought, hidden))
    else:
        skipped.append(("withholding theta_0", "there is none to withhold" if sklearn else "the attacker has none"))
    for factor in DECAYS:
        yield trained("weight decay", f"x {factor:g}", partial(retrain.with_decay, factor=factor))
    dn, release = subject.truth.d * subject.truth.n, subject.release
    for ratio in HEADS:
        if release.p * release.k > ratio * dn:
            count = max(2, math.floor(ratio * dn / release.k))
            yield trained("smaller head", f"p = {ratio:g} dn", partial(retrain.with_head, count=count))
    for epsilon in EPSILONS:
        make = partial(retrain.with_dp, epsilon=epsilon, delta_share=DELTA_SHARE, seed=seed)
        yield trained("DP-SGD", f"epsilon {epsilon:g}", make)


def _noised(weights: np.ndarray, *, size: float, seed: int) -> np.ndarray:
    draw = streams.generator(seed, "weight noise", 0)
    noise = torch.randn(weights.shape, generator=draw, dtype=torch.float64).numpy()
    return weights + size * np.sqrt(np.mean(np.square(weights))) * noise


def _rounded(weights: np.ndarray, *, dtype: torch.dtype) -> np.ndarray:
    return torch.as_tensor(weights).to(dtype).to(torch.float64).numpy()


def _int8(weights: np.ndarray) -> np.ndarray:
    """Symmetric, one scale per tensor."""
    step = np.abs(weights).max() / 127
    return np.round(weights / step) * step


def _change_sklearn(brought: Brought, edit: Edit) -> Brought:
    model = copy.deepcopy(retrain.open_model(brought))
    last = retrain.last_step(model)
    if not hasattr(last, "coef_"):
        last.coefs_ = [edit(W) for W in last.coefs_]
    else:
        last.coef_ = edit(np.asarray(last.coef_, dtype=np.float64))
    return replace(brought, trained=model)


def prune_features(brought: Brought, *, head: str | None, share: float) -> Brought:
    """Whole features, by the size of their weights in the last layer, out of every output."""
    model = copy.deepcopy(retrain.open_model(brought))
    if isinstance(model, nn.Module) and head is not None:
        weight = model.get_parameter(f"{head}.weight")
        weight.data = prune_by_magnitude(weight.data, share)
        return replace(brought, trained=model)
    last = retrain.last_step(model)
    if hasattr(last, "coef_"):
        weights = torch.as_tensor(np.atleast_2d(np.asarray(last.coef_, dtype=np.float64)))
        last.coef_ = prune_by_magnitude(weights, share).numpy().reshape(np.shape(last.coef_))
    else:
        last.coefs_ = [*last.coefs_[:-1], prune_by_magnitude(torch.as_tensor(last.coefs_[-1].T.copy()), share).numpy().T]
    return replace(brought, trained=model)


def _change_torch(brought: Brought, edit: Edit) -> Brought:
    """Every weight of two or more axes."""
    module = copy.deepcopy(retrain.open_model(brought))
    state = {
        name: torch.as_tensor(edit(value.double().numpy())).to(value.dtype)
        if value.is_floating_point() and value.ndim > 1
        else value
        for name, value in module.state_dict().items()
    }
    module.load_state_dict(state)
    return replace(brought, trained=module)
