"""Files that hold arrays, read without executing anything and within bounds."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from exhume.errors import ExhumeError
from exhume.storage.file_checks import check_zip, require_file

# Arrays are unpacked into memory. A file that claims to hold more than this, ...
_MOST_UNPACKED = 8 * 1024**3
# ... or this many times its own size, is a bomb.
_MOST_RATIO = 200


def open_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz file; object arrays (pickles) are refused."""
    require_file(path, "data file")
    try:
        check_zip(path, "data file", most=_MOST_UNPACKED, ratio=_MOST_RATIO)
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, KeyError, zlib.error) as error:
        raise ExhumeError(f"{path} is not a plain npz file ({str(error).splitlines()[0]}). Save it with numpy.savez.") from None


def find_within(path: Path, *patterns: str) -> Path:
    """The first match of the patterns in a folder; the path itself where there is none."""
    for pattern in patterns if path.is_dir() else ():
        for match in sorted(path.glob(pattern)):
            return match
    return path
