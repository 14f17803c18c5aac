"""What every registered attack must keep, by being registered."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from exhume.attacks import ATTACKS, Progress, Resources, attack_named
from exhume.errors import ExhumeError
from exhume.release import Release, save_release
from exhume.result import Reconstruction, Status, load_reconstruction, save_reconstruction
from exhume.storage.checkpoint import FORMAT
from exhume.storage.tensor_file import read_tensors
from exhume.victims import NetworkVictim
from support.problems import small_sphere, trained

DESCENTS = ("projection-gd", "kkt", "kkt-multiclass", "ntk")
NETWORKS_ONLY = ("subspace", "kkt", "kkt-multiclass", "ntk")


def attack(name: str) -> object:
    return attack_named(name, **({"max_steps": 400} if name in DESCENTS else {}))


def victim(name: str, *, n: int, ratio: float) -> Release:
    data = small_sphere(d=20, n=n)
    if name in NETWORKS_ONLY:
        k = 1 if name == "kkt" else 2
        return NetworkVictim("two-layer", round(ratio * 20 * n), k=k).train(data).release
    return trained(data, ratio=ratio)


@pytest.fixture
def release(name: str) -> Release:
    return victim(name, n=5, ratio=6)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_a_frozen_record(name: str) -> None:
    one = attack(name)
    assert dataclasses.is_dataclass(one)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.rows = 3
    with pytest.raises(ExhumeError, match="does not take --no-such-setting"):
        attack_named(name, no_such_setting=1)


@pytest.mark.parametrize("name", ATTACKS)
def test_same_seed_same_rows_and_progress_is_reported(name: str, release: Release) -> None:
    seen: list[Progress] = []
    first = attack(name).run(release, seed=1, watch=seen.append)
    again = attack(name).run(release, seed=1)
    assert torch.equal(first.rows, again.rows)
    assert seen
    assert all(b.passes >= a.passes for a, b in itertools.pairwise(seen))
    assert seen[-1].loss == pytest.approx(first.curve.loss[-1])


@pytest.mark.parametrize("name", ATTACKS)
def test_an_interrupted_run_ends_in_the_same_rows(name: str, release: Release, tmp_path: Path) -> None:
    whole = attack(name).run(release, seed=2)
    resources = Resources(checkpoint=tmp_path / "run.ckpt")
    stops = {"count": 0}

    def stop(now: Progress) -> None:
        stops["count"] += 1
        if stops["count"] % 3 == 0:  # at the third report of every go
            raise KeyboardInterrupt

    for _ in range(200):
        try:
            resumed = attack(name).run(release, seed=2, watch=stop, resources=resources)
            break
        except KeyboardInterrupt:
            assert resources.checkpoint is not None
            assert resources.checkpoint.exists()
    assert stops["count"] > 3
    torch.testing.assert_close(resumed.rows, whole.rows, rtol=1e-12, atol=1e-12)  # sums may round by where memory lies
    assert resumed.curve.loss == pytest.approx(whole.curve.loss)
    assert not resources.checkpoint.exists()


@pytest.mark.parametrize("name", ATTACKS)
def test_a_checkpoint_of_another_run_is_refused(name: str, release: Release, tmp_path: Path) -> None:
    resources = Resources(checkpoint=tmp_path / "run.ckpt")

    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attack(name).run(release, seed=0, watch=stop, resources=resources)
    with pytest.raises(ExhumeError, match="belongs to another run"):
        attack(name).run(release, seed=1, resources=resources)


@pytest.mark.parametrize("name", ATTACKS)
def test_results_survive_a_file(name: str, release: Release, tmp_path: Path) -> None:
    guess = attack(name).run(release, seed=0)
    save_reconstruction(guess, tmp_path / "guess.safetensors")
    back = load_reconstruction(tmp_path / "guess.safetensors")
    assert torch.equal(back.rows, guess.rows)
    for field in dataclasses.fields(Reconstruction):
        if field.name != "rows":
            assert getattr(back, field.name) == getattr(guess, field.name)


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_too_few_equations_are_never_certified(name: str, ratio: float) -> None:
    guess = attack(name).run(victim(name, n=8, ratio=ratio), seed=0)
    assert guess.status in (Status.STALLED, Status.UNCERTIFIED)
    assert guess.reason


def test_a_search_over_windows_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    release = trained(small_sphere(d=800, n=4), ratio=6, dtype=torch.float32)
    whole = attack("gauss-newton").run(release)
    resources, stops = Resources(checkpoint=tmp_path / "run.ckpt"), 0

    def stop(now: Progress) -> None:
        nonlocal stops
        stops += 1
        if stops in (2, 5, 9):
            raise KeyboardInterrupt

    for _ in range(4):
        with contextlib.suppress(KeyboardInterrupt):
            resumed = attack("gauss-newton").run(release, watch=stop, resources=resources)
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
    _, header = read_tensors(checkpoint, "checkpoint", FORMAT)
    kept = header["values"]["course"]["curve"]["seconds"]
    assert len(kept) >= len(reported) - 1 or kept[-1] > reported[-1] - 0.5
    resumed = attack("gauss-newton").run(release, resources=Resources(checkpoint=checkpoint))
    assert resumed.certified
    assert list(resumed.curve.seconds[: len(kept)]) == kept
    whole = attack("gauss-newton").run(release)
    apart = torch.cdist(resumed.rows, whole.rows).min(dim=1).values.max()
    assert apart < 1e-3 * whole.rows.norm(dim=1).max()  # float32


_WATCHED = """
import sys
from pathlib import Path
from exhume.attacks import attack_named
from exhume.attacks.interface import Resources
from exhume.release import load_release
def watch(now):
    with open(sys.argv[3], "a") as told:
        told.write(f"{now.seconds:.3f};\\n")
attack_named("gauss-newton").run(load_release(Path(sys.argv[1])), watch=watch, resources=Resources(checkpoint=Path(sys.argv[2])))
"""
