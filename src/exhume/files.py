"""Writing so that nothing is lost: a file appears whole or not at all; reading so that nothing is executed."""

from __future__ import annotations

import json
import math
import os
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exhume.errors import ExhumeError

# The safetensors header is JSON; real ones are a few kB. A larger claim is a broken or hostile file.
_HEADER_LIMIT = 64 * 1024 * 1024
# Archives that unpack to less are harmless whatever their ratio.
_ZIP_FREE = 16_000_000


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Call `write(temporary)` and rename the result to `path`; on any failure `path` keeps its old content."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except OSError as error:
        raise ExhumeError(f"cannot write {path}: {error.strerror}. Choose a folder that you may write to.") from None
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise ExhumeError(f"cannot write {path}: {error.strerror}. Free some space or choose another folder.") from None
    finally:
        temporary.unlink(missing_ok=True)


def require_writable(path: Path) -> None:
    """Raise unless a file could be written at `path`: asked before a long run, not after it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".exhume-"):
            pass
    except OSError as error:
        raise ExhumeError(f"cannot write {path}: {error.strerror}. Choose a folder that you may write to.") from None


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, whole or not at all."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))  # type: ignore[arg-type]


def json_text(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON, which has no NaN and no infinity: they become null."""
    return json.dumps(_without_nan(value), indent=indent)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    if claimed > most or claimed > ratio * path.stat().st_size + _ZIP_FREE:
        raise ExhumeError(f"{what} {path} of {path.stat().st_size} bytes claims to unpack to {claimed / 1e9:.3g} GB. Refused.")


def check_safetensors(path: Path, what: str) -> None:
    """Refuse a file whose safetensors header cannot be genuine, before any library allocates for it."""
    require_file(path, what)
    size = path.stat().st_size
    with open(path, "rb") as file:
        start = file.read(8)
    claimed = struct.unpack("<Q", start)[0] if len(start) == 8 else None
    if claimed is None or claimed > min(_HEADER_LIMIT, size - 8) or claimed < 2:
        raise ExhumeError(f"{what} {path} is not a safetensors file (its header does not fit). Give the file that exhume wrote.")
