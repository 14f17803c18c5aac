"""Checkpoints: the last finished step of a run in one file, from which the same command goes on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from exhume.errors import ExhumeError
from exhume.files import write_atomically
from exhume.release import read_tensors

_FORMAT = "exhume-checkpoint-2"
# Saving may take this share of the time; steps that come faster are kept for the next save.
_SAVE_SHARE = 0.05


class Checkpoint:
    """A file that holds the last finished step of one run; `run` says which, and another run's file is refused."""

    def __init__(self, path: Path | None, run: dict[str, Any], *, writes: bool = True) -> None:
        self._path, self._run, self._writes = path, run, writes
        self._saved, self._pause = 0.0, 0.0
        self._pending: dict[str, Any] | None = None  # the last step, where it is not yet in the file

    def load(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """Tensors and values of the last finished step, or None when there is nothing to go on from."""
        if self._path is None or not self._path.exists():
            return None
        tensors, header = read_tensors(self._path, "checkpoint", _FORMAT)
        if not all(torch.isfinite(tensor).all() for tensor in tensors.values()) or {"run", "values"} - header.keys():
            raise ExhumeError(f"checkpoint {self._path} is damaged. Delete it and run again.")
        if header["run"] != json.loads(json.dumps(self._run)):
            raise ExhumeError(
                f"checkpoint {self._path} belongs to another run (other model, data, settings or seed). "
                "Give another --checkpoint path or delete the file."
            )
        return tensors, header["values"]

    def save(self, tensors: dict[str, torch.Tensor], values: dict[str, Any], *, now: bool = False) -> None:
        """Keep a finished step, unless writing all of them would cost too much time. The tensors must not change afterwards."""
        if self._path is None or not self._writes:
            return
        if not now and time.monotonic() - self._saved < self._pause:
            self._pending = {"tensors": tensors, "values": values}
            return
        self._pending, began = None, time.monotonic()
        header = {"format": _FORMAT, "run": self._run, "values": values}
        # Copies: the same rows may be there under two names, which the format refuses.
        plain = {name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
        write_atomically(self._path, lambda path: save_file(plain, path, metadata={"exhume": json.dumps(header)}))
        self._saved = time.monotonic()
        self._pause = (self._saved - began) / _SAVE_SHARE

    def flush(self) -> None:
        """Write the last step that was given to `save`."""
        if self._pending is not None:
            self.save(**self._pending, now=True)

    def clear(self) -> None:
        """Remove the file of a run that has ended."""
        if self._path is not None and self._writes:
            self._path.unlink(missing_ok=True)
