"""The sources of data by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from exhume.data.cifar10 import cifar10
from exhume.data.dataset import Dataset
from exhume.data.folder import image_folder
from exhume.data.own import own_file
from exhume.data.sphere import sphere
from exhume.data.tabular import breast_cancer, diabetes, digits, wine
from exhume.data.tiny_imagenet import tiny_imagenet
from exhume.errors import ExhumeError, unknown_name


@dataclass(frozen=True)
class DataRequest:
    """Which samples of which source; what a source does not use, it ignores."""

    source: str
    n: int | None = None
    d: int | None = None
    rank: int | None = None  # sphere: dimension of the subspace that holds the rows
    seed: int = 0
    size: int | None = None  # photographs: pixels per side, by averaging
    data_dir: Path | None = None
    data_file: Path | None = None


@dataclass(frozen=True)
class Source:
    """A registered source: one line for people and a loader."""

    about: str
    load: Callable[[DataRequest], Dataset]
    needs: str = ""  # what must be given besides n


def _n(request: DataRequest, default: int) -> int:
    return default if request.n is None else request.n


SOURCES: dict[str, Source] = {
    "sphere": Source(
        "uniform on the sphere of radius sqrt(d), noisy linear labels (Section 5.1)",
        lambda r: sphere(d=100 if r.d is None else r.d, n=_n(r, 20), seed=r.seed, rank=r.rank),
    ),
    "digits": Source("8x8 handwritten digits, even against odd (scikit-learn)", lambda r: digits(n=_n(r, 30))),
    "breast-cancer": Source("30 measurements per patient (scikit-learn)", lambda r: breast_cancer(n=_n(r, 50))),
    "diabetes": Source("10 measurements per patient (scikit-learn)", lambda r: diabetes(n=_n(r, 20))),
    "wine": Source("13 analyses per wine (scikit-learn)", lambda r: wine(n=_n(r, 30))),
    "cifar10": Source(
        "32x32 photographs, frog against truck (Appendix D)",
        lambda r: cifar10(n=_n(r, 10), data_dir=r.data_dir, protocol="frog-truck", size=r.size),
        "--data-dir: an original archive, a folder of its files, an npz, or a folder with one of these; else downloaded",
    ),
    "cifar10-multi": Source(
        "32x32 photographs, ten classes in equal parts, or one of each of the first n < 10 (Appendix D)",
        lambda r: cifar10(n=_n(r, 10), data_dir=r.data_dir, protocol="multi-class", size=r.size),
        "--data-dir: as for cifar10",
    ),
    "tiny-imagenet": Source(
        "64x64 photographs, class 2 against class 116 (Appendix D)",
        lambda r: tiny_imagenet(n=_n(r, 20), data_dir=r.data_dir, size=r.size),
        "--data-dir: the folder tiny-imagenet-200 or an npz",
    ),
    "folder": Source("a folder of your own images", lambda r: image_folder(folder=r.data_dir, n=r.n), "--data-dir: the folder"),
    "file": Source(
        "your own rows",
        lambda r: own_file(path=r.data_file, n=r.n),
        "--data-file: npz with X and y, or CSV with the label last",
    ),
}


def load(request: DataRequest) -> Dataset:
    """The dataset that a request names."""
    if request.source not in SOURCES:
        raise unknown_name("data source", request.source, SOURCES)
    if request.n is not None and request.n < 1:
        raise ExhumeError(f"n must be at least 1, got {request.n}.")
    return SOURCES[request.source].load(request)
