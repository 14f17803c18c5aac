"""Blocks of V that memory does not hold, in a file: read again as long as that is faster than drawing them anew."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import torch

from exhume.errors import ExhumeError
from exhume.parallel.threads import in_parallel

# The file may take this share of the free space.
_SHARE = 0.8
# A block is read in parts of this many bytes, by several threads.
_PART = 2 * 1024**2
# Blocks of either kind after which the two speeds are compared.
_TRIED = 8


class DiskCache:
    """An unnamed file of blocks in a folder; it goes with the process, however that ends."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=folder, prefix=".exhume-V-")
        except OSError as error:
            raise ExhumeError(f"cannot keep V in {folder}: {error.strerror}. Choose another --cache folder.") from None
        os.unlink(name)
        self._file = handle
        self._room = int(_SHARE * shutil.disk_usage(folder).free)
        self._places: dict[int, tuple[int, torch.Size]] = {}
        self._end = 0
        self._drawn, self._read = _Speed(), _Speed()

    def __del__(self) -> None:
        os.close(self._file)

    @property
    def pays(self) -> bool:
        """Whether reading a block has been no slower than drawing one, as far as that is known."""
        return self._read.blocks < _TRIED or self._read.seconds_per_byte <= self._drawn.seconds_per_byte

    def read(self, index: int, dtype: torch.dtype) -> torch.Tensor | None:
        """Block `index`, or None where it is not there or drawing is faster."""
        if index not in self._places or not self.pays:
            return None
        start = time.perf_counter()
        offset, shape = self._places[index]
        V = torch.empty(shape, dtype=dtype)
        view = V.numpy().data.cast("B")

        def part(first: int) -> None:
            while first < len(view) and (
                got := os.preadv(self._file, [view[first : first + _PART - first % _PART]], offset + first)
            ):
                first += got
                if first % _PART == 0:
                    return

        in_parallel(part, range(0, len(view), _PART))
        self._read.add(len(view), time.perf_counter() - start)
        return V

    def drew(self, index: int, V: torch.Tensor, seconds: float) -> None:
        """Note what drawing took, and keep the block while there is room."""
        size = V.numel() * V.element_size()
        self._drawn.add(size, seconds)
        if index in self._places or self._end + size > self._room or not self.pays:
            return
        try:
            os.pwrite(self._file, V.numpy().data.cast("B"), self._end)
        except OSError:  # the disk filled up meanwhile: what is there can still be read
            self._room = 0
            return
        self._places[index] = (self._end, V.shape)
        self._end += size


class _Speed:
    """Seconds per byte of the blocks so far."""

    def __init__(self) -> None:
        self.blocks, self._bytes, self._seconds = 0, 0, 0.0

    def add(self, size: int, seconds: float) -> None:
        self.blocks, self._bytes, self._seconds = self.blocks + 1, self._bytes + size, self._seconds + seconds

    @property
    def seconds_per_byte(self) -> float:
        return self._seconds / max(1, self._bytes)
