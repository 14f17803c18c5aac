"""CIFAR-10 in its original formats, made in small."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path

import numpy as np


def fake_batch(seed: int) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (20, 3072), dtype=np.uint8), [int(v) for v in rng.permutation(np.arange(20) % 10)]


def python_archive(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for k in (1, 2):
            images, labels = fake_batch(k)
            content = pickle.dumps({b"data": images, b"labels": labels}, protocol=2)
            info = tarfile.TarInfo(f"cifar-10-batches-py/data_batch_{k}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def binary_folder(path: Path) -> None:
    for k in (1, 2):
        images, labels = fake_batch(k)
        records = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], images], axis=1)
        (path / f"data_batch_{k}.bin").write_bytes(records.tobytes())
