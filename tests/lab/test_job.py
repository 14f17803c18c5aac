"""Keys, the store and the statistics of the lab."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from exhume.attacks import GaussNewton, attack_named
from exhume.data import DataRequest, load
from exhume.errors import ExhumeError
from exhume.figures import FIGURES, SCALES
from exhume.figures.statistics import threshold, threshold_interval, wilson
from exhume.knowledge import Knowledge
from exhume.lab.job import TrialJob, key_of
from exhume.lab.store import Store
from exhume.lab.trial import Trial

TRIAL = Trial(DataRequest("sphere", n=4, d=10))
RECORD = {"kind": "trial", "settings": {}, "row": {"rho": 0.5}, "provenance": {"wall_seconds": 1.0}}


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


def test_the_store_keeps_the_first_and_reads_it_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "lab")
    assert not store.has("a")
    store.fail("a", {"settings": {}, "error": "no"})
    assert [one["error"] for one in store.failures()] == ["no"]
    store.put("a", RECORD, {"x": torch.arange(3.0)})
    store.put("a", RECORD | {"row": {"rho": 0.1}}, {})
    assert store.failures() == []
    assert store.record("a")["row"] == {"rho": 0.5}
    assert torch.equal(store.tensors("a")["x"], torch.arange(3.0))
    assert store.keys() == ["a"]
    assert [path.name for path in (store.root / "jobs").iterdir()] == ["a"]


def test_one_run_at_a_time_and_a_damaged_record_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.locked(), pytest.raises(ExhumeError, match="another run"), Store(tmp_path).locked():
        pass
    store.put("a", RECORD, {})
    (tmp_path / "jobs" / "a" / "record.json").write_text("{")
    with pytest.raises(ExhumeError, match="cannot be read"):
        store.records()


def test_sweeping_removes_leftovers_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a", RECORD, {})
    (tmp_path / "jobs" / ".b.1234").mkdir()
    store.fail("c", {"settings": {}, "error": "no"})
    assert store.sweep() == 2
    assert store.keys() == ["a"]
    assert store.failures() == []


@pytest.mark.parametrize(("good", "total", "low", "high"), [(5, 10, 0.2366, 0.7634), (0, 10, 0.0, 0.2775), (20, 20, 0.8389, 1.0)])
def test_wilson_interval(good: int, total: int, low: float, high: float) -> None:
    assert wilson(good, total) == pytest.approx((low, high), abs=1e-4)


def test_threshold_finds_the_ratio_at_one_half() -> None:
    generator = np.random.default_rng(0)
    ratios = np.repeat(np.geomspace(0.5, 8, 9), 40)
    seeds = np.tile(np.arange(40), 9)
    outcome = generator.random(ratios.shape) < 1 / (1 + np.exp(-6 * (np.log(ratios) - np.log(1.7))))
    at = threshold(ratios, outcome)
    assert at == pytest.approx(1.7, rel=0.1)
    interval = threshold_interval(ratios, outcome, seeds)
    assert interval is not None
    assert interval[0] < 1.7 < interval[1]
    assert interval[1] / interval[0] < 1.5
    assert threshold(ratios, ratios > 0) is None
    assert threshold(np.array([1.0, 2.0, 3.0, 6.0]), np.array([False, True, False, False])) is None  # no crossing upwards
    assert threshold(np.array([1.0, 2.0, 3.0]), np.array([False, False, True])) == pytest.approx(6**0.5, rel=0.05)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_jobs_at_both_scales(name: str) -> None:
    quick, paper = (FIGURES[name].jobs(scale) for scale in SCALES)
    assert quick
    assert paper
    assert FIGURES[name].departs
    work = [sum(job.flops() for job in jobs) for jobs in (quick, paper)]
    assert 0 < work[0] < work[1]


def test_rows_of_low_rank_lie_in_a_subspace() -> None:
    data = load(DataRequest("sphere", n=12, d=20, rank=3))
    assert int(torch.linalg.matrix_rank(data.rows)) == 3
    assert torch.allclose(data.rows.norm(dim=1), torch.full((12,), 20.0, dtype=torch.float64).sqrt())
    with pytest.raises(ExhumeError, match="rank 21"):
        load(DataRequest("sphere", n=12, d=20, rank=21))


def test_photographs_are_averaged_down(cifar10_file: Path) -> None:
    whole = load(DataRequest("cifar10", n=4, data_dir=cifar10_file))
    small = load(DataRequest("cifar10", n=4, size=8, data_dir=cifar10_file.parent))
    assert small.shape == (3, 8, 8)
    pooled = torch.nn.functional.avg_pool2d(whole.raw(whole.rows).reshape(4, 3, 32, 32), 4).reshape(4, -1)
    assert torch.allclose(small.raw(small.rows), pooled)
    with pytest.raises(ExhumeError, match="divisor of 32"):
        load(DataRequest("cifar10", n=4, size=5, data_dir=cifar10_file))
