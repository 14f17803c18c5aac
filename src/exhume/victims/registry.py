"""The victims by name."""

from __future__ import annotations

from exhume.victims.random_features import RandomFeaturesVictim, Trained

VICTIMS = {"rf": RandomFeaturesVictim}
__all__ = ["VICTIMS", "Trained"]
