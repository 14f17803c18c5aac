"""Trials that figures share: who is told what, at which size and precision."""

from __future__ import annotations

import pytest

from exhume.data import DataRequest
from exhume.figures.panels import Curves
from exhume.figures.trials import (
    PAPER_STEPS,
    network,
    ours,
    papers,
    points,
    residual_line,
    sizes,
    sphere,
    three_lines,
    with_residuals,
)
from exhume.lab.job import key_of

DATA = sphere(30, 20, 1)


def test_rows_of_the_sphere_are_requested_by_their_seed() -> None:
    assert sphere(30, 20, 1, rank=4) == DataRequest("sphere", n=20, d=30, seed=1, rank=4)


def test_ours_is_told_nothing_and_may_fail_to_fit() -> None:
    job = ours(DATA, 600, 3, keep=True, starts=2, ridge=0.1, dtype="float32")
    trial = job.trial
    assert (trial.attack.name, trial.attack.starts) == ("gauss-newton", 2)  # type: ignore[attr-defined]
    assert (trial.p, trial.seed, trial.ridge, trial.dtype, job.keep) == (600, 3, 0.1, "float32", True)
    assert trial.allow_underfit
    assert not trial.knowledge.n
    assert ours(DATA, 600, 3).trial.attack == ours(DATA, 600, 3, starts=4).trial.attack  # the default


@pytest.mark.parametrize(
    ("p", "rows", "told", "claimed"),
    [(600, None, True, None), (20, None, True, None), (7, None, False, 7), (600, 16, False, 16)],
)
def test_the_papers_attack_is_told_n_and_at_most_p_rows(p: int, rows: int | None, told: bool, claimed: int | None) -> None:
    trial = papers(DATA, p, 0, steps=50, rows=rows, step_size=2.0).trial
    attack = trial.attack
    assert (attack.name, attack.max_steps, attack.step_size) == ("projection-gd", 50, 2.0)  # type: ignore[attr-defined]
    assert (trial.knowledge.n, attack.rows) == (told, claimed)  # type: ignore[attr-defined]
    assert trial.dtype == "float32"
    assert papers(DATA, p, 0, steps=50, dtype="float64").trial.dtype == "float64"


@pytest.mark.parametrize(
    ("attack", "scale", "told_n", "knows_n", "steps"),
    [
        ("gauss-newton", "quick", False, False, None),
        ("subspace", "paper", True, True, None),
        ("projection-gd", "quick", False, True, 300),
        ("projection-gd", "paper", False, True, PAPER_STEPS),
    ],
)
def test_networks_are_attacked_as_the_scale_affords(
    attack: str, scale: str, told_n: bool, knows_n: bool, steps: int | None
) -> None:
    trial = network(DATA, "resnet", 3, 2.5, 4, attack, scale=scale, told_n=told_n, loss="cross-entropy").trial
    assert (trial.victim, trial.k, trial.ratio, trial.p, trial.seed, trial.loss) == ("resnet", 3, 2.5, None, 4, "cross-entropy")
    assert trial.knowledge.n is knows_n
    assert getattr(trial.attack, "max_steps", None) == steps


def test_sizes_lie_around_n_and_at_multiples_of_dn() -> None:
    assert sizes(30, 20, (0.3, 1, 10)) == [6, 20, 60, 180, 600, 6000]
    assert sizes(2, 3, (1.0, 1.5)) == [2, 3, 6, 9]  # equal ones once, and two at least


def test_points_are_jobs_over_seeds_at_every_x() -> None:
    made = points(lambda x, seed: ours(sphere(10, 4, seed), int(x), seed), (20, 40), iter(range(2)))
    assert [x for x, _ in made] == [20.0, 40.0]
    assert [[(job.trial.p, job.trial.seed) for job in jobs] for _, jobs in made] == [  # type: ignore[attr-defined]
        [(20, 0), (20, 1)],
        [(40, 0), (40, 1)],
    ]
    assert len({key_of(job) for _, jobs in made for job in jobs}) == 4


MINE = points(lambda p, seed: ours(DATA, int(p), seed), (20, 600), range(1))
THEIRS = points(lambda p, seed: papers(DATA, int(p), seed, steps=5), (600,), range(1))


def test_three_lines_are_both_errors_and_the_training_error() -> None:
    assert [(line.label, line.field, line.points) for line in three_lines(MINE, THEIRS)] == [
        ("reconstruction, gauss-newton (ours)", "rho", MINE),
        ("reconstruction, projection-gd (paper)", "rho", THEIRS),
        ("training error", "train_loss", MINE),
    ]
    directed = three_lines(MINE, (), "rho_direction")
    assert [(line.label, line.field) for line in directed] == [
        ("reconstruction (directions), gauss-newton (ours)", "rho_direction"),
        ("training error", "train_loss"),
    ]


def test_residuals_take_the_place_of_the_training_error() -> None:
    curves = Curves("title", three_lines(MINE, THEIRS), 20, 30)
    changed = with_residuals(curves)
    assert [(line.field, line.points) for line in changed.lines] == [
        ("rho", MINE),
        ("rho", THEIRS),
        ("span_residual", MINE),
        ("span_residual", THEIRS),
    ]
    assert (changed.title, changed.n, changed.d) == ("title", 20, 30)
    assert residual_line(MINE) == changed.lines[2]
