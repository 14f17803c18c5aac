"""The one descent behind the published attacks: constants, steps against optimisers by hand, divergence, resume."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest
import torch

from exhume.attacks.gradient_matching.descent import Descent, DescentState, GradientMatching, Tuning
from exhume.attacks.gradient_matching.published import KKT, KKT_MULTICLASS, NTK, PROJECTION_GD
from exhume.attacks.interface import Proposal, Resources
from exhume.attacks.registry import attack_named
from exhume.attacks.search.growth import visible_rows
from exhume.errors import ExhumeError
from exhume.knowledge import Facts, Knowledge
from exhume.release import Release
from exhume.result import Curve, Status
from exhume.victims import RandomFeaturesVictim
from support.networks import MOVED_D, moved_network
from support.planted import through_a_file
from support.problems import small_sphere, state_at, trained, two_layer

ATTACKS = [PROJECTION_GD, KKT, KKT_MULTICLASS, NTK]
by_name = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)


@cache
def random_features(n_known: bool = True) -> Release:
    return trained(small_sphere(d=12, n=3), ratio=10, knowledge=Knowledge(n=n_known))


def network(k: int = 1, **facts: object) -> Release:
    return moved_network(k=k, facts=Facts(**({"n": 3} | facts)))  # type: ignore[arg-type]


def release_for(attack: GradientMatching) -> Release:
    if attack.switches.spans:
        return random_features()
    return network(k=3 if attack.switches.outputs == "margin" else 1)


def descent(attack: GradientMatching, release: Release | None = None, *, seed: int = 0) -> Descent:
    return Descent(attack, release_for(attack) if release is None else release, Resources(), seed=seed)


@pytest.mark.parametrize(
    ("attack", "d", "tuning"),
    [
        (PROJECTION_GD, 100, Tuning(20.0)),
        (PROJECTION_GD, 3072, Tuning(2e3)),
        (PROJECTION_GD, 12288, Tuning(8e3)),
        (KKT, 100, Tuning(0.0305, start=0.035, least_dual=0.447, sharpness=150.0)),
        (KKT, 3072, Tuning(0.555, start=8.9e-4, least_dual=0.498, sharpness=19.1)),
        (KKT_MULTICLASS, 3072, Tuning(0.555, start=8.9e-4, least_dual=0.498, sharpness=19.1)),
        (NTK, 3072, Tuning(0.02, start=0.2)),
    ],
)
def test_published_constants_go_by_dimension(attack: GradientMatching, d: int, tuning: Tuning) -> None:
    assert attack.constants(d) == tuning


@pytest.mark.parametrize(
    ("attack", "release", "message"),
    [
        (
            KKT,
            random_features,
            r"^kkt matches all layers of a network, and random features have one\. Use --attack gauss-newton\.$",
        ),
        (NTK, random_features, "^ntk matches all layers of a network"),
        (KKT, lambda: network(k=2), r"^kkt takes a binary network with one output, got 2\. Use --attack kkt-multiclass\.$"),
        (KKT_MULTICLASS, network, r"^kkt-multiclass takes a network with one output per class, got 1\. Use --attack kkt\.$"),
    ],
)
def test_releases_of_the_wrong_kind_are_refused(attack: GradientMatching, release: object, message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        attack.run(release())  # type: ignore[operator]


@by_name
def test_an_audit_leaves_them_out_and_says_why(attack: GradientMatching) -> None:
    assert attack.proposals(release_for(attack)) == (Proposal(attack, None, attack.left_out),)
    assert attack.refusal(release_for(attack)) is None


@pytest.mark.parametrize(("attack", "per_sample"), [(PROJECTION_GD, 1), (KKT, 2), (NTK, 2)])
def test_each_sample_gets_its_candidates(attack: GradientMatching, per_sample: int) -> None:
    assert descent(attack).m == 3 * per_sample
    assert descent(replace(attack, rows=5)).m == 5 * per_sample
    assert descent(attack).notes == ()


def test_without_n_the_rows_that_stand_out_are_counted_and_a_note_says_so() -> None:
    search = descent(PROJECTION_GD, random_features(n_known=False))
    visible = max(1, visible_rows(search.span, 0))
    assert search.m == visible
    assert search.notes == (
        f"this attack cannot find n: it ran for the {visible} rows that stand out in the weights' second moment",
    )


def test_the_span_problem_of_the_paper_is_bare() -> None:
    for release in (random_features(), network(input_norm=2.0)):
        span = descent(PROJECTION_GD, release).span
        assert not span.nuisance
        assert span.radius == math.sqrt(12)  # whatever else is known
    leaky = descent(replace(PROJECTION_GD, leak=0.02))
    slopes = state_at(leaky.span, leaky.begin().unknowns["X"]).slopes
    assert sorted(slopes.unique().tolist()) == [0.02, 1.0]


def test_first_candidates_lie_on_the_sphere_or_spread_as_published() -> None:
    X = descent(PROJECTION_GD).begin().unknowns["X"]
    torch.testing.assert_close(X.norm(dim=1), torch.full((3,), math.sqrt(12), dtype=torch.float64))
    wide = network(n=80, input_range=(-3.0, 2.0))
    first = descent(NTK, wide)._first_unknowns()
    assert first["X"].shape == (160, MOVED_D)
    assert float(first["X"].std()) == pytest.approx(0.2 * 3.0, rel=0.1)  # in units of the largest entry
    assert -0.5 < float(first["duals"].min()) < -0.4 < 0.4 < float(first["duals"].max()) < 0.5  # signs are open
    duals = descent(KKT, wide)._first_unknowns()["duals"]
    assert 0 < float(duals.min()) < 0.1 < 0.9 < float(duals.max()) < 1  # duals of a margin are positive


@pytest.mark.parametrize(("attack", "columns"), [(KKT, 1), (KKT_MULTICLASS, 1), (NTK, 1), (replace(NTK, name="ntk-3"), 3)])
def test_there_is_a_dual_for_every_score(attack: GradientMatching, columns: int) -> None:
    release = network(k=3) if attack.name in ("ntk-3", "kkt-multiclass") else network()
    assert descent(attack, release)._first_unknowns()["duals"].shape == (6, columns)


def by_hand(search: Descent, steps: int, *, momentum: float = 0.9) -> torch.Tensor:
    """Momentum descent on the paper's loss, rows put back on the sphere after every step."""
    X = search.begin().unknowns["X"].clone()
    speed = torch.zeros_like(X)
    for _ in range(steps):
        state = state_at(search.span, X)
        speed = momentum * speed - 2 * state.gradient / search.span.energy
        X = X - search.tuning.step_size * speed
        X = X * (math.sqrt(12) / X.norm(dim=1, keepdim=True))
    return X


