"""Options of data: each is a field of the request."""

from __future__ import annotations

from pathlib import Path

from exhume.cli.options.data import data_options, request_from, subset_options
from exhume.data import DataRequest
from support.options import parsed


def test_the_source_is_the_sphere_unless_it_is_named() -> None:
    given = parsed(data_options)
    assert given.pop("source") == "sphere"
    assert request_from("sphere", given | {"seed": 0}) == DataRequest("sphere")
    assert parsed(data_options, "--data", "wine")["source"] == "wine"


def test_every_option_reaches_the_request() -> None:
    given = parsed(
        subset_options, "--n", "7", "--d", "20", "--rank", "3", "--size", "8", "--data-dir", "photos", "--data-file", "rows.csv"
    )
    expected = DataRequest("x", n=7, d=20, rank=3, size=8, seed=5, data_dir=Path("photos"), data_file=Path("rows.csv"))
    assert request_from("x", given | {"seed": 5}) == expected
