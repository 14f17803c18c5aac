"""Our own files: tensors by name and a JSON header that says what they are, as one safetensors file."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from exhume.errors import ExhumeError
from exhume.storage.atomic import write_atomically
from exhume.storage.file_checks import check_safetensors


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], header: dict[str, Any]) -> None:
    """Write tensors and header to `path`, whole or not at all."""
    # Copies: the format refuses tensors that share memory, and the same rows may stand under two names.
    plain = {name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}

    def write(temporary: Path) -> None:
        try:
            save_file(plain, temporary, metadata={"exhume": json.dumps(header)})
        except SafetensorError as error:  # a full disk, for one: no OSError of its own
            raise OSError(errno.EIO, str(error).splitlines()[0]) from None

    write_atomically(path, write)


def read_tensors(
    path: Path, what: str, expected: str, *, outdated: str = "Write it again."
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and header of one of our files, checked for being of the `expected` format; `outdated` says what to do with one
    that another version wrote."""
    check_safetensors(path, what)
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get("exhume", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, ValueError, OSError) as error:
        raise ExhumeError(f"{what} {path} is damaged: {str(error).splitlines()[0]}. Write it again.") from None
    got = header.get("format") if isinstance(header, dict) else "a file without an exhume header"
    if got == expected:
        return tensors, header
    if str(got).rpartition("-")[0] == expected.rpartition("-")[0]:
        raise ExhumeError(f"{what} {path} was written by another version of exhume ({got}, this one reads {expected}). {outdated}")
    raise ExhumeError(f"{what} {path} must be {expected}, got {got}. Give the {what} file that exhume wrote.")
