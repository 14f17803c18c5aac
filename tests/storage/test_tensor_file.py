"""Tensors with a header in one file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from exhume.errors import ExhumeError
from exhume.storage.tensor_file import read_tensors, write_tensors


def test_tensors_and_header_come_back(tmp_path: Path) -> None:
    rows = torch.arange(6.0).reshape(2, 3)
    write_tensors(tmp_path / "f", {"rows": rows, "again": rows, "turned": rows.T}, {"format": "exhume-thing-1", "n": 2})
    tensors, header = read_tensors(tmp_path / "f", "thing", "exhume-thing-1")
    assert header == {"format": "exhume-thing-1", "n": 2}
    assert torch.equal(tensors["again"], rows)
    assert torch.equal(tensors["turned"], rows.T)


@pytest.mark.parametrize(
    ("written", "message"),
    [("exhume-thing-0", "another version of exhume .* Do this"), ("exhume-other-1", "must be exhume-thing-1, got exhume-other-1")],
)
def test_other_files_are_told_apart_from_older_ones(written: str, message: str, tmp_path: Path) -> None:
    write_tensors(tmp_path / "f", {"x": torch.ones(1)}, {"format": written})
    with pytest.raises(ExhumeError, match=message):
        read_tensors(tmp_path / "f", "thing", "exhume-thing-1", outdated="Do this.")
