"""Looks at a file before any library reads it: it is there, and it does not claim more than it holds."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path

from exhume.errors import ExhumeError

# The safetensors header is JSON; real ones are a few kB. A larger claim is a broken or hostile file.
_LARGEST_HEADER = 64 * 1024 * 1024
# Archives that unpack to less are harmless whatever their ratio.
_HARMLESS_ARCHIVE = 16_000_000


def require_file(path: Path, what: str) -> None:
    """Raise unless `path` is a readable file."""
    if not path.is_file():
        raise ExhumeError(f"{what} {path} is not a file. Check the path.")
    if not os.access(path, os.R_OK):
        raise ExhumeError(f"{what} {path} cannot be read. Check its permissions.")


def check_zip(path: Path, what: str, *, most: int, ratio: int) -> None:
    """Raise where an archive claims to unpack to more than `most` bytes, or to `ratio` times its size (and 16 MB)."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        claimed = sum(member.file_size for member in archive.infolist())
    if claimed > most or claimed > ratio * path.stat().st_size + _HARMLESS_ARCHIVE:
        raise ExhumeError(f"{what} {path} of {path.stat().st_size} bytes claims to unpack to {claimed / 1e9:.3g} GB. Refused.")


def check_safetensors(path: Path, what: str) -> None:
    """Refuse a file whose safetensors header cannot be genuine, before any library allocates for it."""
    require_file(path, what)
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(8)
    claimed = struct.unpack("<Q", start)[0] if len(start) == 8 else None
    if claimed is None or claimed > min(_LARGEST_HEADER, size - 8) or claimed < 2:
        raise ExhumeError(f"{what} {path} is not a safetensors file (its header does not fit). Give the file that exhume wrote.")
