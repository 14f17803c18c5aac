"""The damping: down by three, up by six, within bounds."""

from __future__ import annotations

import pytest

from exhume.linalg.levenberg import FIRST_DAMPING, next_damping


def test_a_gain_divides_by_three_and_a_loss_multiplies_by_six() -> None:
    assert next_damping(0.3, better=True) == pytest.approx(0.1)
    assert next_damping(0.3, better=False) == pytest.approx(1.8)


@pytest.mark.parametrize(("better", "bound"), [(True, 1e-9), (False, 1e6)])
def test_the_bounds_are_reached_and_kept(better: bool, bound: float) -> None:
    damping = FIRST_DAMPING
    for _ in range(100):
        damping = next_damping(damping, better=better)
    assert damping == bound
    assert next_damping(damping, better=not better) == pytest.approx(bound * 6 if better else bound / 3)
