"""The method on features that stayed: which of them carry the search, which search it is, and what is said in the end."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch

from exhume.attacks.fixed_features import FixedFeatures, FixedFeaturesSettings, FixedFeaturesState
from exhume.attacks.gauss_newton import GaussNewton
from exhume.attacks.interface import Resources
from exhume.attacks.run import Answer
from exhume.attacks.search.candidates import Stage
from exhume.attacks.search.growth import GrowthSettings
from exhume.data import Dataset
from exhume.errors import ExhumeError
from exhume.knowledge import Facts, Knowledge
from exhume.linalg import blocks
from exhume.release import Release
from exhume.result import Curve, Status
from support.planted import coefficients, drawn, features_of, phi, sphere_rows, through_a_file, worst_distance
from support.problems import small_sphere, trained

D, N = 20, 4
SETTINGS = FixedFeaturesSettings()
ALL_MEMORY = 1 << 30


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 256 features, so that a search can be carried by some of them."""
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 256 * D * 8)


def method(
    release: Release, *, rows: int | None = None, memory: int = ALL_MEMORY, settings: FixedFeaturesSettings = SETTINGS
) -> FixedFeatures:
    growth = GrowthSettings(starts=1, rounds_at_limit=2)
    return FixedFeatures(release, Resources(memory=memory), seed=0, rows=rows, growth=growth, settings=settings)


def states_of(search: FixedFeatures, most: int = 600) -> list[FixedFeaturesState]:
    states = [search.begin()]
    while not search.done(states[-1]):
        assert len(states) < most, "the search did not end"
        states.append(search.advance(states[-1]))
    return states


def answer_of(search: FixedFeatures) -> Answer:
    return search.finish(states_of(search)[-1])


def sphere(n: int = N, d: int = D) -> Dataset:
    return small_sphere(d=d, n=n)


# Which features carry the search.


def bytes_for(rows: int, features: int) -> int:
    """A budget whose half holds the states of so many rows on so many features: four copies of (rows + 2) numbers each."""
    return 2 * 4 * (rows + 2) * 8 * features


def test_a_budget_too_small_for_half_the_features_is_refused() -> None:
    search = method(trained(sphere(), ratio=25), memory=bytes_for(N, 300))
    with pytest.raises(ExhumeError, match="Raise --memory"):
        search.begin()


def test_many_dimensions_take_six_features_each_at_least() -> None:
    settings = replace(SETTINGS, cheap_entries=0, high_dimension=D, subsample=0.1)
    search = method(trained(sphere(n=10), ratio=25), settings=settings)  # p = 5000
    assert search._budget.features_for(1) == 256  # 6 d = 120, in whole blocks
    wide = method(trained(small_sphere(d=100, n=10), ratio=5), settings=settings)
    assert wide._budget.features_for(1) == 768


def test_features_come_in_as_rows_do() -> None:
    """Three for each of the d coordinates of every row, one step after the rows."""
    data = sphere(n=10)
    search = method(trained(data, ratio=10), settings=replace(SETTINGS, cheap_entries=0))
    states = states_of(search)
    for before, after in itertools.pairwise(states):
        assert after.features >= 3 * D * len(before.candidates.at.X)
    counts = [now.features for now in states]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] < search.p
    answer = search.finish(states[-1])
    assert answer.status is Status.CERTIFIED
    assert answer.certificate.equations > counts[-1]  # the rest have verified
    assert worst_distance(answer.rows, data.rows) < 1e-9


@pytest.mark.parametrize("kind", ["growth", "pursuit"])
def test_losses_on_other_features_do_not_compare(kind: str) -> None:
    release = trained(sphere(n=10), ratio=10)
    if kind == "pursuit":
        release = trained(sphere(n=6), ratio=12, activation="cosine", knowledge=Knowledge(statistics=False))
    search = method(release, settings=replace(SETTINGS, cheap_entries=0))
    states = states_of(search)
    grown = [i for i in range(1, len(states)) if states[i].features > states[i - 1].features]
    assert grown
    for i in grown:
        assert len(states[i].candidates.losses) <= 1


# Which search it is.


@pytest.mark.parametrize(
    ("activation", "known", "kind"),
    [
        ("relu", True, "growth"),
        ("relu", False, "growth"),  # directions only: any radius will do
        ("tanh", True, "growth"),
        ("relu+tanh", True, "growth"),
        ("relu+tanh", False, "pursuit"),  # norms count and are not known
        ("cosine", False, "pursuit"),
    ],
)
def test_unknown_norms_that_count_are_pursued(activation: str, known: bool, kind: str) -> None:
    release = trained(sphere(), ratio=10, activation=activation, knowledge=Knowledge(statistics=known))
    search = method(release)
    state = search.begin()
    assert (state.growth is not None, state.pursuit is not None) == (kind == "growth", kind == "pursuit")
    assert state.streaming is None
    assert search.radius == (None if kind == "pursuit" else math.sqrt(D))


