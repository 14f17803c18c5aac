"""Networks trained by gradient descent: the steps, the release, and training that goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.func import functional_call, jacrev

from exhume.data import Dataset
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.release import Release
from exhume.victims import NetworkVictim, Trained, network
from exhume.victims.losses import loss_named
from exhume.victims.network import safe_step
from support.drawn_networks import PICTURE, network_release, rows
from support.problems import small_sphere, two_layer


def outputs_of(release: Release, data: Dataset, parameters: dict[str, torch.Tensor] | None = None) -> torch.Tensor:
    with torch.no_grad():
        return release.network.module(parameters or release.trained)(data.rows.reshape(data.n, *data.shape))


def test_training_reaches_interpolation_and_tells_its_course() -> None:
    trained = two_layer(small_sphere(d=40, n=8), 10, k=4)
    assert trained.train_loss < 1e-11
    assert trained.course["train_steps"] < 2000
    assert 0 < trained.course["feature_drift"] < 0.1
    spectrum = trained.course["first_layer_spectrum"]
    assert spectrum[7] > 1e-3 > 1e-9 > spectrum[8]  # eight samples move the first layer in eight directions


@pytest.mark.parametrize(("loss", "k"), [("square", 4), ("cross-entropy", 4)])
def test_interrupted_training_ends_in_the_same_weights(loss: str, k: int, tmp_path: Path) -> None:
    data = small_sphere(d=40, n=8)
    victim = NetworkVictim("two-layer", 10 * 320, k=k, loss=loss, train_to=1e-28, max_steps=300)
    path, stops = tmp_path / "training", []

    def stop(step: int, mean: float) -> None:
        stops.append(step)
        if len(stops) % 2 == 0:
            raise KeyboardInterrupt

    for _ in range(100):
        try:
            resumed = victim.train(data, report=stop, checkpoint=path)
            break
        except KeyboardInterrupt:
            assert path.exists()
    assert len(stops) > 2
    assert not path.exists()
    whole = victim.train(data)
    assert whole.course["train_steps"] == resumed.course["train_steps"]
    for name, value in whole.release.trained.items():
        torch.testing.assert_close(resumed.release.trained[name], value)
    with pytest.raises(KeyboardInterrupt):
        victim.train(data, report=stop, checkpoint=path)
    with pytest.raises(ExhumeError, match="belongs to another run"):
        replace(victim, seed=1).train(data, checkpoint=path)


def test_training_interrupted_after_its_last_step_has_nothing_left_to_do(tmp_path: Path) -> None:
    data = small_sphere(d=10, n=3)
    victim = NetworkVictim("two-layer", 100, train_to=1e-30, weight_decay=1e-2, max_steps=50)

    def stop(step: int, mean: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        victim.train(data, report=stop, checkpoint=tmp_path / "training")
    resumed, whole = victim.train(data, checkpoint=tmp_path / "training"), victim.train(data)
    assert resumed.course["train_steps"] == whole.course["train_steps"] == 50
    assert resumed.train_loss == pytest.approx(whole.train_loss)
    assert torch.equal(resumed.release.weights, whole.release.weights)


@pytest.mark.parametrize("settings", [{}, {"max_steps": 7}, {"loss": "logistic"}, {"loss": "cross-entropy", "k": 3}])
def test_the_loss_is_that_of_the_released_weights(settings: dict[str, object]) -> None:
    data = small_sphere(d=10, n=3)
    trained = NetworkVictim("two-layer", 100, **settings).train(data)  # type: ignore[arg-type]
    loss = loss_named(str(settings.get("loss", "square")))
    value = loss.value(outputs_of(trained.release, data), loss.targets(data, trained.release.k)) / data.n
    assert trained.train_loss == pytest.approx(value.item(), rel=1e-6)
    assert trained.course["train_steps"] == settings.get("max_steps", trained.course["train_steps"])
    assert trained.train_loss <= loss.stops_at or "max_steps" in settings


def test_the_papers_schedule_is_plain_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Appendix D: a step of 1e-5 on the summed loss; three of them by hand."""
    monkeypatch.setattr(network, "_PAPER_COUNT", 3)
    data, decay = small_sphere(d=10, n=3), 0.5
    trained = NetworkVictim("two-layer", 30, schedule="paper", weight_decay=decay).train(data)
    first, head = (trained.release.initial[name].clone() for name in ("first.weight", "head.weight"))
    for _ in range(3):
        Z = data.rows @ first.T
        error = torch.relu(Z) @ head.T - data.labels[:, None]
        slopes = error.T @ torch.relu(Z), ((error @ head) * (Z > 0)).T @ data.rows
        head, first = ((1 - 1e-5 * decay) * now - 1e-5 * slope for now, slope in zip((head, first), slopes, strict=True))
    torch.testing.assert_close(trained.release.trained["head.weight"], head, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(trained.release.trained["first.weight"], first, rtol=1e-12, atol=1e-14)
    assert trained.course["train_steps"] == 3


def test_training_that_diverges_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_PAPER_COUNT", 500)
    data = small_sphere(d=10, n=3)
    with pytest.raises(ExhumeError, match="training diverged"):
        NetworkVictim("two-layer", 30, schedule="paper").train(replace(data, rows=1e4 * data.rows))


@pytest.mark.parametrize("name", ["two-layer", "vit"])
def test_a_safe_step_is_half_of_what_the_tangent_kernel_allows(name: str) -> None:
    release = network_release(name)
    module, start = release.network.module(release.initial), dict(release.initial)
    X = rows(5).reshape(5, *PICTURE)

    def outputs(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
        return functional_call(module, parameters, (X,))

    J = torch.cat([part.reshape(10, -1) for part in jacrev(outputs)(start).values()], dim=1)
    largest = torch.linalg.eigvalsh(J @ J.T)[-1].item()
    step = safe_step(outputs, start, torch.zeros(5, 2, dtype=torch.float64))
    assert 1 / largest == pytest.approx(step, rel=0.2)
    assert step < 2 / largest


def test_the_course_is_what_changed() -> None:
    data = small_sphere(d=10, n=3)
    trained = NetworkVictim("two-layer", 100).train(data)
    before, after = trained.release.initial, trained.release.trained
    hidden = [torch.relu(data.rows @ layer["first.weight"].T) for layer in (before, after)]
    assert trained.course["feature_drift"] == pytest.approx(((hidden[1] - hidden[0]).norm() / hidden[0].norm()).item())
    change = after["first.weight"] - before["first.weight"]
    assert trained.course["first_layer_change"] == pytest.approx((change.norm() / before["first.weight"].norm()).item())
    spectrum = torch.linalg.svdvals(change)
    assert trained.course["first_layer_spectrum"] == pytest.approx((spectrum / spectrum[0]).tolist(), abs=1e-12)


def trained_with(**settings: object) -> Trained:
    return NetworkVictim("two-layer", 60, max_steps=20, **settings).train(small_sphere(d=10, n=3))  # type: ignore[arg-type]


def test_the_release_holds_what_training_added_and_both_ends() -> None:
    release = trained_with(k=2).release
    assert torch.equal(release.weights, release.trained["head.weight"] - release.initial["head.weight"])
    assert (release.k, release.p, release.d) == (2, 30, 10)
    whole = release.trained["head.weight"]
    for init, known in (("last", {"head.weight"}), ("none", set())):
        told = trained_with(k=2, knowledge=Knowledge(init=init)).release
        assert set(told.initial) == known
        assert torch.equal(told.weights, release.weights if known else whole)


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({}, {"n": None, "input_norm": 10**0.5, "ridge": 0.0, "one_hot": False, "pruned": False, "label_size": None}),
        ({"k": 2, "weight_decay": 0.1, "knowledge": Knowledge(n=True)}, {"n": 3, "ridge": 0.1, "one_hot": True}),
        ({"k": 2, "loss": "cross-entropy"}, {"one_hot": False}),
        ({"prune": 0.5}, {"pruned": True}),
        ({"k": 2, "knowledge": Knowledge(labels=False, statistics=False)}, {"one_hot": False, "input_norm": None}),
    ],
)
def test_facts_are_those_of_the_training(settings: dict[str, object], facts: dict[str, object]) -> None:
    told = vars(trained_with(**settings).release.facts)
    assert {name: told[name] for name in facts} == facts


