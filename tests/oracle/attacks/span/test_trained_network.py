"""What training did to a network, and the span problem that follows: planted changes, dense algebra, trained victims."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from exhume.architectures import NetworkSpec, describe_network, initial_parameters
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.module import ModuleSpan
from exhume.attacks.span.trained_network import Learned, input_space, learned, network_problem, row_space
from exhume.knowledge import Facts
from exhume.release import Release
from exhume.victims import NetworkVictim
from support.networks import MOVED_D, MOVED_WIDTH, moved_network
from support.planted import drawn, sphere_rows
from support.problems import small_sphere, state_at

CPU = torch.device("cpu")
D, WIDTH = MOVED_D, MOVED_WIDTH


def test_row_space_ends_at_the_gap_and_weight_decay_is_taken_out() -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(50, 30, generator=generator, dtype=torch.float64)
    low = torch.randn(50, 4, generator=generator, dtype=torch.float64) @ torch.randn(
        4, 30, generator=generator, dtype=torch.float64
    )
    Q = row_space(low + 1e-9 * start)
    assert Q.shape == (30, 4)
    assert torch.allclose(low @ Q @ Q.T, low, atol=1e-6)
    plain = Learned({"w": 0.9 * start + low}, {"w": start}, kept=0.9)
    assert torch.allclose(plain.change("w"), low)
    assert torch.allclose(plain.at("midpoint")["w"], 0.9 * start + low / 2)


def test_the_learned_subspace_is_found_under_rounding_and_not_invented() -> None:
    draw = torch.Generator().manual_seed(0)
    change = torch.randn(300, 6, generator=draw, dtype=torch.float64) @ torch.randn(6, 40, generator=draw, dtype=torch.float64)
    noise = torch.randn(300, 40, generator=draw, dtype=torch.float64)
    for size in (0.0, 1e-3, 0.1):
        assert row_space(change + size * noise).shape[1] == 6
    decaying = noise * torch.logspace(0, -2, 40, dtype=torch.float64)
    assert row_space(decaying).shape[1] == 40


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rank", [1, 5, 20])
def test_a_row_space_is_an_orthonormal_basis_of_the_rows(rank: int, dtype: torch.dtype) -> None:
    change = (drawn(60, rank) @ drawn(rank, 20, seed=1)).to(dtype)
    Q = row_space(change)
    assert (Q.shape, Q.dtype) == ((20, rank), dtype)
    torch.testing.assert_close(Q.T @ Q, torch.eye(rank, dtype=dtype))
    torch.testing.assert_close(change @ Q @ Q.T, change, rtol=1e-4, atol=1e-4)


def test_one_column_is_a_space() -> None:
    torch.testing.assert_close(row_space(drawn(5, 1)).abs(), torch.ones(1, 1, dtype=torch.float64))


@pytest.mark.parametrize(
    ("spectrum", "rank"),
    [
        ([10.0] * 3 + [1.1] * 3 + [1.0] * 14, 3),  # a flat bulk, as rounding leaves it
        ([10.0] * 3 + [1.1] * 3 + [1.0] * 14 + [0.0] * 5, 20),  # a gap to nothing counts before any bulk
        ([10.0] * 3 + [1.9, 1.7, 1.4] + [1.0] * 14, 20),  # the bulk has no end: what stands out of it cannot be told
        ([2.1] + [1.45] * 3 + [1.0] * 16, 20),  # what stands out does not stand apart
        ([0.9**i for i in range(20)], 20),  # neither a gap nor a bulk
        ([1.0] * 20, 20),
    ],
)
def test_a_rank_is_told_by_a_gap_or_by_a_flat_bulk(spectrum: list[float], rank: int) -> None:
    values = torch.tensor(spectrum, dtype=torch.float64)
    left, right = (torch.linalg.qr(drawn(len(values), len(values), seed=seed))[0] for seed in (0, 1))
    assert row_space(left @ torch.diag(values) @ right.T).shape[1] == rank


@pytest.mark.parametrize(("point", "share"), [("initial", 0.0), ("midpoint", 0.5), ("trained", 1.0)])
@pytest.mark.parametrize("kept", [1.0, 0.8])
def test_a_point_lies_on_the_way_of_what_was_learned(point: str, share: float, kept: float) -> None:
    start, change = drawn(4, 3), drawn(4, 3, seed=1)
    course = Learned({"w": kept * start + change, "b": change}, {"w": start}, kept=kept)
    found = course.at(point)
    torch.testing.assert_close(found["w"], kept * start + share * change)
    assert torch.equal(found["b"], change)  # where it began is not known: it is taken as it ended
    torch.testing.assert_close(course.change("w"), change)
    assert torch.equal(course.change("b"), change)


def test_learned_needs_decay_to_differ_from_the_plain_change() -> None:
    data = small_sphere(d=20, n=4)
    decayed = NetworkVictim("two-layer", 800, k=2, weight_decay=1e-2, max_steps=300).train(data).release
    course = learned(decayed)
    assert 0 < course.kept < 1
    spectrum = torch.linalg.svdvals(course.change("first.weight"))
    assert spectrum[4] < 1e-6 * spectrum[0]  # four samples, four dimensions, once the decay is taken out
    assert torch.linalg.svdvals(decayed.trained["first.weight"] - decayed.initial["first.weight"])[4] > 1e-3 * spectrum[0]


@pytest.mark.parametrize(
    ("decay", "ridge", "known", "kept"),
    [
        (0.7, 0.1, "all", 0.7),
        (0.7, None, "all", 0.7),  # nobody has to tell of it
        (0.999, None, "all", 0.999),  # a bulk as flat as that of rounded weights, but one that points along the start
        (0.7, 0.0, "all", 1.0),  # somebody knows that there was none
        (1.0, None, "all", 1.0),
        (0.7, 0.1, "last", 1.0),  # without the first layer there is nothing to compare
    ],
)
def test_decay_is_the_regression_outside_what_was_learned(decay: float, ridge: float | None, known: str, kept: float) -> None:
    release = moved_network(decay=decay, known=known, facts=Facts(ridge=ridge))
    assert learned(release).kept == pytest.approx(kept, abs=1e-4)


def test_a_little_decay_that_nobody_knows_of_is_taken_out() -> None:
    """Before it is, three of ten dimensions drown in it."""
    data = small_sphere(d=16, n=10)
    release = NetworkVictim("two-layer", 1600, k=2, weight_decay=1e-3, max_steps=400).train(data).release
    unknown = replace(release, facts=replace(release.facts, ridge=None))
    first = release.first_layer()
    assert first is not None
    assert row_space(first[1] - first[0]).shape[1] < 10
    Q = row_space(learned(unknown).change("first.weight"))
    assert Q.shape[1] == 10
    torch.testing.assert_close(data.rows @ Q @ Q.T, data.rows, rtol=0, atol=1e-3)


def test_where_nothing_decayed_the_change_stays_what_it_is() -> None:
    assert learned(moved_network(facts=Facts(ridge=None))).kept == pytest.approx(1.0, abs=1e-12)


def test_a_convolution_allows_only_inputs_with_known_patches() -> None:
    """One picture under a 12x12 kernel: its 49 patches do not fill a patch's 144 dimensions, and it is among what is left."""
    spec = NetworkSpec("resnet", (1, 16, 16), 1, 5, 5 * 49)
    generator = torch.Generator().manual_seed(1)
    pictures = torch.randn(1, 1, 16, 16, generator=generator, dtype=torch.float64)
    patches = torch.nn.functional.unfold(pictures, 12, padding=1)[0].T  # (49, 144)
    mixing = torch.randn(60, len(patches), generator=generator, dtype=torch.float64)
    basis = input_space((mixing @ patches).reshape(60, 1, 12, 12), spec)
    assert basis.shape[1] < 256
    x = pictures.flatten()
    assert torch.allclose(basis @ (basis.T @ x), x, atol=1e-6)


