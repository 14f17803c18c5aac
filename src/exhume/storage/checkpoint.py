"""Checkpoints: the last finished step of a run in one file, from which the same command goes on."""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch

from exhume.errors import ExhumeError
from exhume.storage.records import pack, unpack
from exhume.storage.tensor_file import read_tensors, write_tensors

FORMAT = "exhume-checkpoint-3"
# Saving may take this share of the time; steps that come faster wait for the next save.
_SAVE_SHARE = 0.05
# Files of runs that have ended, to be removed at the end of `until_written`; None outside of it.
_ENDED: ContextVar[list[Path] | None] = ContextVar("ended", default=None)


@contextlib.contextmanager
def until_written() -> Iterator[None]:
    """Checkpoints of runs that end inside stay until the end of the block: write the result in it.

    Where writing fails they are still there, and the same command goes on from their last step.
    """
    ended: list[Path] = []
    token = _ENDED.set(ended)
    try:
        yield
    finally:
        _ENDED.reset(token)
    for path in ended:
        path.unlink(missing_ok=True)


class Checkpoint:
    """A file that holds the last finished step of one run; `run` says which, and another run's file is refused."""

    def __init__(self, path: Path | None, run: dict[str, Any], *, writes: bool = True) -> None:
        self._path, self._run, self._writes = path, run, writes
        self._saved, self._pause = 0.0, 0.0
        self._failing = False
        self._pending: tuple[dict[str, torch.Tensor], Any] | None = None  # the last step, where it is not yet in the file

    def load(self, kinds: Mapping[str, type], device: torch.device | str = "cpu") -> dict[str, Any] | None:
        """The named records of the last finished step, or None when there is nothing to go on from."""
        if self._path is None or not self._path.exists():
            return None
        tensors, header = read_tensors(self._path, "checkpoint", FORMAT, outdated="Delete it and run again.")
        if {"run", "values"} - header.keys() or not all(torch.isfinite(t).all() for t in tensors.values()):
            raise self._damaged()
        if header["run"] != json.loads(json.dumps(self._run)):
            raise ExhumeError(
                f"checkpoint {self._path} belongs to another run (other model, data, settings or seed). "
                "Give another --checkpoint path or delete the file."
            )
        try:
            return {name: unpack(kind, tensors, header["values"][name], device) for name, kind in kinds.items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._damaged() from None

    def _damaged(self) -> ExhumeError:
        return ExhumeError(f"checkpoint {self._path} is damaged. Delete it and run again.")

    def save(self, records: Mapping[str, Any]) -> None:
        """Keep a finished step, unless writing all of them would cost too much time. Its tensors must not change afterwards."""
        if self._path is None or not self._writes:
            return
        self._pending = pack(dict(records))
        if time.monotonic() - self._saved >= self._pause:
            self.flush()

    def flush(self) -> None:
        """Write the last step that was given to `save`; where that fails the run goes on with a warning, without it."""
        if self._pending is None or self._path is None:
            return
        (tensors, values), self._pending, began = self._pending, None, time.monotonic()
        try:
            write_tensors(self._path, tensors, {"format": FORMAT, "run": self._run, "values": values})
            self._failing = False
        except ExhumeError as error:
            if not self._failing:  # said once
                warnings.warn(f"no checkpoint: {error} The run goes on.", RuntimeWarning, stacklevel=2)
            self._failing = True
        self._saved = time.monotonic()
        self._pause = (self._saved - began) / _SAVE_SHARE

    def clear(self) -> None:
        """Remove the file of a run that has ended: at once, or when its result is written (`until_written`)."""
        if self._path is None or not self._writes:
            return
        ended = _ENDED.get()
        if ended is None:
            self._path.unlink(missing_ok=True)
        else:
            self.flush()
            ended.append(self._path)
