"""What every registered attack must keep, by being registered; and what the default attack keeps besides."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from exhume.attacks import ATTACKS, GaussNewton, Progress, Resources
from exhume.release import save_release
from exhume.storage.checkpoint import FORMAT
from exhume.storage.tensor_file import read_tensors, write_tensors
from support import attack_contract as contract
from support.problems import small_sphere, trained

every_attack = pytest.mark.parametrize("name", ATTACKS)


@every_attack
def test_an_attack_is_a_frozen_record(name: str) -> None:
    contract.is_a_frozen_record(name)


@every_attack
def test_it_says_whether_it_applies(name: str) -> None:
    contract.says_whether_it_applies(name)


@every_attack
def test_same_seed_same_rows_and_progress_is_reported(name: str) -> None:
    contract.gives_the_same_rows_for_a_seed_and_reports_progress(name)


@every_attack
def test_an_interrupted_run_ends_in_the_same_rows(name: str, tmp_path: Path) -> None:
    contract.ends_in_the_same_rows_when_interrupted(name, tmp_path)


@every_attack
def test_a_checkpoint_of_another_run_is_refused(name: str, tmp_path: Path) -> None:
    contract.refuses_the_checkpoint_of_another_run(name, tmp_path)


@every_attack
def test_it_stops_when_its_work_is_spent(name: str) -> None:
    contract.stops_when_its_work_is_spent(name)


@every_attack
def test_results_survive_a_file(name: str, tmp_path: Path) -> None:
    contract.survives_a_file(name, tmp_path)


@every_attack
@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_too_few_equations_are_never_certified(name: str, ratio: float) -> None:
    contract.never_certifies_too_few_equations(name, ratio)


def test_a_search_over_windows_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    release = trained(small_sphere(d=800, n=4), ratio=6, dtype=torch.float32)
    whole = GaussNewton().run(release)
    resources, stops = Resources(checkpoint=tmp_path / "run.ckpt"), 0

    def stop(now: Progress) -> None:
        nonlocal stops
        stops += 1
        if stops in (2, 5, 9):
            raise KeyboardInterrupt

    for _ in range(4):
        with contextlib.suppress(KeyboardInterrupt):
            resumed = GaussNewton().run(release, watch=stop, resources=resources)
    assert resumed.certified
    assert torch.cdist(resumed.rows, whole.rows).min(dim=1).values.max() < 1e-3
    assert len(resumed.curve.loss) == len(whole.curve.loss)


def test_killed_at_any_time_a_run_loses_one_step_at_most(tmp_path: Path) -> None:
    """SIGKILL, not Ctrl-C: what was finished is in the file. Steps that are quicker than twenty saves are kept in bundles."""
    save_release(release := trained(small_sphere(d=200, n=40), ratio=4, dtype=torch.float32), tmp_path / "release")
    checkpoint, told = tmp_path / "run.ckpt", tmp_path / "steps"
    started = subprocess.Popen([sys.executable, "-c", _WATCHED, tmp_path / "release", checkpoint, told])
    while started.poll() is None and (not told.exists() or len(told.read_text().splitlines()) < 12):
        time.sleep(0.01)
    started.kill()
    started.wait()
    reported = [float(line[:-1]) for line in told.read_text().splitlines() if line.endswith(";")]  # the last may be torn
    tensors, header = read_tensors(checkpoint, "checkpoint", FORMAT)
    kept = header["values"]["course"]["curve"]["seconds"]
    began = time.monotonic()
    write_tensors(tmp_path / "copy", tensors, header)
    bundle = max(0.5, 2 * 20 * (time.monotonic() - began))  # a disk that is busy makes saves slow, and these twice as slow as now
    assert len(kept) >= len(reported) - 1 or kept[-1] > reported[-1] - bundle
    resumed = GaussNewton().run(release, resources=Resources(checkpoint=checkpoint))
    assert resumed.certified
    assert list(resumed.curve.seconds[: len(kept)]) == kept
    whole = GaussNewton().run(release)
    apart = torch.cdist(resumed.rows, whole.rows).min(dim=1).values.max()
    assert apart < 1e-3 * whole.rows.norm(dim=1).max()  # float32


_WATCHED = """
import sys
from pathlib import Path
from exhume.attacks import attack_named
from exhume.attacks import Resources
from exhume.release import load_release
def watch(now):
    with open(sys.argv[3], "a") as told:
        told.write(f"{now.seconds:.3f};\\n")
attack_named("gauss-newton").run(load_release(Path(sys.argv[1])), watch=watch, resources=Resources(checkpoint=Path(sys.argv[2])))
"""
