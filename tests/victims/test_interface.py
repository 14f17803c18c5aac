"""What victims share: truths without duplicates."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.data import Dataset
from exhume.victims import RandomFeaturesVictim, Victim
from exhume.victims.interface import without_duplicates
from support.problems import small_sphere


def with_labels(index: list[int], labels: list[float]) -> Dataset:
    """Rows of the sphere by index, with labels of size one."""
    data = small_sphere(d=6, n=4)
    return replace(data, rows=data.rows[index], labels=torch.tensor(labels, dtype=torch.float64), label_size=1.0, notes=("kept",))


def test_distinct_rows_stay_as_they_are() -> None:
    data = small_sphere(d=6, n=4)
    assert without_duplicates(data) is data


def test_a_row_that_comes_again_is_left_out_with_a_note() -> None:
    truth = without_duplicates(with_labels([0, 1, 0, 2, 1, 0], [1, -1, 1, -1, -1, 1]))
    assert torch.equal(truth.rows, small_sphere(d=6, n=4).rows[:3])
    assert truth.labels.tolist() == [1, -1, -1]
    assert truth.label_size == 1.0
    assert truth.notes[0] == "kept"
    assert [note.split(":")[0] for note in truth.notes[1:]] == [
        "rows 0 and 2 are identical",
        "rows 1 and 4 are identical",
        "rows 0 and 5 are identical",
    ]


def test_unlike_labels_of_one_row_become_their_mean() -> None:
    truth = without_duplicates(with_labels([0, 1, 0, 2], [1, 1, -1, -1]))
    assert truth.labels.tolist() == [0, 1, -1]
    assert truth.label_size is None


def test_the_mean_is_what_a_model_fits() -> None:
    data = with_labels([0, 0, 1], [1, -1, 1])  # only the first row's label differs from the others'
    trained = RandomFeaturesVictim(p=100).train(data)
    phi = torch.cat(list(trained.release.model.feature_blocks({})(trained.truth.rows)))
    torch.testing.assert_close((trained.release.weights @ phi)[0], trained.truth.labels, atol=1e-8, rtol=0)
    assert trained.truth.labels.tolist() == [0, 1]


def test_nearly_equal_rows_are_two() -> None:
    data = small_sphere(d=6, n=4)
    close = replace(data, rows=torch.cat([data.rows[:3], data.rows[:1] + 1e-12]))
    assert without_duplicates(close) is close


def test_a_victim_must_say_how_it_is_trained() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Victim()  # type: ignore[abstract]
