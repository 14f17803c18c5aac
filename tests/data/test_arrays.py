"""Arrays, tensors, data frames and sparse matrices become checked rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from exhume.data.arrays import as_array, as_table, check_arrays
from exhume.errors import ExhumeError

VALUES = np.array([[1.0, 0.0, 2.5], [0.0, -4.0, 0.5]])


@pytest.mark.parametrize(
    "held",
    [
        VALUES,
        VALUES.tolist(),
        tuple(map(tuple, VALUES)),
        sparse.csr_matrix(VALUES),
        torch.as_tensor(VALUES).requires_grad_(),
        torch.as_tensor(VALUES).to(torch.bfloat16),
        torch.as_tensor(VALUES).to_sparse(),
        torch.as_tensor(VALUES.T.copy()).T,
    ],
    ids=["array", "lists", "tuples", "scipy sparse", "with a gradient", "bfloat16", "torch sparse", "not contiguous"],
)
def test_numbers_in_every_form_give_the_same_array(held: object) -> None:
    np.testing.assert_array_equal(as_array(held), VALUES)


def test_a_data_frame_keeps_the_names_of_its_columns() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: pip install 'exhume[dev]'")
    table = as_table(pandas.DataFrame(VALUES, columns=["a", "b", 3]), pandas.DataFrame({"y": [1, 2]}))
    np.testing.assert_array_equal(table.X, VALUES)
    assert table.columns == ("a", "b", "3")
    assert table.y.tolist() == [1.0, 2.0]
    assert table.y.dtype == np.float64


def test_the_first_rows_are_taken() -> None:
    table = as_table(VALUES, [1, 2], n=1)
    np.testing.assert_array_equal(table.X, VALUES[:1])
    assert table.y.tolist() == [1.0]
    assert as_table(VALUES, [1, 2]).X.shape == (2, 3)
    for n in (0, 3):
        with pytest.raises(ExhumeError, match=f"the data have 2 rows, n = {n} were asked for"):
            as_table(VALUES, [1, 2], n=n)


def test_rows_of_unlike_lengths_are_refused() -> None:
    with pytest.raises(ExhumeError, match="rows of unlike lengths"):
        as_table([[1, 2], [3]], [1, 2])


Y = np.array([1.0, -1.0])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (VALUES.astype(str), Y, "must be real numbers, got <U"),
        (VALUES, Y > 0, "must be real numbers, got float64 and bool"),
        (VALUES + 1j, Y, "must be real numbers, got complex128"),
        (VALUES[0], Y, r"got \(3,\) and \(2,\)"),
        (VALUES, Y[:1], r"got \(2, 3\) and \(1,\)"),
        (VALUES, Y[:, None], r"got \(2, 3\) and \(2, 1\)"),
        (VALUES[:0], Y[:0], r"got \(0, 3\)"),
        (np.ones((2, 3, 3)), Y, r"got \(2, 3, 3\)"),
        (np.ones((2, 2, 4, 4)), Y, r"1 or 3 channels in the second axis, got shape \(2, 2, 4, 4\)"),
        (np.where(VALUES == 2.5, np.nan, VALUES), Y, r"X holds NaN or infinity, first at \[0, 2\]"),
        (VALUES, np.array([0.0, np.inf]), r"y holds NaN or infinity, first at \[1\]"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_with_the_place(X: np.ndarray, y: np.ndarray, message: str) -> None:
    with pytest.raises(ExhumeError, match=f"^mine: .*{message}"):
        check_arrays("mine", X, y)
