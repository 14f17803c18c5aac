"""Tensors with a header in one file."""

from __future__ import annotations

import subprocess
import sys
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


def test_a_disk_that_is_full_is_one_sentence_and_the_old_file_stays(tmp_path: Path) -> None:
    """A real fault: the kernel refuses to let files grow beyond 4 kB, as a full disk or a quota does."""
    path = tmp_path / "f"
    write_tensors(path, {"x": torch.ones(3)}, {"format": "exhume-thing-1"})
    script = f"""
import resource, signal
import subprocess
import sys
from pathlib import Path
import torch
from exhume.errors import ExhumeError
from exhume.storage.tensor_file import write_tensors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_tensors(Path({str(path)!r}), {{"x": torch.ones(100_000)}}, {{"format": "exhume-thing-1"}})
except ExhumeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith(f"cannot write {path}: ")
    assert len(done.stdout.splitlines()) == 1
    assert torch.equal(read_tensors(path, "thing", "exhume-thing-1")[0]["x"], torch.ones(3))
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
