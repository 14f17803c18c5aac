"""The replay attack on networks whose recipe is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.attacks import ATTACKS, Resources, attack_named
from exhume.attacks.replay import Replay, ReplayMethod
from exhume.attacks.search.replay_search import ReplayState, Stage
from exhume.attacks.simulated_training import Samples
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.result import Status
from exhume.score import evaluate
from exhume.victims import NetworkVictim, Trained
from support.problems import small_sphere


def trained(n: int = 4, **settings: object) -> Trained:
    """A small network with its recipe."""
    usual: dict[str, object] = {"widths": (40,), "activation": "tanh", "epochs": 30, "knowledge": Knowledge(recipe=True)}
    return NetworkVictim("mlp", 1, **(usual | settings)).train(small_sphere(d=12, n=n))  # type: ignore[arg-type]


def test_a_smooth_network_gives_up_its_rows_from_a_random_start() -> None:
    victim = trained()
    guess = attack_named("replay").run(victim.release)
    score = evaluate(guess, victim.truth, victim.release)
    assert guess.status is Status.CERTIFIED, guess.reason
    assert len(guess.rows) == 4
    assert score.rho < 1e-9
    assert not guess.signs_resolved  # tanh without biases is odd
    assert any("odd" in note for note in guess.notes)


def test_a_bias_tells_the_sign_and_error_bars_hold() -> None:
    victim = trained(n=3, bias=True)
    guess = attack_named("replay").run(victim.release)
    score = evaluate(guess, victim.truth, victim.release)
    assert guess.status is Status.CERTIFIED, guess.reason
    assert guess.signs_resolved
    assert score.worst_row < 1e-9
    assert score.worst_row < 5 * max(guess.certificate.row_errors)


def test_the_rows_of_first_layer_in_the_order_of_batches() -> None:
    victim = trained(activation="relu", optimizer="momentum", batch=2, lr=0.02, epochs=20)
    guess = attack_named("replay").run(victim.release)
    assert guess.status is Status.CERTIFIED, guess.reason
    assert evaluate(guess, victim.truth, victim.release).worst_row < 1e-9


def test_samples_in_one_cell_are_not_certified() -> None:
    """Three samples that no unit separates act by their sums and products: reflected across (1, y) they train the same network."""
    data = small_sphere(d=12, n=5)
    rows = data.rows.clone()
    spread = torch.randn(3, 12, generator=torch.Generator().manual_seed(1), dtype=rows.dtype)
    rows[:3] = rows[0] + 0.01 * spread
    labels = torch.tensor([1.0, 1.0, -1.0, -1.0, 1.0], dtype=torch.float64)
    data = replace(data, rows=rows, labels=labels)
    victim = NetworkVictim("mlp", 1, widths=(30,), epochs=20, bias=True, knowledge=Knowledge(recipe=True)).train(data)
    method = ReplayMethod(victim.release, Replay(), Resources(), seed=0)
    true = Samples(rows.double() @ method.training.basis, labels[:, None], torch.ones(5, dtype=torch.float64))
    axis = torch.nn.functional.normalize(torch.linalg.cross(torch.ones(3).double(), labels[:3]), dim=0)
    mirrored = true.rows.clone()
    mirrored[:3] -= 2 * axis[:, None] * (axis @ true.rows[:3])
    false = Samples(mirrored, true.targets, true.weights)
    assert float((mirrored - true.rows).norm() / true.rows.norm()) > 1e-3
    loss = float(method.training.misses(false).square().sum())
    assert loss < 1e-20  # other rows, same weights
    assert method.finish(ReplayState(false, loss, Stage.EXACT, 0.01)).status is Status.UNCERTIFIED
    apart = float(method.training.misses(true).square().sum())
    assert method.finish(ReplayState(true, apart, Stage.EXACT, 0.01)).status is Status.UNCERTIFIED


def test_a_wrong_recipe_is_never_certified() -> None:
    release = trained(epochs=8).release
    assert release.recipe is not None
    wrong = replace(release.recipe, rates=tuple(rate * 1.1 for rate in release.recipe.rates))
    guess = attack_named("replay", starts=1).run(replace(release, recipe=wrong))
    assert guess.status is Status.STALLED
    assert not guess.certified


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"recipe": None}, "--know-recipe"),
        ({"initial": {}}, "--know-init all"),
        ({"trained": {}}, "--attack gauss-newton"),
    ],
)
def test_what_it_lacks_is_said(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        ATTACKS["replay"].run(replace(trained().release, **changed))  # type: ignore[arg-type]


def test_a_derivative_beyond_memory_is_refused_with_its_size() -> None:
    with pytest.raises(ExhumeError, match="Raise --memory"):
        ATTACKS["replay"].run(trained().release, resources=Resources(memory=1000))


def test_an_unknown_start_is_refused() -> None:
    with pytest.raises(ExhumeError, match="replay starts from"):
        attack_named("replay", start="nowhere").run(trained().release)


def test_an_audit_proposes_it_where_the_recipe_is_known() -> None:
    release = trained().release
    assert ATTACKS["replay"].proposals(release)[0].rank == 40
    assert ATTACKS["replay"].proposals(replace(release, recipe=None))[0].rank is None


def test_float32_training_leaves_an_error_that_the_bars_cover() -> None:
    victim = trained(dtype=torch.float32, bias=True, optimizer="sgd", lr=0.1, epochs=20)
    guess = attack_named("replay").run(victim.release)
    worst = evaluate(guess, victim.truth, victim.release).worst_row
    assert worst < 1e-2
    assert worst < 5 * max(guess.certificate.row_errors)
