"""A model of a user's own, in files."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from support.models import patients, relu_pipeline


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline, its patients in a CSV whose column names are hostile, and others."""
    io = pytest.importorskip("skops.io", reason="skops is not installed: pip install 'exhume[sklearn]'")
    folder = tmp_path_factory.mktemp("case")
    model, X, y = relu_pipeline(5)
    io.dump(model, folder / "pipe.skops")
    for name, rows, labels in (("train.csv", X, y), ("test.csv", *patients(40, 200))):
        with open(folder / name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["<script>alert(1)</script>", *(f"../c{i}" for i in range(29)), "label"])
            writer.writerows([*map(repr, map(float, row)), label] for row, label in zip(rows, labels, strict=True))
    return folder
