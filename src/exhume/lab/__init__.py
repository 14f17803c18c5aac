"""Trials: train, attack, score."""

from exhume.lab.trial import Cell, TrialResult, run_trial

__all__ = ["Cell", "TrialResult", "run_trial"]
