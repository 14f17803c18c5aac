"""The sources of data by name. To add one: a file with a function that returns a `Dataset`, and an entry in SOURCES."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from exhume.data.cifar10 import cifar10
from exhume.data.dataset import Dataset
from exhume.data.image_folder import image_folder
from exhume.data.scikit_learn_sets import breast_cancer, diabetes, digits, wine
from exhume.data.sphere import sphere
from exhume.data.table_files import table_file
from exhume.data.tiny_imagenet import tiny_imagenet
from exhume.errors import ExhumeError, unknown_name


@dataclass(frozen=True)
class DataRequest:
    """Which samples of which source; a setting that the source does not use is refused.

    >>> load(DataRequest("digits", n=10)).d
    64
    """

    source: str
    n: int | None = None
    d: int | None = None  # sphere: input dimension
    rank: int | None = None  # sphere: dimension of the subspace that holds the rows
    seed: int = 0
    size: int | None = None  # photographs: pixels per side, by averaging
    data_dir: str | Path | None = None  # archive, folder or npz of the source
    data_file: str | Path | None = None  # rows of one's own

    @property
    def directory(self) -> Path | None:
        """`data_dir` as a path."""
        return None if self.data_dir is None else Path(self.data_dir)

    @property
    def file(self) -> Path | None:
        """`data_file` as a path."""
        return None if self.data_file is None else Path(self.data_file)


# Settings that some sources take and others do not; n and seed go with all.
_OPTIONAL = ("d", "rank", "size", "data_dir", "data_file")


@dataclass(frozen=True)
class Source:
    """A registered source: one line for people, a loader, and what it takes."""

    about: str
    load: Callable[[DataRequest], Dataset]
    dimension: Callable[[DataRequest], int]  # of the inputs, roughly, without loading them: for estimates of work
    takes: tuple[str, ...] = ()  # of the optional settings
    default_n: int | None = None  # None: all rows there are
    needs: str = ""  # what must be given besides n


def _photograph(side: int) -> Callable[[DataRequest], int]:
    return lambda request: 3 * (request.size or side) ** 2


def _n(request: DataRequest) -> int:
    default = SOURCES[request.source].default_n
    assert default is not None
    return default if request.n is None else request.n


_PHOTOGRAPHS = ("size", "data_dir")

SOURCES: dict[str, Source] = {
    "sphere": Source(
        "uniform on the sphere of radius sqrt(d), noisy linear labels (Section 5.1)",
        lambda r: sphere(d=100 if r.d is None else r.d, n=_n(r), seed=r.seed, rank=r.rank),
        lambda r: 100 if r.d is None else r.d,
        takes=("d", "rank"),
        default_n=20,
    ),
    "digits": Source(
        "8x8 handwritten digits, even against odd (scikit-learn)", lambda r: digits(n=_n(r)), lambda r: 64, default_n=30
    ),
    "breast-cancer": Source(
        "30 measurements per patient (scikit-learn)", lambda r: breast_cancer(n=_n(r)), lambda r: 30, default_n=50
    ),
    "diabetes": Source("10 measurements per patient (scikit-learn)", lambda r: diabetes(n=_n(r)), lambda r: 10, default_n=20),
    "wine": Source("13 analyses per wine (scikit-learn)", lambda r: wine(n=_n(r)), lambda r: 13, default_n=30),
    "cifar10": Source(
        "32x32 photographs, frog against truck (Appendix D)",
        lambda r: cifar10(n=_n(r), data_dir=r.directory, protocol="frog-truck", size=r.size),
        _photograph(32),
        takes=_PHOTOGRAPHS,
        default_n=10,
        needs="--data-dir: an original archive, a folder of its files, an npz, or a folder with one of these; else downloaded",
    ),
    "cifar10-multi": Source(
        "32x32 photographs, ten classes in equal parts, or one of each of the first n < 10 (Appendix D)",
        lambda r: cifar10(n=_n(r), data_dir=r.directory, protocol="multi-class", size=r.size),
        _photograph(32),
        takes=_PHOTOGRAPHS,
        default_n=10,
        needs="--data-dir: as for cifar10",
    ),
    "tiny-imagenet": Source(
        "64x64 photographs, class 2 against class 116 (Appendix D)",
        lambda r: tiny_imagenet(n=_n(r), data_dir=r.directory, size=r.size),
        _photograph(64),
        takes=_PHOTOGRAPHS,
        default_n=20,
        needs="--data-dir: the folder tiny-imagenet-200 or an npz",
    ),
    "folder": Source(
        "a folder of your own images",
        lambda r: image_folder(folder=r.directory, n=r.n),
        _photograph(32),
        takes=("data_dir",),
        needs="--data-dir: the folder",
    ),
    "file": Source(
        "your own rows",
        lambda r: table_file(path=r.file, n=r.n),
        lambda r: 30,
        takes=("data_file",),
        needs="--data-file: npz with X and y, or CSV with the label last",
    ),
}


def source_of(request: DataRequest) -> Source:
    """The source that a request names, which must take all that the request says."""
    if request.source not in SOURCES:
        raise unknown_name("data source", request.source, SOURCES)
    source = SOURCES[request.source]
    for name in _OPTIONAL:
        if getattr(request, name) is not None and name not in source.takes:
            raise ExhumeError(f"--data {request.source} does not take --{name.replace('_', '-')}. Leave it out.")
    return source


def load(request: DataRequest) -> Dataset:
    """The dataset that a request names."""
    source = source_of(request)
    if request.n is not None and request.n < 1:
        raise ExhumeError(f"n must be at least 1, got {request.n}.")
    return source.load(request)


def shape_of(request: DataRequest) -> tuple[int, int]:
    """(d, n) of a request without loading it; rough where the source decides."""
    source = source_of(request)
    return source.dimension(request), request.n or source.default_n or 20


def placed(request: DataRequest, data_dir: Path | None) -> DataRequest:
    """The request with the folder in which this machine keeps photographs, where its source needs one and it names none."""
    wanted = "data_dir" in source_of(request).takes and request.data_dir is None
    return replace(request, data_dir=data_dir) if wanted else request
