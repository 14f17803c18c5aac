"""Sizes in words, block sizes, slices, and the memory that was really used."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

from exhume.errors import ExhumeError
from exhume.linalg import blocks


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("6GB", 6 * 10**9),
        ("500 MB", 5 * 10**8),
        ("1.5GiB", 3 * 2**29),
        ("42", 42),
        (" 7 b ", 7),
        ("2kB", 2000),
        ("2KiB", 2048),
        ("3mib", 3 * 2**20),
    ],
)
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert blocks.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["lots", "", "GB", "-1GB", "1.2.3GB", "5TB", "1 GB or so"])
def test_a_wrong_size_is_refused(text: str) -> None:
    with pytest.raises(ExhumeError, match=r"is not a size\. Write for example 500MB or 6GB"):
        blocks.parse_bytes(text)


@pytest.mark.parametrize(("columns", "itemsize"), [(1, 8), (20, 8), (3072, 4), (12288, 4), (12288, 8)])
def test_a_block_is_as_large_as_eight_mebibytes_allow(columns: int, itemsize: int) -> None:
    rows = blocks.block_rows(columns, itemsize, granule=256)
    assert rows % 256 == 0
    assert rows == 256 or rows * columns * itemsize <= 8 * 2**20
    assert (rows + 256) * columns * itemsize > 8 * 2**20


@pytest.mark.parametrize(("total", "step"), [(0, 3), (1, 3), (6, 3), (7, 3), (2, 10)])
def test_slices_cover_the_range_without_gap_or_overlap(total: int, step: int) -> None:
    pieces = list(blocks.slices(total, step))
    assert [i for piece in pieces for i in range(piece.start, piece.stop)] == list(range(total))
    assert all(0 < piece.stop - piece.start <= step for piece in pieces)
    assert all(piece.stop - piece.start == step for piece in pieces[:-1])


def test_the_peak_of_memory_counts_what_was_touched_and_given_back() -> None:
    def resident() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6

    before = resident()
    held = np.ones(20_000_000)  # 160 MB
    during = resident()
    assert during > before + 100
    del held
    assert blocks.peak_rss_mb() > 0.98 * during
    assert blocks.peak_rss_mb() <= 1.02 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_without_a_proc_folder_the_peak_is_the_systems_own(
    platform: str, unit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux counts in kilobytes, macOS in bytes."""
    monkeypatch.setattr(blocks, "Path", lambda _: tmp_path / "none")
    monkeypatch.setattr(blocks.sys, "platform", platform)
    assert blocks.peak_rss_mb() == pytest.approx(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6)