@pytest.mark.parametrize("steps", [7, 70])  # before and after a report, which the speed must outlive
def test_the_papers_descent_is_momentum_on_a_sphere(steps: int) -> None:
    search = descent(replace(PROJECTION_GD, max_steps=steps, tolerance=0.0))
    now = search.begin()
    while not search.done(now):
        now = search.advance(now)
    assert now.step == steps
    torch.testing.assert_close(now.unknowns["X"], by_hand(search, steps), rtol=1e-6, atol=1e-6)
    assert now.loss == pytest.approx(state_at(search.span, by_hand(search, steps)).loss)


def adam(values: torch.Tensor, gradients: list[torch.Tensor], rates: list[float]) -> torch.Tensor:
    """Kingma and Ba's rule."""
    first, second = torch.zeros_like(values), torch.zeros_like(values)
    for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        values = values - rate * (first / (1 - 0.9**t)) / ((second / (1 - 0.999**t)).sqrt() + 1e-8)
    return values


@pytest.mark.parametrize("attack", [KKT, NTK], ids=lambda attack: attack.name)
def test_automatic_steps_are_one_percent_of_each_unknown_and_fall_by_a_cosine(attack: GradientMatching) -> None:
    steps = 60
    release = network(input_range=(-2.0, 4.0))
    search = descent(replace(attack, step_size="auto", max_steps=steps), release)
    now = search.begin()
    assert search.match is not None
    best = search.match.best_duals(now.unknowns["X"], search._level(0))
    size = max(float(values.square().mean().sqrt()) for values in (best, now.unknowns["duals"]))
    assert now.rates == pytest.approx({"X": 0.01 * 4.0, "duals": 0.01 * size})
    unknowns, gradients = now.unknowns, []
    falling = [(1 + math.cos(math.pi * step / steps)) / 2 for step in range(steps)]
    assert (falling[0], falling[steps // 2]) == (1.0, pytest.approx(0.5))
    for step in range(steps):
        gradients.append(search.match.evaluate(unknowns, search._level(step))[1])
        unknowns = {
            name: adam(value, [g[name] for g in gradients], [now.rates[name] * share for share in falling[: step + 1]])
            for name, value in now.unknowns.items()
        }
    after = search.advance(search.advance(now))
    assert after.step == steps
    for name, value in unknowns.items():
        torch.testing.assert_close(after.unknowns[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("attack", "step_size", "rates"),
    [
        (KKT, None, {"X": 0.0305, "duals": 1e-4}),  # duals have a step of their own
        (KKT, 0.5, {"X": 0.5, "duals": 1e-4}),
        (NTK, None, {"X": 0.02, "duals": 0.02}),  # Adam needs only one
        (PROJECTION_GD, None, {"X": 20.0, "duals": 1e-4}),
    ],
)
def test_published_steps_are_taken_unless_another_is_given(
    attack: GradientMatching, step_size: float | None, rates: dict[str, float]
) -> None:
    assert descent(replace(attack, step_size=step_size)).begin().rates == rates


@pytest.mark.parametrize(
    ("attack", "step", "sharpness"),
    [(NTK, 0, 11.0), (NTK, 20_000, 20.0), (NTK, 40_000, 110.0), (NTK, 80_000, 200.0), (KKT, 0, 150.0), (KKT, 9999, 150.0)],
)
def test_the_smoothed_relu_is_sharpened_as_published(attack: GradientMatching, step: int, sharpness: float) -> None:
    assert descent(attack)._level(step).sharpness == pytest.approx(sharpness)


@pytest.mark.parametrize(("attack", "size", "steps"), [(NTK, 1e200, 1), (KKT, 1e200, 1)])
def test_a_step_that_is_too_large_is_told(attack: GradientMatching, size: float, steps: int) -> None:
    search = descent(replace(attack, step_size=size))
    told = rf"^{attack.name} diverged after {steps} steps\. Give --step-size auto or a smaller one\.$"
    with pytest.raises(ExhumeError, match=told):
        search.advance(search.begin())


@pytest.mark.parametrize("auto", [False, True])
@by_name
def test_a_resume_is_exact(attack: GradientMatching, auto: bool) -> None:
    chosen = replace(attack, max_steps=160, tolerance=0.0, step_size="auto" if auto else None)
    search = descent(chosen)
    now = search.begin()
    while not search.done(now):
        now = search.advance(now)
    resumed: DescentState = through_a_file(descent(chosen).begin())
    assert resumed.gradient is None  # it is computed anew
    while not search.done(resumed):
        resumed = through_a_file(descent(chosen).advance(resumed))
    assert (resumed.step, resumed.loss) == (now.step, now.loss) == (160, now.loss)
    for name, value in now.unknowns.items():
        assert torch.equal(resumed.unknowns[name], value)


def test_reports_come_every_fifty_steps_and_at_the_end() -> None:
    search = descent(replace(PROJECTION_GD, max_steps=120, tolerance=0.0))
    now, steps = search.begin(), []
    while not search.done(now):
        now = search.advance(now)
        steps.append(search.report(now).step)
    assert steps == [50, 100, 120]
    assert search.advance(replace(search.begin(), step=70)).step == 100


def test_a_descent_ends_at_its_tolerance() -> None:
    search = descent(replace(PROJECTION_GD, max_steps=3000, tolerance=0.2))
    now = search.begin()
    while not search.done(now):
        now = search.advance(now)
    assert now.step < 3000
    assert now.loss <= 0.2
    assert now.step % 50 != 0  # at once, not at the next report


@pytest.mark.parametrize(
    ("curve", "tolerance", "left"),
    [
        (Curve((1.0, 1.0, 1.0), (), (), (2.0, 4.0, 6.0)), 1e-7, 6.0),  # half of the steps took six seconds
        (Curve((1.0, 0.1, 0.01), (), (), (2.0, 4.0, 6.0)), 1e-3, 2.0),  # the tolerance comes first
        (Curve((1.0, 0.99, 0.98), (), (), (2.0, 4.0, 6.0)), 1e-7, 6.0),  # the steps come first
    ],
)
def test_the_time_left_is_that_to_the_last_step_or_to_the_tolerance(curve: Curve, tolerance: float, left: float) -> None:
    search = descent(replace(PROJECTION_GD, max_steps=300, tolerance=tolerance))
    state = replace(search.begin(), step=150)
    assert search.time_left(state, curve) == pytest.approx(left)


def test_the_papers_tolerance_is_no_proof() -> None:
    """At rows whose loss is below 1e-7 but above rounding."""
    data = small_sphere(d=12, n=3)
    search = descent(PROJECTION_GD)
    off = search.span.on_sphere(data.rows + 1e-5)
    loss = state_at(search.span, off).loss
    assert 1e-15 < loss < 1e-7
    reached = search.finish(DescentState({"X": off}, {}, {}, step=9, loss=loss))
    assert reached.status is Status.UNCERTIFIED
    assert reached.reason == "the loss reached the paper's tolerance of 1e-07, which is above the rounding floor"
    assert reached.scale == "known norm"
    exact = search.finish(DescentState({"X": data.rows}, {}, {}, step=9, loss=0.0))
    assert exact.status is Status.CERTIFIED
    far = search.span.on_sphere(data.rows.flip(0) + data.rows)
    stuck = search.finish(DescentState({"X": far}, {}, {}, step=9, loss=state_at(search.span, far).loss))
    assert stuck.status is Status.STALLED


@pytest.mark.parametrize("attack", [KKT, NTK], ids=lambda attack: attack.name)
def test_matched_gradients_prove_nothing(attack: GradientMatching) -> None:
    release = network(input_range=(-1.0, 1.0))
    search = descent(attack, release)
    now = replace(search.begin(), step=40)
    answer = search.finish(now)
    assert answer.status is Status.UNCERTIFIED
    assert answer.reason == f"the mismatch is {now.loss:.1e} after 40 steps; this attack proves nothing about its rows"
    assert answer.certificate.equations == sum(value.numel() for value in release.trained.values())
    assert answer.certificate.unknowns == 6 * (MOVED_D + 1)
    assert answer.scale == "from range"
    torch.testing.assert_close(answer.rows.abs().max(dim=1).values, torch.ones(6, dtype=torch.float64))


def test_paper_step_sizes() -> None:
    assert [PROJECTION_GD.constants(d).step_size for d in (100, 3072, 12288)] == [20.0, 2e3, 8e3]


def test_paper_attack_descends_and_keeps_the_sphere() -> None:
    data = small_sphere(d=20, n=5)
    release = trained(data, ratio=10, knowledge=Knowledge(n=True))
    guess = attack_named("projection-gd", max_steps=3000).run(release, seed=0)
    assert guess.curve.loss[-1] < guess.curve.loss[0] / 10
    torch.testing.assert_close(guess.rows.norm(dim=1), torch.full((5,), 20**0.5, dtype=torch.float64))


def test_rivals_say_which_victim_they_take() -> None:
    data = small_sphere(d=10, n=3)
    wide, binary = two_layer(data, 4, k=2).release, two_layer(data, 4).release
    with pytest.raises(ExhumeError, match="kkt-multiclass"):
        attack_named("kkt").run(wide)
    with pytest.raises(ExhumeError, match="Use --attack kkt"):
        attack_named("kkt-multiclass").run(binary)
    with pytest.raises(ExhumeError, match="random features have one"):
        attack_named("ntk").run(RandomFeaturesVictim(p=100).train(data).release)


def test_a_run_with_a_step_that_is_too_large_is_told() -> None:
    release = two_layer(small_sphere(d=10, n=3), 4, knowledge=Knowledge(n=True)).release
    with pytest.raises(ExhumeError, match="--step-size auto"):
        attack_named("ntk", step_size=1e200).run(release)
