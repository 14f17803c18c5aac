"""CIFAR-10 from its original archives (python or binary), a folder of their files, or an npz extract."""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from exhume.data import download
from exhume.data.array_files import find_within, open_pictures
from exhume.data.dataset import Dataset, balanced, photographs
from exhume.errors import ExhumeError

# CIFAR-10's numbers of the two classes of Appendix D.
_FROG = 6
_TRUCK = 9
_RECORD = 1 + 3 * 32 * 32  # label byte and pixels of the binary version
ARCHIVE = download.Remote(
    "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    "cifar-10-python.tar.gz",
    md5="c58f30108f718f92721af3b95e74349a",
)


def cifar10(*, n: int, data_dir: Path | None, protocol: str, size: int | None = None, remote: download.Remote = ARCHIVE) -> Dataset:
    """The paper's subsets (Appendix D): `frog-truck` with labels -1/+1, or `multi-class` with n/10 of each class."""
    path = find_within(data_dir, "cifar*.npz", "cifar-10-*.tar.gz") if data_dir is not None else download.cached(remote)
    images, labels = _load(path)
    label_size: float | None
    if protocol == "frog-truck":
        picks = balanced([np.flatnonzero(labels == c) for c in (_FROG, _TRUCK)], n, "cifar10 frog/truck")
        y, label_size = np.where(labels[picks] == _TRUCK, 1.0, -1.0), 1.0
    else:
        # Fewer than ten samples: one of each of the first n classes (Appendix E.3 has five).
        picks = balanced([np.flatnonzero(labels == c) for c in range(min(10, n))], n, "cifar10 multi-class")
        y, label_size = labels[picks].astype(float), None
    return photographs(f"cifar10 {protocol}", images[picks].reshape(-1, 3, 32, 32), y, size=size, label_size=label_size)


def _load(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Training images (N, 3072) uint8 and labels (N,) in the original order."""
    if path.suffix == ".npz":
        arrays = open_pictures(path, 32)
        numbers = arrays.get("indices", np.arange(len(arrays["labels"])))
        if numbers.shape != arrays["labels"].shape:
            raise ExhumeError(f"{path}: expected as many 'indices' as labels, got {numbers.shape} and {arrays['labels'].shape}.")
        order = np.argsort(numbers, kind="stable")
        return arrays["images"].reshape(len(order), -1)[order], arrays["labels"][order].astype(int)
    parts = [_batch(name, content) for name, content in sorted(_batches(path))]
    if not parts:
        raise ExhumeError(
            f"{path}: no CIFAR-10 training batches in it. Give cifar-10-python.tar.gz, cifar-10-binary.tar.gz, the folder of "
            "their files, or an npz with 'images' and 'labels'."
        )
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _is_batch(name: str) -> bool:
    stem = Path(name).name
    return stem.startswith("data_batch_") and (stem.endswith(".bin") or "." not in stem)


def _batches(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of every training batch in an archive or folder."""
    if path.is_dir():
        for file in path.rglob("data_batch_*"):
            if _is_batch(file.name) and file.is_file():
                yield file.name, file.read_bytes()
        return
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                handle = archive.extractfile(member) if member.isfile() and _is_batch(member.name) else None
                if handle is not None:
                    yield Path(member.name).name, handle.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise ExhumeError(f"{path} is not a readable CIFAR-10 archive ({error}). Download it again.") from None


def _batch(name: str, content: bytes) -> tuple[np.ndarray, np.ndarray]:
    if name.endswith(".bin"):
        if len(content) == 0 or len(content) % _RECORD:
            raise ExhumeError(f"{name}: expected a multiple of {_RECORD} bytes, got {len(content)}. Download it again.")
        records = np.frombuffer(content, dtype=np.uint8).reshape(-1, _RECORD)
        return records[:, 1:], records[:, 0].astype(int)
    try:
        batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        images, labels = batch[b"data"].pixels, np.asarray(batch[b"labels"]).astype(int)
    except Exception as error:  # a hostile file can fail anywhere in the reader
        raise ExhumeError(f"{name} is not a CIFAR-10 batch ({error}). Download it again.") from None
    if labels.ndim != 1 or images.shape != (len(labels), 3 * 32 * 32):
        raise ExhumeError(f"{name}: expected {labels.size} images of 3072 bytes for as many labels, got shape {images.shape}.")
    return images, labels


class _ArraysOnly(pickle.Unpickler):
    """The original batches are pickles; this reader can build arrays of bytes and nothing else, so no code in them runs."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every global except the few that make up an array, and put our own in their place."""
        if (module, name) in (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")):
            return lambda *_: _PickledArray()
        if (module, name) == ("_codecs", "encode"):
            return lambda text, _: text.encode("latin1")
        if module == "numpy" and name in ("ndarray", "dtype"):
            return {"ndarray": _PickledArray, "dtype": _PickledType}[name]
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


class _PickledType:
    """In place of numpy.dtype, which believes whatever a pickle says of it, until memory is overwritten."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment: bytes have none."""


class _PickledArray:
    """In place of numpy.ndarray: its bytes in its shape."""

    pixels: np.ndarray

    def __setstate__(self, state: tuple[int, tuple[int, ...], _PickledType, bool, bytes]) -> None:
        _, shape, dtype, by_columns, content = state
        if dtype.code not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"expected images of type u1, got {dtype.code!r}")
        self.pixels = np.frombuffer(content, dtype=np.uint8).reshape(shape, order="F" if by_columns else "C")
