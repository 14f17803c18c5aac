"""Frozen records <-> tensors and plain JSON values: one way for everything that is stored."""

from __future__ import annotations

import math
import types
from dataclasses import MISSING, field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import torch

from exhume.errors import ExhumeError

Record = TypeVar("Record")


def not_stored() -> Any:
    """A field that can be computed anew: it is left out of files and is None after reading one."""
    return field(default=None, repr=False, compare=False, metadata={"stored": False})


def _stored_fields(kind: Any) -> list[str]:
    return [f.name for f in fields(kind) if f.metadata.get("stored", True)]


def pack(record: Any) -> tuple[dict[str, torch.Tensor], Any]:
    """A record as tensors by their path in it, and JSON values in which such a path stands for its tensor."""
    tensors: dict[str, torch.Tensor] = {}
    return tensors, _plain(record, "", tensors)


def _plain(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors[path] = value
        return path
    if is_dataclass(value):
        return {name: _plain(getattr(value, name), f"{path}/{name}", tensors) for name in _stored_fields(value)}
    if isinstance(value, dict):
        return {key: _plain(v, f"{path}/{key}", tensors) for key, v in value.items()}
    if isinstance(value, tuple):
        return [_plain(v, f"{path}/{i}", tensors) for i, v in enumerate(value)]
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity
    return value


def unpack(kind: type[Record], tensors: dict[str, torch.Tensor], values: Any, device: torch.device | str = "cpu") -> Record:
    """The record that `pack` took apart, its tensors on `device`; KeyError, TypeError or ValueError where values do not fit."""
    restored: Record = _restored(kind, values, tensors, device)
    return restored


def _restored(kind: Any, value: Any, tensors: dict[str, torch.Tensor], device: torch.device | str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (kind,) = (one for one in arguments if one is not type(None))  # the records here have no other unions
        return _restored(kind, value, tensors, device)
    if kind is torch.Tensor:
        return tensors[value].to(device)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: _restored(hints[name], value[name], tensors, device) for name in _stored_fields(kind)})  # type: ignore[operator]
    if origin is dict:
        return {key: _restored(arguments[1], v, tensors, device) for key, v in value.items()}
    if origin is tuple:
        return tuple(_restored(arguments[0], v, tensors, device) for v in value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[value]
    return float(value) if kind is float else value


_ALLOWED = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,), "tuple": (list, tuple), "None": (type(None),)}


def checked_record(kind: type[Record], values: object, path: Path) -> Record:
    """A frozen record from a file that anybody may have written: names and types are checked field by field."""
    described = fields(kind)  # type: ignore[arg-type]
    optional = {f.name for f in described if f.default is not MISSING}
    names = {f.name for f in described}
    if not isinstance(values, dict) or not names - optional <= set(values) <= names:
        raise ExhumeError(f"{path}: the header's {kind.__name__} has the wrong fields. Write the file again.")
    checked = {}
    for f in (f for f in described if f.name in values):
        value = values[f.name]
        allowed = [t for word in str(f.type).split(" | ") for t in _ALLOWED[word.split("[")[0]]]
        finite = not isinstance(value, float) or math.isfinite(value)
        if isinstance(value, bool) != (f.type == "bool") or not isinstance(value, tuple(allowed)) or not finite:
            raise ExhumeError(f"{path}: {kind.__name__}.{f.name} must be {f.type}, got {value!r}.")
        checked[f.name] = tuple(value) if isinstance(value, list) else value
    return kind(**checked)
