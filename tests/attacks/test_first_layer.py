"""The first-layer attack on networks that were trained."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.attacks import ATTACKS, Attack, attack_named
from exhume.data import DataRequest, Dataset, load
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.release import load_release, save_release
from exhume.result import Reconstruction, Status
from exhume.score import evaluate
from exhume.victims import NetworkVictim, Trained
from support.problems import small_sphere, trained, two_layer

FIRST_LAYER: Attack = ATTACKS["first-layer"]


def ordinary(data: Dataset, **settings: object) -> Trained:
    """A small network trained as people train them."""
    usual = {
        "k": 10,
        "loss": "cross-entropy",
        "bias": True,
        "widths": (200, 32),
        "optimizer": "momentum",
        "batch": 5,
        "lr": 0.02,
        "epochs": 60,
    }
    return NetworkVictim("mlp", 1, dtype=torch.float32, **(usual | settings)).train(data)  # type: ignore[arg-type]


def attacked(victim: Trained, **settings: object) -> tuple[Reconstruction, float]:
    """The answer and the worst row's error."""
    guess = attack_named("first-layer", **settings).run(victim.release)
    return guess, evaluate(guess, victim.truth, victim.release).worst_row


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load(DataRequest("digits", n=10))


@pytest.mark.parametrize("k", [1, 3])
def test_two_layer_networks_trained_to_interpolation(k: int) -> None:
    victim = NetworkVictim("two-layer", 60 * k, k=k).train(small_sphere(d=30, n=6))
    guess, worst = attacked(victim)
    assert guess.status is Status.CERTIFIED, guess.reason
    assert len(guess.rows) == 6
    assert worst < 1e-9


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"optimizer": "sgd", "lr": 0.1},
        {"weight_decay": 1e-3},
        {"widths": (150,)},
        {"widths": (150, 40, 20)},
        {"optimizer": "gd", "batch": None, "lr": None, "epochs": None},
        {"optimizer": "lbfgs", "batch": None, "lr": None, "epochs": 3},
        {"optimizer": "adam", "lr": 0.001, "epochs": 5, "knowledge": Knowledge(optimizer=True)},
    ],
    ids=["momentum", "sgd", "decay", "shallow", "deep", "gd", "lbfgs", "adam-state"],
)
def test_ordinary_networks_give_up_digits_at_their_norms(digits: Dataset, settings: dict[str, object]) -> None:
    guess, worst = attacked(ordinary(digits, **settings))
    assert guess.certified, guess.reason
    assert len(guess.rows) == 10
    assert guess.scale == "from bias"
    assert worst < 1e-2
    assert worst < 10 * max(guess.certificate.row_errors)


def test_adam_without_its_state_is_not_rebuilt_and_says_why(digits: Dataset) -> None:
    guess, _ = attacked(ordinary(digits, optimizer="adam", lr=0.003, epochs=5), patience=4)
    assert not guess.certified
    assert "Adam" in guess.reason or "columns were found" in guess.reason


@pytest.mark.parametrize("bias", [True, False])
def test_a_single_sample_is_the_whole_change(bias: bool) -> None:
    victim = NetworkVictim("mlp", 1, widths=(30,), bias=bias).train(small_sphere(d=10, n=1))
    guess, worst = attacked(victim)
    assert guess.certified, guess.reason
    assert worst < 1e-8


def test_as_many_samples_as_inputs_have_no_gap() -> None:
    guess, _ = attacked(two_layer(small_sphere(d=5, n=8), 20.0))
    assert guess.status is Status.STALLED
    assert len(guess.rows) == 0
    assert "as many samples as inputs" in guess.reason


def test_fewer_units_than_samples_are_told() -> None:
    victim = NetworkVictim("two-layer", 8, max_steps=200).train(small_sphere(d=30, n=10))
    guess, _ = attacked(victim, patience=3)
    assert guess.status is Status.STALLED
    assert not guess.certified


def test_releases_it_cannot_take_are_refused(digits: Dataset) -> None:
    for release, words in (
        (trained(small_sphere()), "random features have none"),
        (NetworkVictim("mlp", 1, widths=(20,), activation="tanh", max_steps=3).train(small_sphere()).release, "ReLU behind it"),
        (
            NetworkVictim("two-layer", 40, max_steps=3, knowledge=Knowledge(init="last")).train(small_sphere()).release,
            "--know-init all",
        ),
        (NetworkVictim("resnet", 98, max_steps=1, k=2).train(load(DataRequest("digits", n=4))).release, "dense first layer"),
    ):
        with pytest.raises(ExhumeError, match=words):
            FIRST_LAYER.run(release)
        assert FIRST_LAYER.proposals(release)[0].rank is None


def test_audits_run_it_first_where_the_change_has_a_rank() -> None:
    release = two_layer(small_sphere(), 4.0).release
    (proposal,) = FIRST_LAYER.proposals(release)
    assert proposal.rank == 5
    assert "rank 5" in proposal.why
    (full,) = FIRST_LAYER.proposals(two_layer(small_sphere(d=5, n=8), 20.0).release)
    assert full.rank is None
    still = replace(release, trained={**release.trained, "first.weight": release.initial["first.weight"]})
    assert FIRST_LAYER.proposals(still)[0].rank is None


def test_a_wrong_claim_of_n_is_never_certified() -> None:
    victim = two_layer(small_sphere(), 4.0)
    for claimed in (4, 6):
        guess, _ = attacked(victim, rows=claimed, patience=4)
        assert not guess.certified
    with pytest.raises(ExhumeError, match="rows must be at least 1"):
        attacked(victim, rows=1000)


def test_the_optimizers_state_is_kept_in_a_release_file(digits: Dataset, tmp_path) -> None:  # type: ignore[no-untyped-def]
    release = ordinary(digits, optimizer="adam", epochs=1, knowledge=Knowledge(optimizer=True)).release
    save_release(release, tmp_path / "r.safetensors")
    read = load_release(tmp_path / "r.safetensors")
    assert torch.equal(read.optimizer["exp_avg/first.weight"], release.optimizer["exp_avg/first.weight"])
    assert read.model == release.model
