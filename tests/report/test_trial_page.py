"""The page of a trial and of a comparison: what stands on it, and that it needs nothing else."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from exhume.errors import ExhumeError
from exhume.knowledge import Facts
from exhume.lab import TrialResult
from exhume.report.snapshots import Recorder, Snapshot
from exhume.report.trial_page import Story, draw_score, render, write_comparison, write_page
from exhume.result import Status
from support.figure_cases import line_named
from support.pages import DIGITS, SPHERE, WINE, comparison, read, result

wordy = pytest.mark.usefixtures("unwritten")


def told(one: TrialResult, folder: Path, **story: Any) -> str:
    """The text of the page of a trial, on one line."""
    page = read(write_page([Story.of(one, **story)], folder))
    return " ".join(page.text.split())


@wordy
@pytest.mark.parametrize(
    ("status", "covered", "verdict"),
    [
        (Status.CERTIFIED, 4, "All 4 training rows were rebuilt from the weights alone, and the attacker can prove it."),
        (Status.CERTIFIED, 3, "3 of 4 training rows were rebuilt within 10% from the weights alone."),
        (Status.STALLED, 4, "4 of 4 training rows were rebuilt within 10% from the weights alone. Status: stalled."),
        (Status.STALLED, 0, "No training row was rebuilt within 10%. Status: stalled."),
    ],
)
def test_the_verdict_claims_no_more_than_was_found(status: Status, covered: int, verdict: str, tmp_path: Path) -> None:
    done = result(SPHERE)
    changed = replace(done, guess=replace(done.guess, status=status), score=replace(done.score, covered=covered))
    assert verdict in told(changed, tmp_path)


@wordy
@pytest.mark.parametrize(
    ("source", "alts"),
    [
        (SPHERE, ["p = 48 against n = 4 and d n = 24", "Loss", "Removal cost", "Relative error"]),
        (WINE, ["p = 312 against n = 12 and d n = 156", "Loss", "Removal cost", "Relative error"]),
        (DIGITS, ["Training pictures", "p = 512", "Loss", "Removal cost", "Relative error"]),
    ],
)
def test_every_kind_of_data_has_its_pictures(source: Any, alts: list[str], tmp_path: Path) -> None:
    page = read(write_page([Story.of(result(source))], tmp_path))
    assert len(page.images) == len(alts)
    assert all(image["alt"].startswith(alt) for image, alt in zip(page.images, alts, strict=True))
    assert ("table" in page.tags) is (source is WINE)


@wordy
def test_a_table_shows_true_and_rebuilt_rows_in_their_own_units(tmp_path: Path) -> None:
    done = result(WINE)
    raw = done.truth.raw(done.truth.rows)
    text = told(done, tmp_path)
    assert f"1, truth{raw[0, 0]:.5g}{raw[0, 1]:.5g}" in text
    assert f"1, rebuilt{raw[0, 0]:.5g}" in text  # the attack hands back the truth
    assert done.truth.columns[0] in text
    assert "6, rebuilt" in text
    assert "7, truth" not in text
    assert "6 more rows and 5 more columns not shown." in text


@wordy
def test_a_film_is_shown_where_steps_were_recorded(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.snapshots = [Snapshot(step, 0.1, result(DIGITS).truth.rows) for step in range(20)]
    story = Story.of(result(DIGITS), recorder=recorder)
    assert len(story.frames) == 7
    assert any(image["alt"].startswith("Nearest candidate rows") for image in read(write_page([story], tmp_path)).images)


def test_the_title_is_given_or_names_the_data() -> None:
    assert Story.of(result(SPHERE)).title == f"4 rows of {result(SPHERE).truth.name}"
    assert Story.of(result(SPHERE), title="Mine").title == "Mine"


@wordy
def test_everything_put_in_is_escaped(tmp_path: Path) -> None:
    done = result(WINE)
    hostile = "<script>alert(1)</script>"
    columns = (hostile, *done.truth.columns[1:])
    changed = replace(done, truth=replace(done.truth, columns=columns, notes=(hostile,)))
    text = told(changed, tmp_path, title=hostile)  # reading refuses a page with scripts
    assert text.count(hostile) == 3
    assert "<script" not in (tmp_path / "index.html").read_text()


@wordy
@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (Facts(), ["number of samplesnot known; read off the cliff", "norm of the inputsnot known", "size of the labelsnot known"]),
        (Facts(n=4, input_norm=2.5, label_size=1.0), ["number of samples4", "norm of the inputs2.5", "size of the labels1"]),
        (Facts(one_hot=True, input_range=(-1.0, 2.0)), ["size of the labelsone-hot", "range of the inputs-1 to 2"]),
    ],
)
def test_what_the_attacker_knew_is_told(facts: Facts, words: list[str], tmp_path: Path) -> None:
    done = result(SPHERE)
    text = told(replace(done, release=replace(done.release, facts=facts)), tmp_path)
    assert all(word in text for word in words)
    assert "weights of the last layer48 numbers, float64" in text


@wordy
def test_several_stories_stand_on_one_page(tmp_path: Path) -> None:
    page = read(write_page([Story.of(result(SPHERE), title="first"), Story.of(result(WINE), title="second")], tmp_path))
    assert page.tags.count("h2") == 2
    assert page.text.index("first") < page.text.index("second")


@wordy
@pytest.mark.parametrize("source", [SPHERE, DIGITS])
def test_a_comparison_is_one_table_and_one_picture(source: Any, tmp_path: Path) -> None:
    done = comparison(source)
    page = read(write_comparison(done, tmp_path))
    text = " ".join(page.text.split())
    assert "2 attacks on one victim" in text
    assert f"Random features, 4 rows of {done.results[0].truth.name}, p / (d n) = 2." in text
    assert "<b>far</b>" in text  # shown, not bold
    assert f"kkt was not run: {done.refused[0][1]}" in text
    far = done.results[1].score
    assert f"{far.rho_signed:.2g}" in text
    assert f"{far.chance_signed:.2g}" in text
    assert ("SSIM" in text) is (source is DIGITS)
    assert len(page.images) == 1


def test_the_score_of_pictures_is_a_png_and_of_rows_an_svg(tmp_path: Path, sheets: list[Figure]) -> None:
    digits, rows = result(DIGITS), result(SPHERE, 1.05)
    draw_score(digits.truth, digits.guess, digits.score, tmp_path / "score.png")
    with Image.open(tmp_path / "score.png") as image:
        assert image.format == "PNG"
    draw_score(rows.truth, rows.guess, rows.score, tmp_path / "score.svg")
    assert "<svg" in (tmp_path / "score.svg").read_text()
    assert line_named(sheets[1].axes[0], "measured").get_ydata() == pytest.approx([0.05] * 4)
    for one, name in ((digits, "score.svg"), (rows, "score.png")):
        with pytest.raises(ExhumeError, match=r"the picture of this score is a \.(png|svg) file, got score\.(svg|png)"):
            draw_score(one.truth, one.guess, one.score, tmp_path / name)


def test_an_open_sign_is_forgiven_in_the_picture(tmp_path: Path, sheets: list[Figure]) -> None:
    done = result(SPHERE)
    for resolved in (False, True):
        guess = replace(done.guess, rows=-done.truth.rows, signs_resolved=resolved)
        draw_score(done.truth, guess, done.score, tmp_path / "score.svg")
        measured = line_named(sheets[-1].axes[0], "measured").get_ydata()
        assert measured.min() > 1 if resolved else measured.max() < 1e-9


def test_a_page_is_written_into_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExhumeError, match=r"is a file\. Give a folder for the page"):
        render(tmp_path / "file", "page.html.j2", stories=[])
    assert render(tmp_path / "new" / "folder", "page.html.j2", stories=[]) == tmp_path / "new" / "folder" / "index.html"


def test_the_picture_on_the_page_shows_the_same_digits_twice(tmp_path: Path) -> None:
    """It is decoded from the page itself; the attack hands back the truth, so that both lines are equal."""
    page = read(write_page([Story.of(result(DIGITS))], tmp_path))
    data = base64.b64decode(page.images[0]["src"].partition(",")[2])
    with Image.open(io.BytesIO(data)) as image:
        pixels = np.asarray(image.convert("L"), dtype=float)
    above, below = np.array_split(pixels, 2)
    assert above.std() > 20
    assert above.mean() == pytest.approx(below.mean(), abs=1.0)
