"""A run that can be looked at while it goes on: its state in a folder, renewed at most once a second."""

from __future__ import annotations

import base64
import io
import os
import time
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from exhume.attacks import Progress
from exhume.auditing import Subject
from exhume.result import Certificate, Reconstruction, Status
from exhume.storage.atomic import json_text, write_text

STATE = "run.json"
# Seconds between two writes of the state.
_EVERY = 1.0
# What the live page shows: pictures, or rows and columns of a table, and points of the loss curve.
_PICTURES = 20
_ROWS = 8
_COLUMNS = 8
_POINTS = 400


class LiveRun:
    """A watch that writes what the attack holds right now: loss, rows, and the rows as pictures or table lines."""

    def __init__(self, folder: Path, subject: Subject) -> None:
        self._path, self._subject = folder / STATE, subject
        self._written = 0.0
        self._curve: list[tuple[float, float, int]] = []
        truth = subject.truth
        self._state: dict[str, Any] = {
            "name": subject.name,
            "about": subject.about,
            "kind": truth.kind,
            "columns": list(truth.columns[:_COLUMNS]),
            "state": "running",
            "stage": "starting",
            "began": time.time(),
            "pid": os.getpid(),
        }
        self._write()

    def __call__(self, now: Progress) -> None:
        """One step of the attack."""
        self._curve.append((now.seconds, now.loss, now.rows))
        if len(self._curve) > _POINTS:
            self._curve = self._curve[::2]
        if time.monotonic() - self._written < _EVERY:
            return
        self._state |= {
            "step": now.step,
            "phase": now.stage,
            "loss": now.loss,
            "rows": now.rows,
            "passes": now.passes,
            "seconds": now.seconds,
            "eta": now.eta,
            "curve": self._curve,
        } | self._shown(now.X)
        self._write()

    def stage(self, text: str) -> None:
        """What is being done."""
        self._state["stage"] = text
        self._write()

    def ended(self, how: str, headline: str = "") -> None:
        """The run's last word."""
        self._state |= {"state": how, "stage": how, "headline": headline, "curve": self._curve}
        self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        write_text(self._path, json_text(self._state | {"updated": time.time()}))

    def _shown(self, X: torch.Tensor) -> dict[str, Any]:
        """Candidate rows at the data's mean length: sign and length are settled only at the end."""
        subject, truth = self._subject, self._subject.truth
        if X.ndim != 2 or X.shape[1] != subject.release.d:
            return {}  # nothing to show yet
        guess = Reconstruction(X[:_PICTURES].cpu(), Status.STALLED, "", Certificate(0, 0, 1.0, 0.0), "", 0, 0.0)
        rows = subject.inputs_from(guess).rows
        rows = rows * (truth.rows.norm(dim=1).mean() / rows.norm(dim=1, keepdim=True).clamp(min=1e-300))
        if truth.kind == "image":
            return {"pictures": [_png(picture) for picture in truth.pictures(rows)]}
        return {"table": [[f"{v:.4g}" for v in row[:_COLUMNS]] for row in truth.raw(rows[:_ROWS]).tolist()]}


def _png(picture: Any) -> str:
    """One picture as a data URI."""
    pixels = (picture * 255).round().astype("uint8")
    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
