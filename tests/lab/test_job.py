"""Keys of jobs: the content of their settings, on every machine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from exhume.attacks import GaussNewton, attack_named
from exhume.data import DataRequest
from exhume.knowledge import Knowledge
from exhume.lab.job import TrialJob, key_of
from exhume.lab.trial import Trial

TRIAL = Trial(DataRequest("sphere", n=4, d=10))


def test_a_key_depends_on_every_setting_and_on_nothing_else(tmp_path: Path) -> None:
    changes = [
        {"seed": 1}, {"ratio": 5.0}, {"p": 100}, {"victim": "two-layer"}, {"ridge": 0.1}, {"knowledge": Knowledge(n=True)},
        {"attack": GaussNewton(starts=2)}, {"attack": attack_named("projection-gd")},
        {"attack": attack_named("projection-gd", max_steps=7)}, {"data": DataRequest("sphere", n=5, d=10)},
        {"data": DataRequest("sphere", n=4, d=10, rank=3)},
    ]  # fmt: skip
    keys = [key_of(TrialJob(replace(TRIAL, **change))) for change in ({}, *changes)]  # type: ignore[arg-type]
    assert len(set(keys)) == len(keys)
    assert key_of(TrialJob(TRIAL, keep=True)) not in keys
    photographs = Trial(DataRequest("cifar10", n=4))
    elsewhere = replace(photographs, data=replace(photographs.data, data_dir=tmp_path))
    assert key_of(TrialJob(elsewhere)) == key_of(TrialJob(photographs))
    own = tmp_path / "rows.npz"
    own.write_bytes(b"one")
    mine = TrialJob(replace(TRIAL, data=DataRequest("file", data_file=own)))
    before = key_of(mine)
    own.write_bytes(b"two")
    assert key_of(mine) != before


def test_a_key_is_the_same_in_another_process() -> None:
    code = (
        "from exhume.lab.job import TrialJob, key_of; from exhume.lab.trial import Trial; from exhume.data import DataRequest;"
        "print(key_of(TrialJob(Trial(DataRequest('sphere', n=4, d=10)))))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "77"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == key_of(TrialJob(TRIAL))
