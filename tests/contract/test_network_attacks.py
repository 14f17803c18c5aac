"""Trained networks give up their rows: every architecture, loss and attack in small."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from exhume.attacks import GaussNewton, Subspace, attack_named
from exhume.data import DataRequest, load
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.release import Release, load_release, save_release
from exhume.result import Status
from exhume.score import Score, evaluate
from exhume.victims import NetworkVictim, RandomFeaturesVictim, Trained
from support.problems import small_sphere, two_layer


def score(trained: Trained, attack: object) -> Score:
    return evaluate(attack.run(trained.release), trained.truth, trained.release)  # type: ignore[attr-defined]


def test_the_midpoint_lowers_floor_and_error() -> None:
    trained = two_layer(small_sphere(d=40, n=8), 10, k=4)
    ends = {point: GaussNewton(linearise=point).run(trained.release) for point in ("trained", "midpoint")}
    errors = {point: evaluate(guess, trained.truth, trained.release).rho_signed for point, guess in ends.items()}
    assert ends["midpoint"].loss < ends["trained"].loss / 10
    assert errors["midpoint"] < errors["trained"] / 2 < 0.05
    assert ends["midpoint"].status is Status.UNCERTIFIED


def test_the_subspace_works_where_the_full_space_cannot() -> None:
    trained = two_layer(small_sphere(d=60, n=10), 1, k=5)
    inside, full = score(trained, Subspace()), score(trained, GaussNewton())
    assert inside.rho_signed < 0.1
    assert inside.n_found == 10
    assert full.rho > 0.5


@pytest.mark.parametrize(("loss", "k"), [("logistic", 1), ("cross-entropy", 4)])
def test_classification_losses(loss: str, k: int) -> None:
    found = score(two_layer(small_sphere(d=40, n=8), 12, k=k, loss=loss), Subspace())
    assert found.n_found == 8
    assert found.rho < 0.05


def test_logistic_random_features_are_certified() -> None:
    data = small_sphere(d=40, n=8)
    trained = RandomFeaturesVictim(p=6 * 320, loss="logistic").train(data)
    assert trained.train_loss <= 1e-2
    guess = GaussNewton().run(trained.release)
    assert guess.certified
    assert evaluate(guess, data, trained.release).rho_signed < 1e-6


def test_weight_decay_does_not_protect() -> None:
    found = score(two_layer(small_sphere(d=40, n=8), 10, k=4, weight_decay=1e-3, max_steps=1500), Subspace())
    assert found.n_found == 8
    assert found.rho_signed < 0.05


def test_pruning_leaves_the_rest_of_the_features() -> None:
    trained = two_layer(small_sphere(d=40, n=8), 12, k=4, prune=0.5)
    assert int((trained.release.trained["head.weight"] == 0).all(0).sum()) == 480
    assert score(trained, Subspace()).rho_signed < 0.05


@pytest.mark.parametrize("name", ["resnet", "vit"])
def test_deep_networks_give_up_pictures(name: str) -> None:
    data = load(DataRequest("digits", n=2))
    trained = NetworkVictim(name, 12 * 64 * 2, k=1, knowledge=Knowledge(n=True)).train(data)
    found = score(trained, GaussNewton())
    assert found.covered == 2
    assert found.rho_signed < 0.1


def test_pictures_get_their_norms_from_one_hot_targets() -> None:
    data = load(DataRequest("digits", n=6))
    trained = two_layer(data, 12, k=2)
    guess = Subspace().run(trained.release)
    assert guess.scale == "from labels"
    assert evaluate(guess, data, trained.release).rho_signed < 0.05


def test_knowledge_is_a_switch() -> None:
    data = small_sphere(d=40, n=6)
    last = two_layer(data, 12, k=3, knowledge=Knowledge(init="last"))
    assert set(last.release.initial) == {"head.weight"}
    assert score(last, GaussNewton()).rho_signed < 0.05
    with pytest.raises(ExhumeError, match="before training"):
        Subspace().run(last.release)
    none = two_layer(data, 12, k=3, knowledge=Knowledge(init="none"))
    guess = GaussNewton().run(none.release)
    assert any("theta_0" in note for note in guess.notes)
    assert not guess.certified


def test_kkt_rebuilds_pictures_of_its_home_victim() -> None:
    """Haim et al.: a binary network that starts near zero and is trained far beyond the first fit."""
    data = load(DataRequest("digits", n=4))
    trained = NetworkVictim("two-layer", 500, loss="logistic", init_scale=1e-4, train_to=1e-4, knowledge=Knowledge(n=True)).train(
        data
    )
    assert trained.train_loss <= 1e-4
    found = score(trained, attack_named("kkt", step_size="auto", max_steps=1500))
    assert found.n_found == 8  # two candidates for each sample
    assert found.ssim > found.chance_ssim + 0.3  # type: ignore[operator]


def test_ntk_rebuilds_pictures_of_its_home_victim() -> None:
    """Loo et al.: a wide network whose change is small against its start."""
    data = load(DataRequest("digits", n=4))
    trained = NetworkVictim("two-layer", 500, knowledge=Knowledge(n=True)).train(data)
    found = score(trained, attack_named("ntk", step_size="auto", max_steps=1500))
    assert found.ssim > found.chance_ssim + 0.4  # type: ignore[operator]
    assert found.rho_signed < 0.6 < found.chance_signed


def test_pictures_of_unknown_norm_are_stretched_to_their_range() -> None:
    data = load(DataRequest("digits", n=4))
    trained = two_layer(data, 12, loss="cross-entropy", k=2)
    guess = Subspace().run(trained.release)
    assert guess.scale == "from range"
    found = evaluate(guess, data, trained.release)
    assert found.rho_direction < 0.05
    assert found.rho_signed < 0.1


@pytest.mark.parametrize("name", ["two-layer", "resnet"])
def test_the_papers_attack_descends_on_networks(name: str) -> None:
    data = load(DataRequest("digits", n=2))
    release = NetworkVictim(name, 8 * 64 * 2, knowledge=Knowledge(n=True)).train(data).release
    guess = attack_named("projection-gd", max_steps=100, step_size=2.0).run(release)
    assert guess.curve.loss[-1] < guess.curve.loss[0]
    assert torch.allclose(guess.rows.norm(dim=1), torch.full((2,), 8.0, dtype=torch.float64))


def test_a_network_release_survives_a_file(tmp_path: Path) -> None:
    release = two_layer(small_sphere(d=10, n=3), 4, k=2).release
    save_release(release, tmp_path / "r.safetensors")
    back = load_release(tmp_path / "r.safetensors")
    assert (back.model, back.facts) == (release.model, release.facts)
    for side in ("trained", "initial"):
        ours, theirs = getattr(release, side), getattr(back, side)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_misuse_is_refused() -> None:
    data = small_sphere(d=10, n=4)
    release: Release = two_layer(data, 4).release
    with pytest.raises(ExhumeError, match="linearisation point"):
        GaussNewton(linearise="end").run(release)
    with pytest.raises(ExhumeError, match="random features have none"):
        Subspace().run(RandomFeaturesVictim(p=200).train(data).release)
