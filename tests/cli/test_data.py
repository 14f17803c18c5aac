"""`exhume data`: the sources, or one of them looked at."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from exhume.data import SOURCES
from support.command_line import exhume


def test_data_speak_json() -> None:
    assert "sphere" in json.loads(exhume("data", "--json").stdout)
    assert json.loads(exhume("data", "digits", "--n", "10", "--json").stdout)["d"] == 64


def test_all_sources_are_listed_with_what_they_need() -> None:
    listed = json.loads(exhume("data", "--json").stdout)
    assert listed == {name: {"about": one.about, "needs": one.needs} for name, one in SOURCES.items()}
    told = " ".join(exhume("data").stdout.split())
    assert "8x8 handwritten digits" in told
    assert "needs --data-file: npz with X and y" in told


def test_a_source_is_loaded_and_described() -> None:
    facts = json.loads(exhume("data", "sphere", "--n", "7", "--d", "16", "--json").stdout)
    assert (facts["n"], facts["d"], facts["kind"], facts["shape"]) == (7, 16, "vector", [16])
    assert (facts["norm_min"], facts["norm_max"]) == (pytest.approx(4), pytest.approx(4))  # on the sphere of radius sqrt(d)
    told = exhume("data", "sphere", "--n", "7", "--d", "16").stdout
    for words in ("7, 16", "1.000 to 1.000", "112"):  # p = d n
        assert words in told


def test_rows_of_ones_own_are_described_with_their_columns(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("age,size,label\n1,2,0\n3,5,1\n2,9,1\n")
    facts = json.loads(exhume("data", "file", "--data-file", "rows.csv", "--json", cwd=tmp_path).stdout)
    assert (facts["n"], facts["columns"], facts["labels"]) == (3, ["age", "size"], [0.0, 1.0])
    np.savez(tmp_path / "bad.npz", X=np.full((2, 2), np.nan), y=np.arange(2))
    refused = exhume("data", "file", "--data-file", "bad.npz", cwd=tmp_path)
    assert refused.returncode == 2
    assert "NaN" in refused.stderr
