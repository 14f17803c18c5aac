from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exhume.linalg.binary_equations import solve_binary


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(30, 12), (20, 30), (30, 50)]))
def test_signs_are_found_also_with_fewer_equations_than_signs(seed: int, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    A, s = rng.standard_normal(shape), rng.integers(0, 2, shape[1])
    found = solve_binary(A, A @ s + 1e-9 * rng.standard_normal(shape[0]), seconds=20)
    assert found is not None
    assert found.tolist() == s.tolist()


def test_no_solution_is_said_so() -> None:
    assert solve_binary(np.eye(3), np.full(3, 0.5), seconds=5) is None


def test_dependent_columns_are_resolved_by_the_constraint() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20, 8))
    A[:, 7] = -A[:, :7].sum(1)  # rows that sum to zero, as standardised data have
    s = np.array([1, 0, 0, 1, 1, 0, 1, 0])
    assert solve_binary(A, A @ s, seconds=5) == pytest.approx(s)
