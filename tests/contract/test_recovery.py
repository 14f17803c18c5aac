"""The mission in small: rows, number, signs and scale out of the weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.attacks import GaussNewton, Resources
from exhume.data import DataRequest, Dataset, load
from exhume.features import ACTIVATIONS, activation
from exhume.knowledge import Knowledge
from exhume.lab import Trial, run_trial
from exhume.release import Release
from exhume.result import Status
from exhume.score import Score, evaluate
from support.problems import small_sphere, trained


def attacked(dataset: Dataset, release: Release, seed: int = 0, **settings: object) -> tuple[Score, object]:
    guess = GaussNewton(**settings).run(release, seed=seed)  # type: ignore[arg-type]
    return evaluate(guess, dataset, release), guess


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_gives_up_its_rows(name: str) -> None:
    data = small_sphere(d=40, n=6)
    score, guess = attacked(data, trained(data, ratio=10, activation=name))
    signed = activation(name).parity in ("linear-odd", "mixed")
    assert guess.status is Status.CERTIFIED
    assert score.n_found == 6
    assert (score.rho_signed if signed else score.rho) < 1e-6
    assert guess.signs_resolved == signed
    assert score.chance > 0.5


@pytest.mark.parametrize("ratio", [4.0, 2.0])
def test_paper_scale_sphere(ratio: float) -> None:
    data = small_sphere(d=100, n=20)
    score, guess = attacked(data, trained(data, ratio=ratio))
    assert guess.certified
    assert score.n_found == 20
    assert score.rho_signed < 1e-6


def test_float32_is_certified_at_its_own_floor() -> None:
    data = small_sphere(d=100, n=10)
    score, guess = attacked(data, trained(data, ratio=5, dtype=torch.float32))
    assert guess.certified
    assert score.rho_signed < 1e-3


@pytest.mark.parametrize("ridge", [1e-3, 1e-1, 10.0])
def test_ridge_does_not_protect(ridge: float) -> None:
    data = small_sphere(d=40, n=8)
    score, guess = attacked(data, trained(data, ratio=5, ridge=ridge))
    assert guess.certified
    assert score.rho_signed < 1e-6


def test_labels_give_the_norms_with_and_without_ridge() -> None:
    data = load(DataRequest("digits", n=12))
    for ridge in (0.0, 1e-2):
        score, guess = attacked(data, trained(data, ratio=8, ridge=ridge))
        assert guess.scale == "from labels"
        assert score.worst_row < 1e-4


def test_hidden_labels_leave_directions_only() -> None:
    data = load(DataRequest("digits", n=12))
    score, guess = attacked(data, trained(data, ratio=8, knowledge=Knowledge(labels=False)))
    assert guess.scale == "unknown"
    assert score.rho_direction < 1e-4
    assert score.rho_signed > 0.05


def test_more_samples_than_dimensions() -> None:
    data = load(DataRequest("breast-cancer", n=40))
    score, guess = attacked(data, trained(data, ratio=10))
    assert data.n > data.d
    assert guess.signs_resolved
    assert score.n_found == 40
    assert score.worst_row < 1e-4


def test_a_duplicate_is_reported_once() -> None:
    base = load(DataRequest("digits", n=10))
    from dataclasses import replace

    rows, labels = torch.cat([base.rows, base.rows[3:4]]), torch.cat([base.labels, base.labels[3:4]])
    doubled = replace(base, rows=rows, labels=labels)
    from exhume.victims import RandomFeaturesVictim

    result = RandomFeaturesVictim(p=6000).train(doubled)
    score, _ = attacked(result.truth, result.release)
    assert score.n_true == score.n_found == 10
    assert score.worst_row < 1e-4
    assert "rows 3 and 10 are identical" in result.truth.notes[0]


def test_a_claimed_n_that_is_too_small_is_not_certified() -> None:
    data = small_sphere(d=40, n=8)
    guess = GaussNewton(rows=6, starts=1).run(trained(data, ratio=6), seed=0)
    assert guess.status is Status.STALLED


def test_a_claimed_n_that_is_too_large_is_corrected() -> None:
    data = small_sphere(d=40, n=8)
    score, guess = attacked(data, trained(data, ratio=6), rows=11)
    assert guess.certified
    assert score.n_found == 8


def test_zero_loss_with_too_few_equations_says_so() -> None:
    data = small_sphere(d=20, n=8)
    guess = GaussNewton(rows=12).run(trained(data, ratio=1.0), seed=0)
    assert guess.status is not Status.CERTIFIED


def test_matrix_free_and_resident_agree() -> None:
    data = small_sphere(d=60, n=8)
    release = trained(data, ratio=5)
    roomy = GaussNewton().run(release, seed=0)
    need = 4 * release.p * 30 * 8
    tight = GaussNewton().run(release, seed=0, resources=Resources(memory=need))
    torch.testing.assert_close(roomy.rows, tight.rows, rtol=1e-9, atol=1e-9)


def test_inputs_of_many_dimensions_are_found_by_streaming() -> None:
    data = small_sphere(d=800, n=4)
    score, guess = attacked(data, trained(data, ratio=6, dtype=torch.float32))
    assert guess.certified
    assert score.n_found == 4
    assert score.rho_signed < 1e-4


@pytest.mark.parametrize(("n", "ratio", "seed"), [(1, 10.0, 6), (2, 6.0, 3), (2, 6.0, 4)])
def test_a_sample_split_in_its_linear_cell_does_not_count_twice(n: int, ratio: float, seed: int) -> None:
    result = run_trial(Trial(DataRequest("sphere", d=760, n=n, seed=seed), ratio=ratio, seed=seed, dtype="float32"))
    assert result.guess.certified
    assert result.score.n_found == n
    assert result.score.rho_signed < 1e-4


def test_a_small_budget_leaves_the_rows_to_fewer_features() -> None:
    data = small_sphere(d=800, n=6)
    release = trained(data, ratio=5, dtype=torch.float32)
    memory = 2 * 16 * (6 + 2) * 10_000  # states of six rows on 10,000 features of 14,400 wanted
    guess = GaussNewton().run(release, resources=Resources(memory=memory))
    assert guess.certified
    assert any("--memory allows no more" in note for note in guess.notes)
    assert evaluate(guess, data, release).n_found == 6


@pytest.mark.slow
def test_cifar10_pictures_come_back(cifar10_file: object) -> None:
    from pathlib import Path

    assert isinstance(cifar10_file, Path)
    data = load(DataRequest("cifar10", n=10, data_dir=cifar10_file))
    score, guess = attacked(data, trained(data, ratio=4, dtype=torch.float32))
    assert guess.certified
    assert score.n_found == 10
    assert score.rho_signed < 1e-3


@pytest.mark.parametrize("p", [4, 20, 40, 62])
def test_with_fewer_weights_than_nuisance_columns_the_attack_says_that_it_cannot(p: int) -> None:
    row = run_trial(Trial(DataRequest("sphere", n=10, d=30), p=p, allow_underfit=True)).row()
    assert row["status"] == "stalled"
    assert not row["certified"]
    assert row["rho"] > 0.5


def test_weights_that_hold_no_rows_end_in_a_stall() -> None:
    """Free norms, weights shuffled over the features: the pursuit finds nothing that stands out, and says so."""
    data = small_sphere(d=10, n=4)
    release = trained(data, ratio=10, activation="cosine", knowledge=Knowledge(statistics=False))
    order = torch.randperm(release.p, generator=torch.Generator().manual_seed(0))
    guess = GaussNewton().run(replace(release, weights=release.weights[:, order].contiguous()))
    assert guess.status is Status.STALLED
    assert len(guess.rows) >= 1
