"""Writing so that nothing is lost: a file appears whole or not at all."""

from __future__ import annotations

import glob
import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exhume.errors import ExhumeError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write(temporary)` and rename the result to `path`; on any failure `path` keeps its old content."""
    temporary = _temporary_beside(path)
    try:
        write(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise ExhumeError(f"cannot write {path}: {error.strerror}. Free some space or choose another folder.") from None
    finally:
        temporary.unlink(missing_ok=True)


def _temporary_beside(path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_orphans(path)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{os.getpid()}.", suffix=".tmp")
    except OSError as error:
        raise ExhumeError(f"cannot write {path}: {error.strerror}. Choose a folder that you may write to.") from None
    os.close(handle)
    return Path(name)


def _remove_orphans(path: Path) -> None:
    """Remove temporary files of `path` whose process is gone: it was killed while it wrote."""
    for orphan in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        number = orphan.name.removeprefix(f".{path.name}.").split(".")[0]
        if number.isdecimal() and not _alive(int(number)):
            orphan.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # somebody else's, or no number of a process: not ours to judge
    return True


def require_writable(path: Path) -> None:
    """Raise unless a file could be written at `path`: asked before a long run, not after it."""
    _temporary_beside(path).unlink()


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, whole or not at all."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON, which has no NaN and no infinity: they become null."""
    return json.dumps(_without_nan(value), indent=indent)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