def test_labels_of_one_size_are_a_fact_where_they_are_fitted() -> None:
    data = replace(small_sphere(d=10, n=3), labels=torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64), label_size=1.0)
    sizes = {
        loss: NetworkVictim("two-layer", 60, loss=loss, max_steps=5).train(data).release.facts.label_size
        for loss in ("square", "logistic")
    }
    assert sizes == {"square": 1.0, "logistic": None}


def test_the_first_layer_may_start_small() -> None:
    plain, small = (trained_with(init_scale=scale).release for scale in (1.0, 1e-3))
    torch.testing.assert_close(small.initial["first.weight"], 1e-3 * plain.initial["first.weight"])
    assert torch.equal(small.initial["head.weight"], plain.initial["head.weight"])


def test_a_seed_is_a_network() -> None:
    one, again, other = (trained_with(seed=seed).release.weights for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "logistic", "k": 3}, "exactly 1 output"),
        ({"loss": "cross-entropy"}, "at least 2 outputs"),
        ({"loss": "hinge"}, r"unknown loss .hinge."),
        ({"prune": 1.5}, "between 0 and 1"),
        ({"weight_decay": -1.0}, "must not be negative"),
        ({"weight_decay": float("inf")}, "must not be negative or infinite"),
        ({"last_layer": 0}, "at least 1 parameter, got 0"),
        ({"init_scale": 0.0}, "--init-scale must be positive"),
        ({"train_to": 0.0}, "--train-to must be a positive loss"),
        ({"architecture": "lstm"}, "unknown network 'lstm'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], message: str) -> None:
    victim = replace(NetworkVictim("two-layer", 160), **settings)  # type: ignore[arg-type]
    with pytest.raises(ExhumeError, match=message):
        victim.train(small_sphere(d=10, n=4))


def test_rows_that_are_no_pictures_are_refused() -> None:
    with pytest.raises(ExhumeError, match="square pictures"):
        NetworkVictim("resnet", 490).train(small_sphere(d=10, n=4))
