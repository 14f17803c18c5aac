"""Rows of a release and inputs of a model, there and back."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.auditing import AuditInputs, Subject, subject_of
from support.audit_cases import pipeline_case, reconstruction
from support.models import digit_pictures, two_layer


def subject(*, stretch: float, constant: bool) -> Subject:
    return replace(pipeline_case()[0], stretch=stretch, constant=constant)


def test_rows_are_stretched_inputs_with_a_one_for_the_bias() -> None:
    x = torch.tensor([[1.0, 2.0], [0.0, -4.0]], dtype=torch.float64)
    assert subject(stretch=3.0, constant=False).rows_for(x).tolist() == [[3.0, 6.0], [0.0, -12.0]]
    assert subject(stretch=3.0, constant=True).rows_for(x).tolist() == [[3.0, 6.0, 3.0], [0.0, -12.0, 3.0]]


@pytest.mark.parametrize("length", [1.0, 0.2, 50.0, 1e-6])
@pytest.mark.parametrize("constant", [True, False])
def test_inputs_come_back_and_a_constant_tells_their_length(constant: bool, length: float) -> None:
    one, x = subject(stretch=3.0, constant=constant), torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).double()
    back = one.inputs_from(reconstruction(length * one.rows_for(x), scale="known norm"))
    torch.testing.assert_close(back.rows, x if constant else length * x)  # without it a wrong length stays wrong
    assert back.scale == ("from the bias" if constant else "known norm")


def test_a_row_without_a_readable_constant_keeps_its_own_length() -> None:
    one = subject(stretch=2.0, constant=True)
    rows = [[4.0, 6.0, 0.0], [4.0, 6.0, -1.0], [4.0, 6.0, 1e-9], [4.0, 6.0, 2.0]]
    back = one.inputs_from(reconstruction(rows))
    assert back.rows.tolist() == [[2.0, 3.0], [2.0, 3.0], [2.0, 3.0], [2.0, 3.0]]


def test_a_row_of_zeros_stays_finite() -> None:
    back = subject(stretch=2.0, constant=True).inputs_from(reconstruction([[0.0, 0.0, 0.0]]))
    assert back.rows.tolist() == [[0.0, 0.0]]


def test_lengths_are_read_off_biases_that_are_small_against_the_inputs() -> None:
    X, y = digit_pictures(4)
    one, _ = subject_of(AuditInputs(two_layer(), (4200 * X, y)))
    exact = reconstruction(one.rows_for(one.truth.rows))
    torch.testing.assert_close(one.inputs_from(exact).rows, one.truth.rows)
