"""The last finished step of a run in a file."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from exhume.errors import ExhumeError
from exhume.storage import checkpoint as module
from exhume.storage.checkpoint import Checkpoint, until_written
from exhume.storage.tensor_file import write_tensors


@dataclass(frozen=True)
class Step:
    X: torch.Tensor
    number: int


RUN = {"seed": 0}


def saved(path: Path, number: int = 3) -> Checkpoint:
    checkpoint = Checkpoint(path, RUN)
    checkpoint.save({"step": Step(torch.ones(2, 2), number)})
    return checkpoint


def test_a_run_goes_on_from_its_last_step(tmp_path: Path) -> None:
    path = tmp_path / "run"
    assert Checkpoint(path, RUN).load({"step": Step}) is None
    checkpoint = saved(path)
    loaded = Checkpoint(path, RUN).load({"step": Step})
    assert loaded is not None
    assert loaded["step"].number == 3
    assert torch.equal(loaded["step"].X, torch.ones(2, 2))
    checkpoint.clear()
    assert not path.exists()


def test_steps_that_come_faster_than_saving_pays_wait_and_are_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SAVE_SHARE", 1e-9)  # after one save none pays for a long time
    checkpoint = saved(tmp_path / "run", 1)
    checkpoint.save({"step": Step(torch.zeros(1), 2)})
    first = Checkpoint(tmp_path / "run", RUN).load({"step": Step})
    assert first is not None
    assert first["step"].number == 1
    checkpoint.flush()
    last = Checkpoint(tmp_path / "run", RUN).load({"step": Step})
    assert last is not None
    assert last["step"].number == 2
    stamp = (tmp_path / "run").stat().st_mtime_ns
    time.sleep(0.01)
    checkpoint.flush()  # nothing is pending
    assert (tmp_path / "run").stat().st_mtime_ns == stamp


def test_only_the_first_process_writes(tmp_path: Path) -> None:
    other = Checkpoint(tmp_path / "run", RUN, writes=False)
    other.save({"step": Step(torch.ones(1), 1)})
    other.flush()
    assert not (tmp_path / "run").exists()
    saved(tmp_path / "run")
    other.clear()
    assert (tmp_path / "run").exists()
    assert other.load({"step": Step}) is not None


def test_what_is_not_this_runs_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    saved(path)
    with pytest.raises(ExhumeError, match="belongs to another run"):
        Checkpoint(path, {"seed": 1}).load({"step": Step})
    with pytest.raises(ExhumeError, match=r"is damaged. Delete it"):
        Checkpoint(path, RUN).load({"other": Step})
    write_tensors(path, {"x": torch.tensor([torch.nan])}, {"format": module.FORMAT, "run": RUN, "values": {}})
    with pytest.raises(ExhumeError, match="is damaged"):
        Checkpoint(path, RUN).load({"step": Step})
    write_tensors(path, {"x": torch.ones(1)}, {"format": "exhume-checkpoint-2", "run": RUN, "values": {}})
    with pytest.raises(ExhumeError, match=r"another version of exhume .* Delete it and run again"):
        Checkpoint(path, RUN).load({"step": Step})


def test_a_checkpoint_that_cannot_be_written_is_said_once_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise ExhumeError("cannot write it: No space left on device.")

    monkeypatch.setattr(module, "write_tensors", full)
    monkeypatch.setattr(module, "_SAVE_SHARE", 1e9)  # no pause between saves
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        checkpoint = saved(tmp_path / "run")
        checkpoint.save({"step": Step(torch.ones(2, 2), 4)})
        checkpoint.flush()
    assert [str(one.message) for one in said] == ["no checkpoint: cannot write it: No space left on device. The run goes on."]


def test_a_finished_run_leaves_its_checkpoint_until_the_result_is_written(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with until_written():
        saved(path).clear()
        assert path.exists()
    assert not path.exists()


def test_where_writing_the_result_fails_the_checkpoint_stays(tmp_path: Path) -> None:
    path = tmp_path / "run"

    def end() -> None:
        with until_written():
            saved(path).clear()
            raise ExhumeError("cannot write the result.")

    with pytest.raises(ExhumeError):
        end()
    loaded = Checkpoint(path, RUN).load({"step": Step})
    assert loaded is not None
    assert loaded["step"].number == 3
    Checkpoint(path, RUN).clear()  # outside of the block at once
    assert not path.exists()
