"""Signs from linear equations: s in {0, 1}^m with A s = b."""

from __future__ import annotations

import numpy as np

# How exactly the equations must hold, relative to the longest column: tried in turn, since b carries the fit's error.
_TOLERANCES = (1e-6, 1e-4, 1e-2)


def solve_binary(A: np.ndarray, b: np.ndarray, *, seconds: float) -> np.ndarray | None:
    """A 0/1 vector with A s = b by branch and bound, or None when none is found within the time limit per tolerance.

    A feasibility problem: with fewer equations than unknowns a least-squares solution would be fractional, yet the 0/1
    solution is generically unique as long as b is known to more digits than there are choices.
    """
    scale = float(np.linalg.norm(A, axis=0).max())
    rows, right = A / scale, b / scale
    if A.shape[0] >= A.shape[1]:
        rounded = nearest_binary(rows, right)
        if np.abs(rows @ rounded - right).max() <= _TOLERANCES[0]:
            return rounded
        q, rows = np.linalg.qr(rows)  # fewer equations, same solutions
        right = q.T @ right
    from scipy import optimize  # 40 MB that most problems do not need

    for tolerance in _TOLERANCES:
        found = optimize.milp(
            np.zeros(A.shape[1]),
            constraints=optimize.LinearConstraint(rows, right - tolerance, right + tolerance),
            integrality=np.ones(A.shape[1]),
            bounds=optimize.Bounds(0, 1),
            options={"time_limit": seconds},
        )
        if found.x is not None:
            return np.round(found.x).astype(int)
    return None


def nearest_binary(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The least-squares solution of A s = b, rounded to 0 and 1: a guess where b is noisy."""
    guess: np.ndarray = np.round(np.linalg.lstsq(A, b, rcond=None)[0]).clip(0, 1).astype(int)
    return guess
