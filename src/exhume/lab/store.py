"""The store: one folder per finished job, which appears whole or not at all.

    STORE/jobs/KEY/record.json           settings, row, provenance
    STORE/jobs/KEY/tensors.safetensors   where the job made some
    STORE/failed/KEY.json                why a job failed; it is tried again by the next run
    STORE/running/KEY.*                  progress and checkpoint of a job under way

A folder is written beside its place, synced, and renamed into it: a run that is killed leaves finished jobs and nothing
else. The folders are the only copy of the truth; there is no index to fall out of step with them.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from exhume.errors import ExhumeError
from exhume.storage.atomic import require_writable, write_text
from exhume.storage.file_checks import check_safetensors

_FORMAT = "exhume-lab-1"


class Store:
    """Finished and failed jobs of one folder."""

    def __init__(self, root: Path) -> None:
        if root.exists() and not root.is_dir():
            raise ExhumeError(f"{root} is a file. Give a folder for the store.")
        self.root = root
        self._jobs, self._failed, self.running = root / "jobs", root / "failed", root / "running"

    def has(self, key: str) -> bool:
        """Whether a job is finished."""
        return (self._jobs / key / "record.json").is_file()

    def keys(self) -> list[str]:
        """Keys of all finished jobs."""
        return sorted(path.parent.name for path in self._jobs.glob("[!.]*/record.json"))  # a dot: not yet in its place

    def record(self, key: str) -> dict[str, Any]:
        """Settings, row and provenance of a finished job."""
        path = self._jobs / key / "record.json"
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ExhumeError(f"{path} cannot be read ({error}). Delete its folder and run again.") from None
        if not isinstance(record, dict) or record.get("format") != _FORMAT:
            raise ExhumeError(f"{path} is not a record of this lab. Delete its folder and run again.")
        return record

    def records(self) -> list[dict[str, Any]]:
        """Records of all finished jobs."""
        return [self.record(key) for key in self.keys()]

    def tensors(self, key: str) -> dict[str, torch.Tensor]:
        """Tensors kept beside a record."""
        path = self._jobs / key / "tensors.safetensors"
        if not path.exists():
            return {}
        check_safetensors(path, "tensors")
        return load_file(path)

    def put(self, key: str, record: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        """Keep a finished job; whoever comes second finds the place taken and leaves it as it is."""
        place = self._jobs / key
        temporary = self._jobs / f".{key}.{uuid.uuid4().hex[:8]}"
        try:
            temporary.mkdir(parents=True)
            if tensors:
                save_file({name: t.contiguous() for name, t in tensors.items()}, temporary / "tensors.safetensors")
            text = json.dumps({"format": _FORMAT, "key": key} | record, indent=1)
            (temporary / "record.json").write_text(text, encoding="utf-8")
            for path in (*temporary.iterdir(), temporary):
                _sync(path)
            if not place.exists():
                os.rename(temporary, place)
                _sync(self._jobs)
        except OSError as error:
            raise ExhumeError(f"cannot write {place}: {error.strerror}. Free some space or choose another --store.") from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        (self._failed / f"{key}.json").unlink(missing_ok=True)
        self.clear_running(key)

    def fail(self, key: str, record: dict[str, Any]) -> None:
        """Keep the reason why a job failed."""
        write_text(self._failed / f"{key}.json", json.dumps({"format": _FORMAT, "key": key} | record, indent=1))
        self.clear_running(key)

    def failures(self) -> list[dict[str, Any]]:
        """Records of jobs that failed and were not finished since."""
        return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(self._failed.glob("*.json"))]

    def clear_running(self, key: str) -> None:
        """Forget the progress of a job that has ended."""
        for path in self.running.glob(f"{key}.*"):
            path.unlink(missing_ok=True)

    def remove(self, key: str) -> None:
        """Delete a finished job."""
        shutil.rmtree(self._jobs / key)

    def sweep(self) -> int:
        """Delete what killed runs left behind (half-written folders, progress, failures); how many files that were."""
        with self.locked():
            left = [*self._jobs.glob(".*"), *self._failed.glob("*.json"), *self.running.glob("*")]
            for path in left:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            return len(left)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One run at a time; the lock ends with its process, however that ends."""
        require_writable(self.root / "lock")
        with open(self.root / "lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ExhumeError(f"another run is using {self.root}. Wait for it, or give another --store.") from None
            self.running.mkdir(parents=True, exist_ok=True)
            yield


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
