"""The Levenberg-Marquardt rule: how the damping of a Gauss-Newton step follows from whether the last one helped."""

from __future__ import annotations

# All values were set by hand on the sphere problems of benchmarks/bars.py.
FIRST_DAMPING = 0.1
_SMALLEST = 1e-9
_LARGEST = 1e6
_AFTER_GAIN = 3  # the damping is divided by this
_AFTER_LOSS = 6  # the damping is multiplied by this


def next_damping(damping: float, *, better: bool) -> float:
    """A third of the damping after a step that lowered the loss, six times it after one that did not, within bounds."""
    return max(damping / _AFTER_GAIN, _SMALLEST) if better else min(damping * _AFTER_LOSS, _LARGEST)