@pytest.mark.parametrize(
    ("activation", "k", "ratio", "streams"),
    [("relu", 1, 10, True), ("tanh", 1, 10, False), ("relu", 2, 10, False), ("relu", 1, 1, False)],
)
def test_inputs_of_many_dimensions_are_streamed(activation: str, k: int, ratio: float, streams: bool) -> None:
    """One output, samples that show in the second moment, and six features per dimension at least."""
    release = trained(sphere(), ratio=ratio, activation=activation)
    if k > 1:
        release = replace(release, weights=torch.cat([release.weights, release.weights.roll(1, 1)]))
    state = method(release, settings=replace(SETTINGS, high_dimension=D)).begin()
    assert (state.streaming is not None) == streams


@pytest.mark.parametrize(("p", "pays"), [(2 * (D + 1), False), (2 * (D + 1) + 1, True)])
def test_nuisance_columns_are_used_where_weights_are_more_than_twice_as_many(p: int, pays: bool) -> None:
    release = Release(drawn(1, p), features_of(D, p).spec, Facts(input_norm=math.sqrt(D)))
    assert method(release)._problem_on().nuisance is pays


def test_claimed_rows_begin_at_once_and_others_with_those_that_stand_out() -> None:
    release = trained(sphere(), ratio=10)
    claimed = method(release, rows=7, settings=replace(SETTINGS, cheap_entries=0))
    assert len(claimed.begin().candidates.at.X) == 7
    assert claimed.begin().features == claimed._budget.features_for(7) > claimed._budget.features_for(2)
    assert claimed._limit(claimed._problem_on()) == 7
    found = method(release)
    visible = found._visible()
    assert visible >= 1
    assert len(found.begin().candidates.at.X) == max(2, math.ceil(1.25 * visible))


# Streaming and its hand-over.


def streamed(handed_over: float = 1e-6) -> FixedFeatures:
    settings = replace(SETTINGS, high_dimension=D, handed_over=handed_over)
    return method(trained(sphere(), ratio=25), settings=settings)


def test_streaming_hands_its_rows_to_the_full_problem() -> None:
    search = streamed()
    states = states_of(search)
    turn = next(i for i, now in enumerate(states) if now.streaming is None)
    before, after = states[turn - 1].streaming, states[turn].growth
    assert before is not None
    assert after is not None
    assert len(before.rows.X) == len(after.at.X) == N
    torch.testing.assert_close(after.at.X, before.rows.X, rtol=0, atol=1e-4)  # little is left to do
    assert after.step >= before.step
    assert after.doubted  # streaming has tried to do without the weakest row
    steps = [search.report(now).step for now in states]
    assert steps == sorted(steps)  # a person sees one count
    assert {search.report(now).stage for now in states} >= {"stream", "done"}
    answer = search.finish(states[-1])
    assert answer.status is Status.CERTIFIED
    assert worst_distance(answer.rows, sphere().rows) < 1e-9


def test_where_streaming_has_failed_rows_are_grown_from_below() -> None:
    search = streamed(handed_over=0.0)  # no loss is good enough
    states = states_of(search)
    turn = next(i for i, now in enumerate(states) if now.streaming is None)
    first = states[turn].growth
    assert first is not None
    assert first.step <= 1
    assert first.loss > 1e-6  # rows anew, from the second moment
    assert search.finish(states[-1]).status is Status.CERTIFIED


@pytest.mark.parametrize("kind", ["streaming", "growth", "pursuit"])
def test_a_search_goes_on_from_files_with_a_new_method(kind: str) -> None:
    known = Knowledge(statistics=kind != "pursuit")
    data = small_sphere(d=10, n=2) if kind == "pursuit" else sphere()
    release = trained(data, ratio=25, activation="cosine" if kind == "pursuit" else "relu", knowledge=known)
    settings = replace(SETTINGS, high_dimension=D if kind == "streaming" else 750, cheap_entries=0)

    def fresh() -> FixedFeatures:
        return method(release, settings=settings)

    whole_search = fresh()
    whole = states_of(whole_search)
    assert getattr(whole[0], kind) is not None
    search, now, steps = fresh(), whole[0], 0
    while not search.done(now):
        if steps % 7 == 3:
            search, now = fresh(), through_a_file(now)
        now, steps = search.advance(now), steps + 1
    assert steps == len(whole) - 1 > 7
    torch.testing.assert_close(fresh().finish(now).rows, whole_search.finish(whole[-1]).rows, rtol=0, atol=1e-12)


# The end.


