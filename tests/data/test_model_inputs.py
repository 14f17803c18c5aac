"""Rows as a user's model was fed with them, and the way back to pictures."""

from __future__ import annotations

import numpy as np
import pytest

from exhume.data.model_inputs import model_inputs
from exhume.errors import ExhumeError

RNG = np.random.default_rng(0)
TABLE, Y = RNG.normal(size=(5, 3)), np.array([2.0, -2.0, 2.0, -2.0, 2.0])


def test_nothing_is_done_to_rows_by_default() -> None:
    data = model_inputs("mine", TABLE, Y)
    np.testing.assert_array_equal(data.rows.numpy(), TABLE)
    np.testing.assert_array_equal(data.raw(data.rows).numpy(), TABLE)
    assert (data.kind, data.columns, data.label_size, data.shape) == ("table", ("x0", "x1", "x2"), 2.0, (3,))
    assert model_inputs("mine", TABLE, Y, columns=("a", "b", "c")).columns == ("a", "b", "c")


@pytest.mark.parametrize("mean", [(0.5,), (0.5, 1.0, 2.0)])
@pytest.mark.parametrize("spread", [(2.0,), (0.1, 1.0, 3.0)])
def test_columns_lose_the_mean_and_spread_that_are_named(mean: tuple[float, ...], spread: tuple[float, ...]) -> None:
    data = model_inputs("mine", TABLE, Y, mean=mean, spread=spread)
    np.testing.assert_allclose(data.rows.numpy(), (TABLE - np.array(mean)) / np.array(spread), rtol=1e-14)
    np.testing.assert_allclose(data.raw(data.rows).numpy(), TABLE, rtol=1e-12, atol=1e-15)


def test_pictures_lose_one_mean_per_channel() -> None:
    X = RNG.random((5, 3, 2, 4))
    mean, spread = np.array([0.5, 0.4, 0.3]), np.array([0.25, 0.5, 1.0])
    data = model_inputs("mine", X, Y, mean=mean, spread=spread)
    expected = (X - mean[None, :, None, None]) / spread[None, :, None, None]
    np.testing.assert_allclose(data.rows.numpy(), expected.reshape(5, -1), rtol=1e-14)
    assert (data.kind, data.columns, data.shape) == ("image", (), (3, 2, 4))
    np.testing.assert_allclose(data.pictures(data.rows), X.transpose(0, 2, 3, 1), atol=1e-12)


@pytest.mark.parametrize(
    ("X", "shown"),
    [
        (np.array([0.0, 0.5, 1.0, 0.25]), [0, 0.5, 1, 0.25]),  # shares
        (np.array([0.0, 51.0, 255.0, 102.0]), [0, 0.2, 1, 0.4]),  # bytes
        (np.array([-2.0, 0.0, 1.0, -1.0]), [0, 0.5, 0.75, 0.25]),  # around zero: grey in the middle
    ],
)
@pytest.mark.parametrize("mean", [(0.0,), (0.3,)])
def test_pixels_are_shown_from_black_to_white(X: np.ndarray, shown: list[float], mean: tuple[float, ...]) -> None:
    data = model_inputs("mine", X.reshape(1, 1, 2, 2), np.ones(1), mean=mean)
    np.testing.assert_allclose(data.pictures(data.rows).flatten(), shown, atol=1e-12)
    assert data.input_range == pytest.approx((X.min() - mean[0], max(X.max(), -X.min()) - mean[0]))


def test_rows_are_a_copy() -> None:
    X = TABLE.copy()
    data = model_inputs("mine", X, Y)
    X[:] = 0
    np.testing.assert_array_equal(data.rows.numpy(), TABLE)


def test_means_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ExhumeError, match=r"--mean needs 1, 3 or 3 values for inputs of shape \(3,\), got 2"):
        model_inputs("mine", TABLE, Y, mean=(1.0, 2.0))
    with pytest.raises(ExhumeError, match=r"--std needs 1, 3 or 24 values for inputs of shape \(3, 2, 4\), got 4"):
        model_inputs("mine", np.ones((5, 3, 2, 4)), Y, spread=(1.0, 2.0, 3.0, 4.0))
    for spread in ((0.0,), (1.0, -1.0, 1.0)):
        with pytest.raises(ExhumeError, match="--std must be positive everywhere"):
            model_inputs("mine", TABLE, Y, spread=spread)
