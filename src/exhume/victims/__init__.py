"""What gets attacked: trained models as a `Release`, with the truth kept apart."""

from exhume.victims.network import NetworkVictim, train_network
from exhume.victims.random_features import RandomFeaturesVictim, Trained, train_random_features
from exhume.victims.registry import VICTIMS
from exhume.victims.targets import LOSSES

__all__ = ["LOSSES", "VICTIMS", "NetworkVictim", "RandomFeaturesVictim", "Trained", "train_network", "train_random_features"]
