"""Release -> Reconstruction. One file per method; never sees truth."""

from exhume.attacks.gauss_newton import GaussNewton
from exhume.attacks.gradient_matching.descent import GradientMatching
from exhume.attacks.interface import Attack, Progress, Proposal, Resources, Watch, ignore
from exhume.attacks.registry import ATTACKS, attack_named, register, settings_of
from exhume.attacks.subspace import Subspace

__all__ = [
    "ATTACKS",
    "Attack",
    "GaussNewton",
    "GradientMatching",
    "Progress",
    "Proposal",
    "Resources",
    "Subspace",
    "Watch",
    "attack_named",
    "ignore",
    "register",
    "settings_of",
]
