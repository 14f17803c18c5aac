"""exhume: rebuild a model's training data from its released weights, with proof of how sure we are."""

from typing import TYPE_CHECKING

from exhume.version import __version__

if TYPE_CHECKING:
    from exhume.api import audit, evaluate, law, mitigate, reconstruct, train
    from exhume.attacks import ATTACKS, Attack, GaussNewton, Progress, Resources, Subspace, attack_named, register
    from exhume.auditing import Audit, Ladder, RandomFeatureMap
    from exhume.data import DataRequest, Dataset, load, load_dataset, save_dataset
    from exhume.errors import ExhumeError
    from exhume.knowledge import Facts, Knowledge
    from exhume.lab import Trial, TrialResult, run_trial
    from exhume.prediction.expectation import Expectation
    from exhume.release import Release, load_release, save_release
    from exhume.report import write_audit, write_ladder
    from exhume.result import Certificate, Reconstruction, Status, load_reconstruction, save_reconstruction
    from exhume.score import Score
    from exhume.victims import NetworkVictim, RandomFeaturesVictim, Trained

__all__ = [
    "ATTACKS",
    "Attack",
    "Audit",
    "Certificate",
    "DataRequest",
    "Dataset",
    "ExhumeError",
    "Expectation",
    "Facts",
    "GaussNewton",
    "Knowledge",
    "Ladder",
    "NetworkVictim",
    "Progress",
    "RandomFeatureMap",
    "RandomFeaturesVictim",
    "Reconstruction",
    "Release",
    "Resources",
    "Score",
    "Status",
    "Subspace",
    "Trained",
    "Trial",
    "TrialResult",
    "__version__",
    "attack_named",
    "audit",
    "evaluate",
    "law",
    "load",
    "load_dataset",
    "load_reconstruction",
    "load_release",
    "mitigate",
    "reconstruct",
    "register",
    "run_trial",
    "save_dataset",
    "save_reconstruction",
    "save_release",
    "train",
    "write_audit",
    "write_ladder",
]

# Where each public name lives. They are imported on first use: `exhume --help` must not wait for torch.
_HOMES = {
    "exhume.api": ("audit", "evaluate", "law", "mitigate", "reconstruct", "train"),
    "exhume.attacks": ("ATTACKS", "Attack", "GaussNewton", "Progress", "Resources", "Subspace", "attack_named", "register"),
    "exhume.auditing": ("Audit", "Ladder", "RandomFeatureMap"),
    "exhume.data": ("DataRequest", "Dataset", "load", "load_dataset", "save_dataset"),
    "exhume.errors": ("ExhumeError",),
    "exhume.knowledge": ("Facts", "Knowledge"),
    "exhume.lab": ("Trial", "TrialResult", "run_trial"),
    "exhume.prediction.expectation": ("Expectation",),
    "exhume.release": ("Release", "load_release", "save_release"),
    "exhume.report": ("write_audit", "write_ladder"),
    "exhume.result": ("Certificate", "Reconstruction", "Status", "load_reconstruction", "save_reconstruction"),
    "exhume.score": ("Score",),
    "exhume.victims": ("NetworkVictim", "RandomFeaturesVictim", "Trained"),
}


if not TYPE_CHECKING:  # a checker must see that a name does not exist

    def __getattr__(name):
        """The public object of that name, imported now."""
        import importlib

        for home, names in _HOMES.items():
            if name in names:
                return getattr(importlib.import_module(home), name)
        raise AttributeError(f"module 'exhume' has no attribute {name!r}")
