"""Rows of one's own from npz and CSV files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from exhume.data import DataRequest, load
from exhume.data.table_files import read_table
from exhume.errors import ExhumeError


def test_own_npz_and_csv(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 3)), np.array([1.0, -1, 1, -1, 1, -1])
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    lines = ["age,weight,height,label"] + [",".join(str(v) for v in (*x, t)) for x, t in zip(X, y, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    one = load(DataRequest("file", data_file=tmp_path / "rows.npz"))
    two = load(DataRequest("file", data_file=tmp_path / "rows.csv"))
    torch.testing.assert_close(one.rows, two.rows)
    assert one.label_size == 1.0
    assert two.columns == ("age", "weight", "height")
    assert one.columns == ("x0", "x1", "x2")
    np.testing.assert_allclose(one.raw(one.rows).numpy(), X, rtol=1e-12)


def test_values_are_read_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes('\ufeff"a, b",c,y\n\n1e3,-2.5,1\n 4 ,5,0\n7,8,-1\n'.encode())  # a spreadsheet's mark, and an empty line
    table = read_table(path, 2)
    assert table.columns == ("a, b", "c")
    assert table.X.tolist() == [[1000.0, -2.5], [4.0, 5.0]]
    assert table.y.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("top", "white"), [(1.0, 1.0), (200.0, 255.0)])
def test_images_are_standardised_as_a_whole(top: float, white: float, tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((4, 1, 3, 3)) * top
    np.savez(tmp_path / "rows.npz", X=X, y=np.arange(4))
    data = load(DataRequest("file", data_file=tmp_path / "rows.npz"))
    assert (data.kind, data.shape, data.columns, data.white) == ("image", (1, 3, 3), (), white)
    assert data.rows.mean().item() == pytest.approx(0, abs=1e-12)
    assert data.rows.std().item() == pytest.approx(1)
    np.testing.assert_allclose(data.pictures(data.rows)[..., 0], X[:, 0] / white, atol=1e-12)


def bad_npz(tmp_path: Path, **arrays: object) -> DataRequest:
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]
    return DataRequest("file", data_file=tmp_path / "bad.npz")


GOOD = np.arange(12.0).reshape(4, 3) ** 1.5
Y = np.array([1.0, -1, 1, -1])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.where(GOOD == 0, np.nan, GOOD), "y": Y}, "NaN or infinity"),
        ({"X": GOOD, "y": np.array([1, np.inf, 1, 1])}, "NaN or infinity"),
        ({"X": GOOD, "y": Y[:3]}, "expected X"),
        ({"X": GOOD[0], "y": Y}, "expected X"),
        ({"X": GOOD, "y": np.ones(4)}, "distinct labels"),
        ({"X": GOOD}, "arrays 'X' and 'y'"),
        ({"X": GOOD.astype(str), "y": Y}, "real numbers"),
        ({"X": np.stack([GOOD[0], GOOD[0] + 1, GOOD[0] + 2]), "y": Y[:3]}, "norm zero"),
        ({"X": np.array([[object()]]), "y": Y[:1]}, "not a plain npz"),
    ],
)
def test_bad_rows_are_refused(arrays: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ExhumeError, match=message):
        load(bad_npz(tmp_path, **arrays))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a header line"),
        ("a,b,y\n", "expected a header line"),
        ("y\n1\n2\n", "at least two columns"),
        ("a,b,y\n1,2,3\n4,5\n", "line 3 has 2 columns, the header has 3"),
        ("a,b,y\n1,2,3\n4,red,6\n", "line 3 holds text"),
        ("a,b,y\n\n1,2,3\n\n4,,6\n", "line 5 holds text"),
        ("a,b,y\n1,nan,3\n4,5,6\n", r"NaN or infinity, first at \[0, 1\]"),
    ],
)
def test_a_csv_that_is_none_is_refused_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(ExhumeError, match=message):
        read_table(tmp_path / "rows.csv")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(ExhumeError, match="is not a CSV file"):
        read_table(tmp_path / "rows.csv")


def test_files_of_other_kinds_and_too_many_rows_are_refused(tmp_path: Path) -> None:
    for name, suffix in (("rows.txt", ".txt"), ("rows", "no suffix")):
        with pytest.raises(ExhumeError, match=rf"expected a \.npz or \.csv file, got {suffix}"):
            read_table(tmp_path / name)
    request = bad_npz(tmp_path, X=GOOD, y=Y)
    assert request.file is not None
    for n in (0, 5):
        with pytest.raises(ExhumeError, match=f"has 4 rows, n = {n} were asked for. Choose --n from 1 to 4"):
            read_table(request.file, n)
