"""The store: folders that appear whole, first come first kept, one run at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from exhume.errors import ExhumeError
from exhume.lab.store import Store

RECORD: dict[str, Any] = {"kind": "trial", "settings": {}, "row": {"rho": 0.5}, "provenance": {"wall_seconds": 1.0}}


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


def test_a_finished_job_is_forgotten_when_it_is_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a", RECORD, {})
    store.put("b", RECORD, {"x": torch.ones(1)})
    store.remove("b")
    assert store.keys() == ["a"]
    assert not store.has("b")


def test_a_record_says_its_key_and_a_job_without_tensors_has_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a", RECORD, {})
    assert store.record("a") == RECORD | {"format": "exhume-lab-1", "key": "a"}
    assert store.tensors("a") == {}
    assert store.records() == [store.record("a")]


@pytest.mark.parametrize("text", ['{"format": "other"}', "[]", "3"])
def test_a_foreign_record_is_named(text: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a", RECORD, {})
    (tmp_path / "jobs" / "a" / "record.json").write_text(text)
    with pytest.raises(ExhumeError, match=r"record\.json is not a record of this lab. Delete its folder"):
        store.record("a")


def test_foreign_tensors_are_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a", RECORD, {"x": torch.ones(2)})
    (tmp_path / "jobs" / "a" / "tensors.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(ExhumeError, match="is not a safetensors file"):
        store.tensors("a")


def test_progress_is_cleared_when_a_job_ends_and_that_of_others_stays(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.locked():
        for name in ("a.progress", "a.safetensors", "ab.progress", "b.progress"):
            (store.running / name).write_text("{}")
        store.put("a", RECORD, {})
        assert sorted(path.name for path in store.running.iterdir()) == ["ab.progress", "b.progress"]
        store.fail("b", {"settings": {}, "error": "no"})
        assert [path.name for path in store.running.iterdir()] == ["ab.progress"]


def test_a_half_written_folder_is_no_job(tmp_path: Path) -> None:
    (tmp_path / "jobs" / ".a.1234abcd").mkdir(parents=True)
    (tmp_path / "jobs" / ".a.1234abcd" / "record.json").write_text("{")  # killed before its folder was renamed
    (tmp_path / "jobs" / "b").mkdir()
    store = Store(tmp_path)
    assert not store.has("a")
    assert not store.has("b")
    assert store.records() == []
    assert store.sweep() == 1


def test_the_lock_ends_with_its_block(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(RuntimeError), store.locked():
        raise RuntimeError
    with store.locked():
        assert store.running.is_dir()


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExhumeError, match=r"is a file\. Give a folder for the store"):
        Store(tmp_path / "file")


def test_an_unwritable_place_is_told_in_one_line() -> None:
    with pytest.raises(ExhumeError, match="cannot write /proc/nowhere/jobs/a"):
        Store(Path("/proc/nowhere")).put("a", RECORD, {})
