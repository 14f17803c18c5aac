"""exhume: rebuild a model's training data from its released weights, with proof of how sure we are."""

from typing import Any

__version__ = "0.1.0"
_PUBLIC = {
    "Release": "exhume.release",
    "load_release": "exhume.release",
    "save_release": "exhume.release",
    "Reconstruction": "exhume.result",
    "Status": "exhume.result",
    "GaussNewton": "exhume.attacks",
    "Subspace": "exhume.attacks",
    "attack_named": "exhume.attacks",
    "RandomFeaturesVictim": "exhume.victims",
    "train_random_features": "exhume.victims",
    "NetworkVictim": "exhume.victims",
    "train_network": "exhume.victims",
    "Dataset": "exhume.data",
    "DataRequest": "exhume.data",
    "load": "exhume.data",
    "evaluate": "exhume.score",
    "audit": "exhume.auditing",
    "Knowledge": "exhume.auditing",
    "RandomFeatureMap": "exhume.auditing",
    "Cell": "exhume.lab",
    "run_trial": "exhume.lab",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    """Public names are imported on first use: `exhume --help` must not wait for torch."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'exhume' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_PUBLIC[name]), name)
