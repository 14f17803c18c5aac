"""When a search counts as stalled, and by how many rows it then grows: a table."""

from __future__ import annotations

import pytest

from exhume.attacks.search.pace import Pace

PACE = Pace(patience=3, gain=0.5, growth=0.25, least=2)


@pytest.mark.parametrize(
    ("losses", "stalled"),
    [
        ((), False),
        ((1.0, 1.0, 1.0), False),  # three losses are two steps
        ((1.0, 1.0, 1.0, 1.0), True),
        ((1.0, 0.9, 0.7, 0.51), True),
        ((1.0, 0.9, 0.7, 0.5), False),  # the promised gain, exactly
        ((1.0, 0.1, 0.1, 0.1, 0.1), True),  # what came before the last three steps does not count
        ((0.1, 1.0, 0.8, 0.6, 0.4), False),
        ((1.0, 0.4, 0.4, 2.0), True),
        ((1.0, 1.0, 1.0, 0.0), False),
    ],
)
def test_stalled_is_too_little_gain_over_the_last_steps(losses: tuple[float, ...], stalled: bool) -> None:
    assert PACE.stalled(losses) is stalled


@pytest.mark.parametrize(("rows", "added"), [(0, 2), (1, 2), (8, 2), (11, 2), (12, 3), (100, 25)])
def test_rows_are_added_by_share_and_at_least_a_few(rows: int, added: int) -> None:
    assert PACE.added(rows) == added


def test_a_pace_without_growth_adds_nothing() -> None:
    assert Pace(patience=1, gain=0.5).added(1000) == 0
