"""Experiments: one trial, several attacks on one victim, grids of jobs and where they are stored."""

from exhume.lab.compare import Comparison, compare
from exhume.lab.trial import Trial, TrialResult, attack_victim, run_trial, train_victim

__all__ = ["Comparison", "Trial", "TrialResult", "attack_victim", "compare", "run_trial", "train_victim"]
