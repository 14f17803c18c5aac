"""Trials: train, attack, score; one attack or several."""

from exhume.lab.compare import Comparison, compare
from exhume.lab.trial import Cell, TrialResult, run_trial

__all__ = ["Cell", "Comparison", "TrialResult", "compare", "run_trial"]
