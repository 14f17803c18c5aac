"""State dicts from files that nobody vouches for: safetensors, or pickles that need no code."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from exhume.errors import ExhumeError
from exhume.storage.file_checks import check_safetensors, check_zip, require_file

StateDict = dict[str, torch.Tensor]
_PICKLES = (".pt", ".pth", ".bin", ".ckpt")
_MAX_UNPACKED = 32 * 1024**3
# Names under which training scripts keep the weights inside a checkpoint.
_WRAPPERS = ("state_dict", "model_state_dict", "model")


def load_weights(path: Path) -> StateDict:
    """Tensors by name from a safetensors or torch file; whatever would have to run code is refused with the reason."""
    if path.suffix == ".safetensors":
        check_safetensors(path, "weights file")
        try:
            found: Any = load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise ExhumeError(f"weights file {path} is damaged: {str(error).splitlines()[0]}. Write it again.") from None
    elif path.suffix in _PICKLES:
        found = _unpickled(path)
    else:
        raise ExhumeError(f"weights file {path} must be .safetensors or one of {', '.join(_PICKLES)}. Save it as safetensors.")
    for name in _WRAPPERS:
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
    if not isinstance(found, dict) or not found or not all(isinstance(v, torch.Tensor) for v in found.values()):
        raise ExhumeError(f"weights file {path} holds no state dict (names with tensors). Save model.state_dict().")
    # DataParallel puts this before every name; before some of them it is the name of a layer.
    prefix = "module." if all(str(name).startswith("module.") for name in found) else ""
    weights = {str(name).removeprefix(prefix): tensor.detach() for name, tensor in found.items()}
    bad = [name for name, tensor in weights.items() if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all())]
    if bad:
        raise ExhumeError(f"weights file {path}: {bad[0]!r} holds NaN or infinity. Audit a model whose training ended well.")
    return weights


def _unpickled(path: Path) -> Any:
    require_file(path, "weights file")
    check_zip(path, "weights file", most=_MAX_UNPACKED, ratio=2)  # torch stores without compression
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickle protocols: a file that cannot be read ends in an error of ours
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        told = str(error)
        what = told[told.find("GLOBAL") :].split(" was not")[0][:80] if "GLOBAL" in told else "something other than tensors"
        raise ExhumeError(f"weights file {path} was refused: loading it would run code ({what}). Save tensors only.") from None
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ExhumeError(f"weights file {path} is damaged: {(str(error) or 'empty').splitlines()[0]}. Save it again.") from None
