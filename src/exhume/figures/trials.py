"""Trials that several figures share: the paper's data, victims and attacks at two scales."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from exhume.attacks import attack_named
from exhume.data import DataRequest
from exhume.figures.panels import Curves, Line, Points
from exhume.knowledge import Knowledge
from exhume.lab.job import Job, TrialJob
from exhume.lab.trial import Trial
from exhume.report.palette import BLUE, GREEN, INK, PAPER, RED

# The paper runs its descent until the loss is 1e-7; a quick figure stops it here.
QUICK_STEPS = {"sphere": 2000, "digits": 2000, "photographs": 1000, "two-layer": 2000, "resnet": 300, "vit": 300}
PAPER_STEPS = 60_000


def sphere(d: int, n: int, seed: int, rank: int | None = None) -> DataRequest:
    """Rows of Section 5.1."""
    return DataRequest("sphere", n=n, d=d, seed=seed, rank=rank)


def ours(data: DataRequest, p: int, seed: int, *, keep: bool = False, starts: int | None = None, **settings: Any) -> TrialJob:
    """gauss-newton on random features of p parameters; it is not told n. Fewer starts make it give up earlier near p = dn."""
    attack = attack_named("gauss-newton", starts=starts)
    return TrialJob(Trial(data, p=p, seed=seed, allow_underfit=True, attack=attack, **settings), keep)


def papers(
    data: DataRequest,
    p: int,
    seed: int,
    *,
    steps: int,
    keep: bool = False,
    rows: int | None = None,
    step_size: float | None = None,
    **settings: Any,
) -> TrialJob:
    """projection-gd on the same victim, in float32 as published; it is told n (at most p, where its projector ends)."""
    assert data.n is not None
    claimed = rows if rows is not None else p if p < data.n else None
    attack = attack_named("projection-gd", max_steps=steps, rows=claimed, step_size=step_size)
    settings = {"dtype": "float32"} | settings
    knowledge = Knowledge(n=claimed is None)
    return TrialJob(Trial(data, p=p, seed=seed, allow_underfit=True, knowledge=knowledge, attack=attack, **settings), keep)


def network(
    data: DataRequest,
    victim: str,
    k: int,
    ratio: float,
    seed: int,
    attack: str,
    *,
    scale: str,
    keep: bool = False,
    told_n: bool = False,
    **settings: Any,
) -> TrialJob:
    """A trained network; ratio is p_L / (d n). projection-gd is told n, and stopped early in a quick figure."""
    chosen, papers_attack = attack_named(attack), attack == "projection-gd"
    if papers_attack:
        chosen = attack_named(attack, max_steps=QUICK_STEPS[victim] if scale == "quick" else PAPER_STEPS)
    knowledge = Knowledge(n=told_n or papers_attack)
    trial = Trial(data, victim=victim, k=k, ratio=ratio, seed=seed, knowledge=knowledge, attack=chosen, **settings)
    return TrialJob(trial, keep)


def sizes(d: int, n: int, ratios: Iterable[float]) -> list[int]:
    """Values of p: around p = n, then multiples of dn."""
    return sorted({max(2, n // 3), n, 3 * n, *(round(r * d * n) for r in ratios)})


def points(make: Callable[[float, int], Job], xs: Iterable[float], seeds: Iterable[int]) -> Points:
    """Jobs over seeds at every x."""
    listed = tuple(seeds)
    return tuple((float(x), tuple(make(x, seed) for seed in listed)) for x in xs)


def three_lines(mine: Points, theirs: Points, field: str = "rho") -> tuple[Line, ...]:
    """Reconstruction error of both attacks and the training error."""
    what = "reconstruction" if field == "rho" else "reconstruction (directions)"
    lines = [Line(f"{what}, gauss-newton (ours)", field, mine, RED)]
    if theirs:
        lines.append(Line(f"{what}, projection-gd (paper)", field, theirs, PAPER, "--", "s"))
    return (*lines, Line("training error", "train_loss", mine, INK, "-", "."))


def residual_line(mine: Points) -> Line:
    """The residual of the true features outside the span found (Eq. 167)."""
    return Line("span residual, gauss-newton", "span_residual", mine, BLUE, "-", "^")


def with_residuals(curves: Curves) -> Curves:
    """Errors and span residuals of both attacks, in place of the training error."""
    mine, theirs, _ = curves.lines
    rival = Line("span residual, projection-gd", "span_residual", theirs.points, GREEN, "--", "v")
    return replace(curves, lines=(mine, theirs, residual_line(mine.points), rival))
