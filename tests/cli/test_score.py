"""`exhume score`: a reconstruction against the truth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exhume.data import DataRequest, load, save_dataset
from exhume.lab import Trial, train_victim
from exhume.release import save_release
from exhume.result import save_reconstruction
from exhume.score import evaluate
from support.audit_cases import reconstruction
from support.command_line import exhume


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Releases and truths of rows and of digits, and guesses that are off by a known share."""
    made = tmp_path_factory.mktemp("scores")
    for name, data in (("rows", DataRequest("sphere", d=9, n=4)), ("digits", DataRequest("digits", n=4))):
        trained = train_victim(Trial(data, ratio=2.0), load(data))
        save_release(trained.release, made / f"{name}.release")
        save_dataset(trained.truth, made / f"{name}.truth")
        save_reconstruction(reconstruction(1.05 * trained.truth.rows, signs_resolved=True), made / f"{name}.guess")
    return made


def score(folder: Path, name: str, *arguments: str, truth: str | None = None) -> tuple[int, str, str]:
    files = [f"{name}.guess", "--release", f"{name}.release", "--truth", f"{truth or name}.truth"]
    done = exhume("score", *files, *arguments, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def test_the_error_is_that_of_equation_12(folder: Path) -> None:
    """Rows at the sphere's radius sqrt(d), each off by 5%: rho = 0.05."""
    code, out, _ = score(folder, "rows", "--json")
    told = json.loads(out)
    assert code == 0
    assert (told["rho_signed"], told["rho_direction"]) == (pytest.approx(0.05), pytest.approx(0, abs=1e-9))
    assert (told["n_true"], told["n_found"], told["covered"]) == (4, 4, 4)
    assert "psnr" not in told


def test_a_person_reads_chance_beside_every_figure(folder: Path) -> None:
    _, rows, _ = score(folder, "rows")
    assert "4 found, 4 true, 4 within 10%" in rows
    assert "5.00e-02   (chance" in rows
    assert "PSNR" not in rows
    _, digits, _ = score(folder, "digits")
    assert "PSNR, SSIM" in digits


@pytest.mark.parametrize(("bound", "code"), [("0.06", 0), ("0.04", 1)])
def test_an_expectation_sets_the_exit_code(bound: str, code: int, folder: Path) -> None:
    assert score(folder, "rows", "--expect", bound)[0] == code


@pytest.mark.parametrize(("name", "picture", "start"), [("rows", "a.svg", b"<?xml"), ("digits", "a.png", b"\x89PNG")])
def test_a_picture_is_drawn_on_demand(name: str, picture: str, start: bytes, folder: Path) -> None:
    assert score(folder, name, "--picture", picture)[0] == 0
    assert (folder / picture).read_bytes().startswith(start)


def test_files_that_do_not_belong_together_are_refused(folder: Path) -> None:
    code, _, errors = score(folder, "rows", truth="digits")
    assert code == 2
    assert errors == "exhume: the three files do not belong together: d = 9 (guess), 9 (release), 64 (truth).\n"


def test_the_score_is_that_of_python(folder: Path) -> None:
    from exhume.data import load_dataset
    from exhume.release import load_release
    from exhume.result import load_reconstruction

    truth, release = load_dataset(folder / "rows.truth"), load_release(folder / "rows.release")
    guess = load_reconstruction(folder / "rows.guess")
    swapped = replace(guess, rows=-guess.rows)
    save_reconstruction(swapped, folder / "swapped.guess")
    done = exhume("score", "swapped.guess", "--release", "rows.release", "--truth", "rows.truth", "--json", cwd=folder)
    told, expected = json.loads(done.stdout), evaluate(swapped, truth, release)
    for name in ("rho", "rho_signed", "chance", "chance_signed", "span_residual"):
        assert told[name] == pytest.approx(getattr(expected, name))
    assert told["rho"] == pytest.approx(0.05)  # the sign is forgiven
