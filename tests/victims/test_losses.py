"""The losses against torch's own, their curvature against dense Hessians, and labels as targets."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from exhume.data import Dataset
from exhume.errors import ExhumeError
from exhume.victims import LOSSES
from exhume.victims.losses import classes_of, loss_named, one_hot, signs_of
from support.problems import small_sphere


def with_labels(*labels: float) -> Dataset:
    data = small_sphere(d=6, n=len(labels))
    return replace(data, labels=torch.tensor(labels, dtype=torch.float64))


def outputs(k: int, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(5, k, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


LABELS = with_labels(1.0, -1.0, 2.0, -3.0, 0.5)


@pytest.mark.parametrize("k", [1, 3])
def test_values_are_sums_over_samples(k: int) -> None:
    f = outputs(k)
    square = LOSSES["square"]
    y = square.targets(LABELS, k)
    torch.testing.assert_close(square.value(f, y), functional.mse_loss(f, y, reduction="sum") / 2)
    if k == 1:
        signs = LOSSES["logistic"].targets(LABELS, 1)
        expected = functional.binary_cross_entropy_with_logits(f, (signs + 1) / 2, reduction="sum")
        torch.testing.assert_close(LOSSES["logistic"].value(f, signs), expected)
    else:
        classes = LOSSES["cross-entropy"].targets(LABELS, k)
        expected = functional.cross_entropy(f, classes.argmax(1), reduction="sum")
        torch.testing.assert_close(LOSSES["cross-entropy"].value(f, classes), expected)


@pytest.mark.parametrize(("name", "k"), [("square", 1), ("square", 3), ("logistic", 1), ("cross-entropy", 2), ("cross-entropy", 4)])
@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0, 30.0])
def test_curvature_bounds_the_hessian_in_the_outputs(name: str, k: int, scale: float) -> None:
    loss = LOSSES[name]
    y = loss.targets(LABELS, k)
    for f in (outputs(k, scale), y * scale):  # anywhere, and where labels are fitted with a growing margin
        hessian = torch.autograd.functional.hessian(lambda z: loss.value(z.reshape(5, k), y), f.flatten())
        largest = torch.linalg.eigvalsh(hessian)[-1].item()
        assert largest <= loss.curvature(f, y) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("name", "k"), [("square", 1), ("logistic", 1), ("cross-entropy", 2)])
def test_curvature_is_reached_at_the_start_and_falls_with_the_residual(name: str, k: int) -> None:
    loss = LOSSES[name]
    y = loss.targets(LABELS, k)
    for f in (torch.zeros(5, k, dtype=torch.float64), 15 * y):
        hessian = torch.autograd.functional.hessian(lambda z: loss.value(z.reshape(5, k), y), f.flatten())
        assert loss.curvature(f, y) == pytest.approx(torch.linalg.eigvalsh(hessian)[-1].item(), rel=1e-4)


def test_signs_are_those_of_the_labels_and_zero_counts_as_minus() -> None:
    assert signs_of(with_labels(3.0, -0.5, 0.0, 1e-9)).tolist() == [1, -1, -1, 1]
    with pytest.raises(ExhumeError, match=r"sphere: the logistic loss needs labels of both signs, got only \+1"):
        signs_of(with_labels(1.0, 2.0))
    with pytest.raises(ExhumeError, match="got only -1"):
        signs_of(with_labels(-1.0, -2.0))


@pytest.mark.parametrize(
    ("labels", "k", "classes"),
    [
        ((7.0, 3.0, 7.0, 5.0), 3, [2, 0, 2, 1]),  # distinct labels in order
        ((7.0, 3.0, 7.0, 5.0), 10, [2, 0, 2, 1]),
        ((0.4, -2.0, 9.0, 1.0, 3.0, -1.0), 2, [0, 0, 1, 1, 1, 0]),  # more labels than classes: equal ranks
        ((0.4, -2.0, 9.0, 1.0, 3.0, -1.0), 3, [1, 0, 2, 1, 2, 0]),
        ((5.0, 4.0, 3.0, 2.0, 1.0), 2, [1, 1, 0, 0, 0]),
    ],
)
def test_classes_are_labels_in_order_or_equal_ranks(labels: tuple[float, ...], k: int, classes: list[int]) -> None:
    assert classes_of(with_labels(*labels), k).tolist() == classes


def test_one_hot_rows_have_a_single_one() -> None:
    assert one_hot(torch.tensor([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(
    ("name", "k", "message"),
    [
        ("square", 0, "square loss needs at least 1 output, got --k 0"),
        ("logistic", 2, "logistic loss needs exactly 1 output, got --k 2"),
        ("cross-entropy", 1, "cross-entropy loss needs at least 2 outputs, got --k 1"),
    ],
)
def test_a_loss_must_fit_the_number_of_outputs(name: str, k: int, message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        loss_named(name).check(k)
    for good in {"square": (1, 7), "logistic": (1,), "cross-entropy": (2, 10)}[name]:
        loss_named(name).check(good)


@pytest.mark.parametrize(
    ("name", "stops_at", "step"), [("square", 1e-12, 1e-5), ("logistic", 1e-2, 1e-3), ("cross-entropy", 1e-2, 1e-3)]
)
def test_training_ends_and_steps_as_in_appendix_d(name: str, stops_at: float, step: float) -> None:
    assert (LOSSES[name].stops_at, LOSSES[name].paper_step) == (stops_at, step)


def test_an_unknown_loss_suggests_the_nearest() -> None:
    with pytest.raises(ExhumeError, match=r"unknown loss 'logistics'\. Did you mean 'logistic'"):
        loss_named("logistics")


@pytest.mark.parametrize("name", LOSSES)
def test_only_the_square_loss_ends_at_the_labels(name: str) -> None:
    """The minimum over outputs is at the targets, or nowhere."""
    loss = LOSSES[name]
    y = loss.targets(LABELS, loss.least_outputs)
    f = y.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss.value(f, y), f)
    assert loss.fits_labels == bool((slope == 0).all())