def test_the_end_says_on_how_many_features_it_was_verified() -> None:
    data = sphere()
    release = trained(data, ratio=25)
    settings = replace(SETTINGS, cheap_entries=0)
    assert answer_of(method(release, settings=settings)).notes == ()  # all of them
    search = method(release, memory=bytes_for(N, 1300), settings=settings)
    answer = answer_of(search)
    assert answer.notes == ("verified on 1280 of 2000 features: --memory allows no more",)  # in whole blocks
    assert answer.status is Status.CERTIFIED
    assert answer.certificate.equations <= 1280
    assert worst_distance(answer.rows, data.rows) < 1e-9


@pytest.mark.parametrize(
    ("activation", "notes", "signed"),
    [
        ("relu", (), True),
        ("relu+tanh", (), True),
        ("abs", ("abs hides the sign: each row is known up to its sign",), False),
        ("tanh", ("tanh hides the sign: each row is known up to its sign",), False),
    ],
)
def test_the_end_says_which_signs_are_known(activation: str, notes: tuple[str, ...], signed: bool) -> None:
    data = sphere()
    answer = answer_of(method(trained(data, ratio=12, activation=activation)))
    assert answer.status is Status.CERTIFIED
    assert (answer.notes, answer.signs_resolved) == (notes, signed)
    assert worst_distance(answer.rows, data.rows, up_to_sign=not signed) < 1e-9
    assert answer.scale == "known norm"


def test_the_cliff_is_part_of_the_answer() -> None:
    answer = answer_of(method(trained(sphere(), ratio=12)))
    costs = sorted(answer.removal_costs, reverse=True)
    assert len(costs) == N + 3  # and three spare rows
    assert costs[N - 1] > 1e-6 > 1e-18 > costs[N]
    assert answer.certificate.weakest_row == pytest.approx(costs[N - 1])


def test_a_search_that_failed_says_why_and_gives_its_rows() -> None:
    search = method(trained(sphere(n=8), ratio=10), rows=3)  # three cannot stand for eight
    states = states_of(search)
    assert states[-1].candidates.stage is Stage.FAILED
    answer = search.finish(states[-1])
    assert answer.status is Status.STALLED
    assert "a local minimum; try another --seed or more --starts" in answer.reason
    assert answer.rows.shape == (3, D)
    assert not answer.signs_resolved
    assert answer.notes == ()


def test_signs_that_stay_open_leave_rows_as_they_were_found() -> None:
    """Weights with a linear part that no signs explain: a polish would bend the rows towards it."""
    X, p = sphere_rows(N, D), 800
    features = features_of(D, p)
    V = torch.cat([block.V for block in features.blocks()])
    weights = phi(features, X) @ coefficients(N) + V @ drawn(D, 1, seed=4)
    release = Release(weights.T.contiguous(), features.spec, Facts(input_norm=math.sqrt(D)))
    answer = answer_of(method(release))
    assert not answer.signs_resolved
    assert any(note.startswith("signs not resolved") for note in answer.notes)
    assert worst_distance(answer.rows, X, up_to_sign=True) < 1e-6
    assert answer.status is Status.STALLED  # with signs unknown the linear part is not explained


def test_the_pursuit_of_noisy_weights_says_how_far_rows_stand_out() -> None:
    X, p = sphere_rows(2, 10) * torch.tensor([[0.7], [1.4]], dtype=torch.float64), 800
    features = features_of(10, p, "cosine")
    weights = (phi(features, X) @ coefficients(2)).T
    noisy = weights + 0.01 * weights.norm() / math.sqrt(p) * drawn(1, p, seed=3)
    answer = answer_of(method(Release(noisy.contiguous(), features.spec, Facts())))
    assert answer.status is Status.UNCERTIFIED
    assert answer.reason.startswith("drift or rounding leaves a loss of")
    assert worst_distance(answer.rows, X) < 0.05
    assert answer.scale == "fitted"


def test_removed_features_take_no_part() -> None:
    data = sphere()
    release = trained(data, ratio=25)
    weights = release.weights.clone()
    weights[:, ::3] = 0.0
    pruned = replace(release, weights=weights, facts=replace(release.facts, pruned=True))
    search = method(pruned)
    assert search.p == int((weights != 0).sum())
    answer = answer_of(search)
    assert answer.status is Status.CERTIFIED
    assert worst_distance(answer.rows, data.rows) < 1e-9


def test_the_time_left_is_that_to_rounding() -> None:
    search = method(trained(sphere(), ratio=12))
    curve = Curve((1.0, 1e-2, 1e-4), (1, 1, 1), (1, 1, 1), (0.0, 1.0, 2.0))
    assert search.time_left(search.begin(), curve) == pytest.approx(7.0)  # 1e-18 at two orders of magnitude a second


def test_a_budget_that_cannot_work_is_refused() -> None:
    data = small_sphere(d=20, n=5)
    with pytest.raises(ExhumeError, match="Raise --memory"):
        GaussNewton().run(trained(data, ratio=6), resources=Resources(memory=1000))
