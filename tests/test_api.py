"""The verbs take what people hold: arrays, tensors, data frames, strings and paths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import exhume
from exhume.api import dataset_of
from support.problems import small_sphere

ROWS = small_sphere(d=12, n=4)


def forms() -> dict[str, tuple[object, object]]:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: pip install 'exhume[dev]'")
    X, y = ROWS.rows.numpy(), ROWS.labels.numpy()
    names = [f"c{i}" for i in range(12)]
    return {
        "arrays": (X, y),
        "lists": (X.tolist(), y.tolist()),
        "tensors": (ROWS.rows, ROWS.labels.requires_grad_(requires_grad=False)),
        "frame and series": (pandas.DataFrame(X, columns=names), pandas.Series(y)),
        "frame and frame": (pandas.DataFrame(X, columns=names), pandas.DataFrame({"y": y})),
    }


@pytest.mark.parametrize("form", ["arrays", "lists", "tensors", "frame and series", "frame and frame"])
def test_data_in_every_form_give_the_same_model(form: str) -> None:
    data = forms()[form]
    assert torch.equal(dataset_of(data).rows, ROWS.rows)
    trained = exhume.train(exhume.RandomFeaturesVictim(p=480), data)
    guess = exhume.reconstruct(trained.release)
    assert guess.certified
    assert exhume.evaluate(guess, data).rho_direction < 1e-6
    if form.startswith("frame"):
        assert dataset_of(data).columns[0] == "c0"


def test_files_by_string_and_by_path(tmp_path: Path) -> None:
    trained = exhume.train(exhume.RandomFeaturesVictim(p=480), ROWS)
    for make in (str, Path):
        place = make(tmp_path / "release")
        exhume.save_release(trained.release, place)
        exhume.save_dataset(trained.truth, make(tmp_path / "truth.safetensors"))
        guess = exhume.reconstruct(place, resources=exhume.Resources(checkpoint=make(tmp_path / "run.ckpt")))
        exhume.save_reconstruction(guess, make(tmp_path / "guess"))
        score = exhume.evaluate(make(tmp_path / "guess"), make(tmp_path / "truth.safetensors"), place)
        assert score.covered == 4
        assert score.span_residual is not None


def test_a_request_is_loaded_and_a_named_attack_is_run() -> None:
    release = exhume.train(exhume.RandomFeaturesVictim(p=480), exhume.DataRequest("sphere", d=12, n=4)).release
    assert exhume.reconstruct(release, "gauss-newton").attack == "gauss-newton"
    with pytest.raises(exhume.ExhumeError, match="Did you mean 'gauss-newton'"):
        exhume.reconstruct(release, "gauss-newtom")
    with pytest.raises(exhume.ExhumeError, match="got int"):
        dataset_of(3)


def test_every_public_name_is_there() -> None:
    for name in exhume.__all__:
        assert getattr(exhume, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Cell'"):
        _ = exhume.Cell


def test_labels_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(exhume.ExhumeError, match="real numbers"):
        dataset_of((np.ones((2, 3)), np.array(["a", "b"])))
