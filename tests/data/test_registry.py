"""Sources by name: what each takes, what it refuses, and its shape before it is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exhume.data import SOURCES, DataRequest, load
from exhume.data.registry import placed, shape_of, source_of
from exhume.errors import ExhumeError

OPTIONS = {"d": 5, "rank": 3, "size": 8, "data_dir": "folder", "data_file": "rows.npz"}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (DataRequest("spere"), "Did you mean 'sphere'"),
        (DataRequest("digits", n=0), "n must be at least 1"),
        (DataRequest("wine", n=10_000), "178 samples"),
        (DataRequest("sphere", d=1), "d >= 2"),
        (DataRequest("file"), "--data-file"),
        (DataRequest("folder"), "--data-dir"),
        (DataRequest("tiny-imagenet"), "--data-dir"),
        (DataRequest("file", data_file=Path("/nowhere/x.npz")), "not a file"),
        (DataRequest("cifar10", data_dir=Path("/nowhere")), "not a readable CIFAR-10 archive"),
    ],
)
def test_bad_requests_are_refused(request_: DataRequest, message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        load(request_)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("option", OPTIONS)
def test_a_setting_is_taken_or_refused_by_name(name: str, option: str) -> None:
    request = replace(DataRequest(name), **{option: OPTIONS[option]})
    if option in SOURCES[name].takes:
        assert source_of(request) is SOURCES[name]
        return
    with pytest.raises(ExhumeError, match=f"--data {name} does not take --{option.replace('_', '-')}. Leave it out"):
        load(request)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("sphere", (100, 20)), ("digits", (64, 30)), ("breast-cancer", (30, 50)), ("diabetes", (10, 20)), ("wine", (13, 30))],
)
@pytest.mark.parametrize("n", [None, 12])
def test_the_shape_is_known_before_loading(name: str, shape: tuple[int, int], n: int | None) -> None:
    request = DataRequest(name, n=n)
    data = load(request)
    assert shape_of(request) == (data.d, data.n) == (shape[0], n or shape[1])


@pytest.mark.parametrize(
    ("request_", "shape"),
    [
        (DataRequest("sphere", d=7, n=3), (7, 3)),
        (DataRequest("cifar10"), (3072, 10)),
        (DataRequest("cifar10-multi", size=16), (768, 10)),
        (DataRequest("tiny-imagenet", n=4), (12288, 4)),
    ],
)
def test_the_shape_follows_the_request(request_: DataRequest, shape: tuple[int, int]) -> None:
    assert shape_of(request_) == shape


def test_the_folder_of_this_machine_goes_to_sources_of_photographs_that_name_none(tmp_path: Path) -> None:
    assert placed(DataRequest("cifar10"), tmp_path).directory == tmp_path
    assert placed(DataRequest("cifar10", data_dir="mine"), tmp_path).directory == Path("mine")
    assert placed(DataRequest("sphere"), tmp_path) == DataRequest("sphere")


def test_places_may_be_strings() -> None:
    request = DataRequest("file", data_dir="a", data_file="b.csv")
    assert (request.directory, request.file) == (Path("a"), Path("b.csv"))
    assert (DataRequest("sphere").directory, DataRequest("sphere").file) == (None, None)
