"""What gets attacked: trained models as a `Release`, with the truth kept apart."""

from exhume.victims.random_features import RandomFeaturesVictim, train_random_features
from exhume.victims.registry import VICTIMS, Trained

__all__ = ["VICTIMS", "RandomFeaturesVictim", "Trained", "train_random_features"]
