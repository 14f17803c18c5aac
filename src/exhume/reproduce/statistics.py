"""Success rates with their uncertainty: Wilson intervals, and the ratio at which half of the runs succeed."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

_Z = 1.959963984540054  # 95%
_RESAMPLES = 400


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95% Wilson interval of a success probability."""
    if trials == 0:
        return 0.0, 1.0
    share, z2 = successes / trials, _Z**2
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z / (1 + z2 / trials) * np.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def threshold(ratios: np.ndarray, succeeded: np.ndarray) -> float | None:
    """The ratio at which a logistic curve in log(ratio), fitted to 0/1 outcomes, crosses 1/2; None outside the ratios tried."""
    if succeeded.all() or not succeeded.any():
        return None
    x, y = np.log(ratios), succeeded.astype(float)

    def loss(parameters: np.ndarray) -> float:
        slope = np.exp(np.clip(parameters[1], -5, 5))
        z = slope * (x - parameters[0])
        # A little weight on gentle slopes: perfectly separated outcomes would otherwise have no finite fit.
        return float(np.logaddexp(0, -z)[y == 1].sum() + np.logaddexp(0, z)[y == 0].sum() + 1e-4 * slope**2)

    start = np.array([(x[y == 1].min() + x[y == 0].max()) / 2, 1.5])
    at = float(np.exp(minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-8}).x[0]))
    return at if ratios.min() <= at <= ratios.max() else None


def threshold_interval(ratios: np.ndarray, succeeded: np.ndarray, groups: np.ndarray) -> tuple[float, float] | None:
    """The 95% interval of the threshold by resampling whole groups (seeds); None where too few resamples have a threshold."""
    generator = np.random.default_rng(0)
    names = np.unique(groups)
    found = []
    for _ in range(_RESAMPLES):
        chosen = generator.choice(names, len(names))
        rows = np.concatenate([np.flatnonzero(groups == name) for name in chosen])
        at = threshold(ratios[rows], succeeded[rows])
        if at is not None:
            found.append(at)
    if len(found) < _RESAMPLES / 2:
        return None
    return float(np.quantile(found, 0.025)), float(np.quantile(found, 0.975))