def test_a_matrix_allows_its_row_space() -> None:
    change = drawn(40, 3) @ drawn(3, D, seed=1)
    spec = describe_network("two-layer", (D,), outputs=1, last_layer=40)
    assert torch.equal(input_space(change, spec), row_space(change))


@pytest.mark.parametrize("point", ["initial", "midpoint", "trained"])
@pytest.mark.parametrize("decay", [1.0, 0.8])
def test_the_problem_is_the_change_against_features_at_the_point(point: str, decay: float) -> None:
    release = moved_network(decay=decay, facts=Facts(ridge=1 - decay))
    course = learned(release)
    problem = network_problem(release, course, point=point, device=CPU, nuisance=False)
    X = sphere_rows(3, D, seed=5)
    share = {"initial": 0.0, "midpoint": 0.5, "trained": 1.0}[point]
    first = decay * release.initial["first.weight"]
    Phi = torch.relu(X @ (first + share * (release.trained["first.weight"] - first)).T).T
    theta = (release.trained["head.weight"] - decay * release.initial["head.weight"]).T
    rest = theta - Phi @ torch.linalg.lstsq(Phi, theta, driver="gelsd").solution
    state = state_at(problem, X)
    torch.testing.assert_close(problem.theta, theta, rtol=0, atol=1e-4)  # the decay is an estimate
    torch.testing.assert_close(state.Phi, Phi, rtol=0, atol=1e-3)
    assert state.loss == pytest.approx(float(rest.square().sum() / theta.square().sum()), rel=1e-3)


