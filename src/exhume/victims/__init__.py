"""What gets attacked: trained models as a `Release`, with the truth kept apart."""

from exhume.victims.interface import Trained, Victim
from exhume.victims.losses import LOSSES
from exhume.victims.network import NetworkVictim
from exhume.victims.random_features import RandomFeaturesVictim
from exhume.victims.registry import VICTIMS, VictimSettings, make_victim

__all__ = [
    "LOSSES",
    "VICTIMS",
    "NetworkVictim",
    "RandomFeaturesVictim",
    "Trained",
    "Victim",
    "VictimSettings",
    "make_victim",
]
