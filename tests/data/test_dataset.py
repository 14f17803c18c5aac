"""Datasets: standardised rows and the way back, pictures, balanced subsets, and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from exhume.data import SOURCES, DataRequest, Dataset, load, load_dataset, save_dataset
from exhume.data.dataset import balanced, one_size, photographs, standardised
from exhume.errors import ExhumeError
from exhume.storage.tensor_file import write_tensors

EMBEDDED = ["sphere", "digits", "breast-cancer", "diabetes", "wine"]
RAW = np.random.default_rng(0).normal(3.0, 2.0, (6, 4))
LABELS = np.array([1.0, -1, 1, -1, 1, -1])


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_load_and_survive_a_file(name: str, tmp_path: Path) -> None:
    data = load(DataRequest(name, n=12))
    assert data.n == 12
    assert name in SOURCES
    save_dataset(data, tmp_path / "truth.safetensors")
    back = load_dataset(tmp_path / "truth.safetensors")
    assert torch.equal(back.rows, data.rows)
    assert (back.columns, back.shape, back.label_size) == (data.columns, data.shape, data.label_size)
    for field, value in vars(data).items():
        same = torch.equal(getattr(back, field), value) if isinstance(value, torch.Tensor) else getattr(back, field) == value
        assert same, field


def plain(**changes: object) -> Dataset:
    values = {"per_column": True, "shape": (4,), "kind": "table"} | changes
    return standardised("mine", RAW, LABELS, **values)  # type: ignore[arg-type]


def test_every_column_gets_mean_zero_and_spread_one() -> None:
    data = plain()
    np.testing.assert_allclose(data.rows.numpy(), (RAW - RAW.mean(0)) / RAW.std(0), rtol=1e-12)
    np.testing.assert_allclose(data.raw(data.rows).numpy(), RAW, rtol=1e-12)
    assert data.labels.tolist() == LABELS.tolist()
    assert (data.n, data.d, data.input_range) == (6, 4, None)


def test_all_entries_together_get_mean_zero_and_spread_one() -> None:
    data = plain(per_column=False)
    np.testing.assert_allclose(data.rows.numpy(), (RAW - RAW.mean()) / RAW.std(ddof=1), rtol=1e-12)
    np.testing.assert_allclose(data.raw(data.rows).numpy(), RAW, rtol=1e-12)


def test_a_constant_column_becomes_zero_and_comes_back() -> None:
    raw = RAW.copy()
    raw[:, 2] = 0.1
    data = standardised("mine", raw, LABELS, per_column=True, shape=(4,), kind="table")
    assert data.rows[:, 2].abs().max() < 1e-15
    np.testing.assert_allclose(data.raw(data.rows).numpy(), raw, rtol=1e-12)


def black_and_white() -> Dataset:
    images = np.random.default_rng(1).integers(0, 256, (4, 3, 2, 5), dtype=np.uint8)
    images[0, 0, 0, :2] = (0, 255)
    return standardised("mine", images, LABELS[:4], per_column=False, shape=(3, 2, 5), kind="image", white=255.0)


def test_the_range_of_a_pixel_is_reached_by_black_and_white() -> None:
    data = black_and_white()
    assert data.input_range == pytest.approx((data.rows.min().item(), data.rows.max().item()))


def test_pictures_have_their_channels_last_and_stay_in_range() -> None:
    data = black_and_white()
    pictures = data.pictures(data.rows)
    raw = data.raw(data.rows).numpy().reshape(4, 3, 2, 5) / 255
    assert pictures.shape == (4, 2, 5, 3)
    np.testing.assert_allclose(pictures[1, 0, 4], raw[1, :, 0, 4], atol=1e-12)
    bright = data.pictures(10 * data.rows)
    assert (bright.min(), bright.max()) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("labels", "size"),
    [([1.0, -1.0], 1.0), ([2.0, 2.0, -2.0], 2.0), ([1.0, 2.0], None), ([0.0, 0.0], None), ([], None), ([-3.0], 3.0)],
)
def test_labels_of_one_size_are_seen(labels: list[float], size: float | None) -> None:
    assert one_size(np.array(labels)) == size


def test_photographs_are_averaged_over_squares() -> None:
    images = np.random.default_rng(2).integers(0, 256, (3, 3, 6, 6), dtype=np.uint8)
    data = photographs("mine", images, LABELS[:3], size=2, label_size=1.0)
    expected = np.empty((3, 3, 2, 2))
    for place in np.ndindex(expected.shape):
        n, c, i, j = place
        expected[place] = images[n, c, 3 * i : 3 * i + 3, 3 * j : 3 * j + 3].mean()
    np.testing.assert_allclose(data.raw(data.rows).numpy(), expected.reshape(3, -1), rtol=1e-12)
    assert (data.name, data.shape, data.white, data.label_size) == ("mine at 2x2", (3, 2, 2), 255.0, 1.0)
    whole = photographs("mine", images, LABELS[:3], size=6, label_size=None)
    assert (whole.name, whole.shape) == ("mine", (3, 6, 6))


@pytest.mark.parametrize("size", [0, 4, 12])
def test_photographs_shrink_to_divisors_of_their_side_only(size: int) -> None:
    with pytest.raises(ExhumeError, match=f"pictures of 6 pixels cannot be averaged to {size}. Give a divisor of 6"):
        photographs("mine", np.ones((2, 3, 6, 6)), LABELS[:2], size=size, label_size=None)


def test_balanced_takes_the_first_of_every_class() -> None:
    classes = [np.array([3, 5, 9]), np.array([0, 1, 2]), np.array([4, 8])]
    assert balanced(classes, 6, "mine").tolist() == [3, 5, 0, 1, 4, 8]
    with pytest.raises(ExhumeError, match="n must be a multiple of 3 for balanced classes, got 7"):
        balanced(classes, 7, "mine")
    with pytest.raises(ExhumeError, match="class 2 has 2 samples, 3 are needed for n = 9"):
        balanced(classes, 9, "mine")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": torch.ones(6)}, r"non-empty \(n, d\) array, got shape \(6,\)"),
        ({"rows": torch.ones(0, 4)}, r"got shape \(0, 4\)"),
        ({"labels": torch.ones(5)}, r"6 rows need 6 labels, got shape \(5,\)"),
        ({"rows": torch.where(torch.eye(6, 4) == 1, torch.nan, 1.0)}, r"rows hold NaN or infinity, first at \[0, 0\]"),
        ({"labels": torch.tensor([1.0, 2, torch.inf, 4, 5, 6])}, r"labels hold NaN or infinity, first at \[2\]"),
        ({"rows": torch.eye(6)[:, :5]}, "row 5 has norm zero"),
        ({"labels": torch.full((6,), 2.0)}, "all 6 labels equal 2. Give at least two"),
    ],
)
def test_rows_and_labels_that_cannot_be_trained_on_are_refused(changes: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(ExhumeError, match=f"^mine: .*{message}"):
        replace(plain(), **changes)  # type: ignore[arg-type]


def test_one_sample_needs_one_label_only() -> None:
    assert replace(plain(), rows=torch.ones(1, 4), labels=torch.ones(1)).n == 1
    assert replace(plain(), rows=torch.ones(6, 1)).d == 1


def test_files_that_are_no_truth_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "truth"
    with pytest.raises(ExhumeError, match=r"truth .* is not a file"):
        load_dataset(path)
    write_tensors(path, {"rows": torch.ones(2, 2)}, {"format": "exhume-release-1"})
    with pytest.raises(ExhumeError, match="must be exhume-dataset-1, got exhume-release-1"):
        load_dataset(path)
    for header in ({"dataset": {"name": "mine"}}, {"dataset": {"colour": 1}}, {}):
        write_tensors(path, {"rows": torch.ones(2, 2)}, {"format": "exhume-dataset-1"} | header)
        with pytest.raises(ExhumeError, match=r"lacks or misspells .* Write it again with `exhume train`"):
            load_dataset(path)
