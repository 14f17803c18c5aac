"""Processes that share the features of one run: the same rows, and a process that dies ends it without loss."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from exhume.release import save_release
from exhume.result import load_reconstruction
from support.problems import small_sphere, trained


@pytest.fixture
def release(tmp_path: Path) -> Path:
    path = tmp_path / "release.safetensors"
    save_release(trained(small_sphere(d=60, n=30), ratio=10), path)
    return path


def run(release: Path, out: Path, *options: str, processes: int = 1, wait: bool = True) -> subprocess.Popen:
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m"]
    command = [*(start if processes > 1 else [sys.executable, "-m"]), "exhume", "reconstruct", str(release), "--out", str(out)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.Popen([*command, *options], env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if wait:
        _, errors = done.communicate(timeout=300)
        assert done.returncode == 0, errors
    return done


def test_two_processes_find_the_rows_of_one(release: Path, tmp_path: Path) -> None:
    run(release, tmp_path / "one")
    run(release, tmp_path / "two", processes=2)
    one, two = (load_reconstruction(tmp_path / name) for name in ("one", "two"))
    assert one.certified
    assert two.certified
    assert torch.cdist(one.rows, two.rows).min(dim=1).values.max() < 1e-6


def test_a_process_that_dies_ends_the_run_and_another_number_goes_on(release: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.ckpt"
    started = run(release, tmp_path / "guess", "--checkpoint", str(checkpoint), processes=2, wait=False)
    for _ in range(600):
        if checkpoint.exists():
            break
        time.sleep(0.05)
    workers = subprocess.run(["pgrep", "-P", str(started.pid)], capture_output=True, text=True, check=False).stdout.split()
    assert len(workers) == 2
    os.kill(int(workers[-1]), signal.SIGKILL)
    _, errors = started.communicate(timeout=120)
    assert started.returncode != 0
    assert "a process of the team has ended" in errors
    assert checkpoint.exists()
    run(release, tmp_path / "guess", "--checkpoint", str(checkpoint))
    run(release, tmp_path / "whole")
    resumed, whole = (load_reconstruction(tmp_path / name) for name in ("guess", "whole"))
    assert resumed.certified
    assert torch.cdist(resumed.rows, whole.rows).min(dim=1).values.max() < 1e-6
