"""What an attack hands back: flat rows, curves, and files."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from exhume.errors import ExhumeError
from exhume.result import Certificate, Curve, Reconstruction, Status, load_reconstruction, save_reconstruction
from exhume.storage.tensor_file import read_tensors, write_tensors

PROOF = Certificate(3000, 2000, loss=1e-20, floor=1e-15, row_errors=(1e-9, 3e-8), weakest_row=1e-3, strongest_spare=1e-18)
GUESS = Reconstruction(
    torch.randn(2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
    Status.CERTIFIED,
    "all is well",
    PROOF,
    "gauss-newton",
    passes=120,
    seconds=1.5,
    curve=Curve((0.5, 1e-20), (1, 2), (60, 120), (0.7, 1.5)),
    removal_costs=(0.5, 0.1, 1e-18),
    signs_resolved=True,
    scale="known norm",
    notes=("one", "two"),
)


def test_a_margin_is_equations_per_unknown() -> None:
    assert PROOF.margin == 1.5


def test_what_an_attack_does_not_say_is_not_claimed() -> None:
    proof = Certificate(1, 1, 0.0, 0.0)
    assert (proof.row_errors, proof.weakest_row, proof.strongest_spare, proof.separation) == ((), 0.0, None, 0.0)
    guess = Reconstruction(GUESS.rows, Status.UNCERTIFIED, "", proof, "mine", 0, 0.0)
    assert (guess.signs_resolved, guess.scale, guess.notes, guess.removal_costs, guess.curve) == (False, "unknown", (), (), Curve())


@pytest.mark.parametrize("status", Status)
def test_certified_is_one_status_of_three(status: Status) -> None:
    guess = replace(GUESS, status=status)
    assert guess.certified == (status is Status.CERTIFIED)
    assert guess.loss == 1e-20


def test_a_curve_grows_by_a_step_and_stays_as_it_was() -> None:
    longer = GUESS.curve.extended(loss=0.0, rows=3, passes=180, seconds=2.0)
    assert longer == Curve((0.5, 1e-20, 0.0), (1, 2, 3), (60, 120, 180), (0.7, 1.5, 2.0))
    assert len(GUESS.curve.loss) == 2


def test_a_row_is_one_flat_json_object() -> None:
    row = GUESS.row()
    assert json.loads(json.dumps(row)) == row
    assert not any(isinstance(value, dict) for value in row.values())
    expected = {
        "n_found": 2,
        "certified": True,
        "status": "converged and certified",
        "row_error_max": 3e-8,
        "notes": ["one", "two"],
    }
    assert expected.items() <= row.items()
    assert (row["equations"], row["unknowns"], row["weakest_row"], row["strongest_spare"]) == (3000, 2000, 1e-3, 1e-18)
    assert replace(GUESS, certificate=replace(PROOF, row_errors=())).row()["row_error_max"] is None


@pytest.mark.parametrize(
    "guess",
    [
        GUESS,
        replace(GUESS, status=Status.STALLED, curve=Curve(), notes=(), removal_costs=(), rows=GUESS.rows[:0]),
        replace(GUESS, certificate=replace(PROOF, strongest_spare=None, row_errors=(math.inf,)), rows=GUESS.rows.float()),
    ],
    ids=["full", "empty", "infinite"],
)
def test_every_field_survives_a_file(guess: Reconstruction, tmp_path: Path) -> None:
    save_reconstruction(guess, tmp_path / "guess")
    back = load_reconstruction(str(tmp_path / "guess"))
    assert torch.equal(back.rows, guess.rows)
    assert back.rows.dtype == guess.rows.dtype
    assert replace(back, rows=guess.rows) == guess


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"status": "PERFECT"}, "PERFECT"),
        ({"certificate": {"equations": 1}}, "unknowns"),
        ({"curve": 3}, "items"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(change: dict[str, object], word: str, tmp_path: Path) -> None:
    path = tmp_path / "guess"
    save_reconstruction(GUESS, path)
    tensors, header = read_tensors(path, "reconstruction", "exhume-reconstruction-1")
    write_tensors(path, tensors, header | change)
    with pytest.raises(ExhumeError, match=f"lacks or misspells .*{word}.* Write it again with `exhume reconstruct`"):
        load_reconstruction(path)


def test_a_file_without_rows_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "guess"
    save_reconstruction(GUESS, path)
    _, header = read_tensors(path, "reconstruction", "exhume-reconstruction-1")
    write_tensors(path, {"columns": torch.ones(2)}, header)
    with pytest.raises(ExhumeError, match="lacks or misspells 'rows'"):
        load_reconstruction(path)
    write_tensors(path, {"rows": torch.ones(2, 2)}, header | {"format": "exhume-release-1"})
    with pytest.raises(ExhumeError, match="must be exhume-reconstruction-1, got exhume-release-1"):
        load_reconstruction(path)