def test_a_last_layer_of_unknown_start_is_taken_as_it_is() -> None:
    release = moved_network(known="none")
    problem = network_problem(release, learned(release), point="trained", device=CPU)
    torch.testing.assert_close(problem.theta, release.trained["head.weight"].T)


def test_removed_features_take_no_part_in_the_problem() -> None:
    release = moved_network(facts=Facts(pruned=True))
    head = release.trained["head.weight"].clone()
    head[:, ::3] = 0
    pruned = replace(release, trained={**release.trained, "head.weight": head}, weights=head - release.initial["head.weight"])
    problem = network_problem(pruned, learned(pruned), point="trained", device=CPU)
    kept = torch.arange(WIDTH) % 3 != 0
    assert problem.p == int(kept.sum())
    torch.testing.assert_close(problem.theta, (head - release.initial["head.weight"])[:, kept].T)


def test_a_subspace_has_rows_of_its_own_coordinates() -> None:
    release = moved_network()
    Q = row_space(release.trained["first.weight"] - release.initial["first.weight"])
    course = learned(release)
    whole, inside = (network_problem(release, course, point="midpoint", device=CPU, basis=basis) for basis in (None, Q))
    assert (whole.d, inside.d) == (D, 3)
    Z = drawn(2, 3, seed=4)
    torch.testing.assert_close(state_at(inside, Z).Phi, state_at(whole, Z @ Q.T).Phi)
    assert inside.radius == whole.radius == math.sqrt(D)  # x = Q z has the norm of z


@pytest.mark.parametrize(("width", "pays"), [(3 * (D + 1), True), (3 * (D + 1) - 1, False)])
def test_nuisance_columns_are_used_where_features_are_three_times_as_many(width: int, pays: bool) -> None:
    release = moved_network()
    less = {name: (v[:width] if name == "first.weight" else v[:, :width]) for name, v in release.trained.items()}
    start = {name: (v[:width] if name == "first.weight" else v[:, :width]) for name, v in release.initial.items()}
    small = Release(release.weights[:, :width], replace(release.network, width=width, count=width), Facts(), less, start)
    problem = network_problem(small, learned(small), point="trained", device=CPU)
    assert isinstance(problem, BlockwiseSpan)
    assert problem.nuisance is pays
    assert not network_problem(small, learned(small), point="trained", device=CPU, nuisance=False).nuisance


def test_rows_have_the_known_norm_or_that_of_standardised_inputs() -> None:
    for facts, radius in ((Facts(), math.sqrt(D)), (Facts(input_norm=2.0), 2.0)):
        release = moved_network(facts=facts)
        assert network_problem(release, learned(release), point="trained", device=CPU).radius == radius


@pytest.mark.parametrize("name", ["resnet", "vit"])
def test_deeper_networks_go_through_their_derivatives(name: str) -> None:
    spec = describe_network(name, (1, 8, 8), outputs=1, last_layer=200)
    start, end = (initial_parameters(spec, seed=seed, dtype=torch.float64) for seed in (0, 1))
    release = Release(end["head.weight"] - start["head.weight"], spec, Facts(), end, start)
    problem = network_problem(release, learned(release), point="midpoint", device=CPU)
    assert isinstance(problem, ModuleSpan)
    middle = {key: (start[key] + end[key]) / 2 for key in start}
    X = drawn(2, 64)
    torch.testing.assert_close(state_at(problem, X).Phi, spec.features_at(middle, dtype=torch.float64).value(X).T)
