"""A byte budget turned into block sizes, and what was really used."""

from __future__ import annotations

import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from exhume.errors import ExhumeError

DEFAULT_BUDGET = 4 * 1024**3
# A block's share of V stays near the last-level cache, where elementwise work between two GEMMs costs least.
_BLOCK_BYTES = 8 * 1024**2

_UNITS = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}


def parse_bytes(text: str) -> int:
    """`6GB` -> 6_000_000_000; units B, kB, MB, GB, KiB, MiB, GiB."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].lower() not in _UNITS:
        raise ExhumeError(f"memory {text!r} is not a size. Write for example 500MB or 6GB.")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def block_rows(columns: int, itemsize: int, *, granule: int) -> int:
    """Rows per block, a multiple of `granule`, so that a block of `columns` columns takes about 8 MiB."""
    rows = _BLOCK_BYTES // max(1, columns * itemsize)
    return max(granule, rows // granule * granule)


def slices(total: int, step: int) -> Iterator[slice]:
    """`range(total)` cut into slices of at most `step`."""
    for start in range(0, total, step):
        yield slice(start, min(total, start + step))


def peak_rss_mb() -> float:
    """Largest resident set of this process so far, in MB."""
    try:
        # getrusage would also count the process that started this one.
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
