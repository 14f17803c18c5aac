"""One job at its place: every end becomes an outcome; processes and clusters have their tests in contract/test_grid.py."""

from __future__ import annotations

import json
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from exhume.attacks import Progress, Resources, Watch
from exhume.errors import ExhumeError
from exhume.lab.engine import DaskEngine, LocalEngine, Place, engine_from, perform, versions
from exhume.lab.job import Done
from exhume.version import __version__


@dataclass(frozen=True)
class Reporting:
    """A job that tells of some steps and then succeeds or fails."""

    kind: ClassVar[str] = "reporting"
    steps: int = 0
    error: Exception | None = None

    def settings(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def flops(self) -> float:
        return 1.0

    def run(self, *, data_dir: Path | None, watch: Watch, resources: Resources) -> Done:
        for step in range(self.steps):
            watch(Progress("search", step, 0.5**step, 2, step, 0.1, None, torch.empty(0)))
        if self.error is not None:
            raise self.error
        asked = {"data_dir": data_dir, "device": resources.device, "memory": resources.memory, "file": resources.checkpoint}
        return Done({key: str(value) for key, value in asked.items()}, {"x": torch.ones(2)})


def test_a_job_finds_its_data_its_memory_and_its_checkpoint(tmp_path: Path) -> None:
    outcome = perform("key", Reporting(), Place(Path("/data"), 123, "cpu", tmp_path))
    assert (outcome.key, outcome.error) == ("key", None)
    expected = {"data_dir": "/data", "device": "cpu", "memory": "123", "file": str(tmp_path / "key.safetensors")}
    assert outcome.record["row"] == expected
    assert torch.equal(outcome.tensors["x"], torch.ones(2))
    assert outcome.record["kind"] == "reporting"
    assert outcome.record["settings"] == {"steps": 0}
    assert perform("key", Reporting(), Place()).record["row"]["file"] == "None"  # nobody shares a folder with the driver


def test_a_record_says_where_and_with_what_it_was_computed() -> None:
    provenance = perform("key", Reporting(), Place()).record["provenance"]
    assert provenance.items() >= {"exhume": __version__, "torch": torch.__version__, "python": platform.python_version()}.items()
    assert provenance["threads"] == torch.get_num_threads()
    assert 0 <= provenance["wall_seconds"] < 5
    assert provenance["began"].endswith("+00:00")
    assert f"{os.cpu_count()} cores" in versions()["machine"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ExhumeError("expected a, got b."), r"expected a, got b\."),
        (ValueError("boom"), r"ValueError: boom \(test_engine\.py:\d+\)"),  # a defect is named with its place
    ],
)
def test_a_failure_becomes_an_outcome(error: Exception, message: str) -> None:
    outcome = perform("key", Reporting(error=error), Place())
    assert outcome.error is not None
    assert re.fullmatch(message, outcome.error)
    assert outcome.record["error"] == outcome.error
    assert outcome.record["row"] == {}
    assert outcome.tensors == {}


def test_progress_is_written_where_driver_and_worker_share_a_folder(tmp_path: Path) -> None:
    perform("key", Reporting(steps=5), Place(running=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["key.progress"]  # the first step; the next is less than a second later
    told = json.loads((tmp_path / "key.progress").read_text())
    assert told == {"stage": "search", "step": 0, "loss": 1.0, "rows": 2, "seconds": 0.1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("local", LocalEngine(3, 2)), ("dask://host:8786", DaskEngine("tcp://host:8786", 2))],
)
def test_an_engine_is_named_by_its_address(text: str, expected: object) -> None:
    assert engine_from(text, workers=3, threads=2) == expected


@pytest.mark.parametrize("text", ["slurm", "dask", "dask://", "tcp://host:1", ""])
def test_other_engines_are_refused(text: str) -> None:
    with pytest.raises(ExhumeError, match="--engine must be local or dask://HOST:PORT"):
        engine_from(text, workers=1, threads=1)
