"""Success rates with their uncertainty: Wilson intervals, and the ratio at which half of the runs succeed."""

from __future__ import annotations

import numpy as np
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression

_RESAMPLES = 400
# Perfectly separated outcomes have no finite slope: this little weight on gentle ones gives them the middle of the gap.
_SLOPE_PRIOR = 5000.0


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95% Wilson interval of a success probability."""
    interval = binomtest(successes, trials).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def threshold(ratios: np.ndarray, succeeded: np.ndarray) -> float | None:
    """The ratio at which a logistic curve in log(ratio), fitted to 0/1 outcomes, crosses 1/2; None outside the ratios tried."""
    if succeeded.all() or not succeeded.any():
        return None
    fit = LogisticRegression(C=_SLOPE_PRIOR, tol=1e-8, max_iter=1000).fit(np.log(ratios)[:, None], succeeded)
    slope, offset = float(fit.coef_[0, 0]), float(fit.intercept_[0])
    at = float(np.exp(-offset / slope)) if slope > 0 else np.inf
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
