"""The audit's report: the page and the JSON beside it, in the units that the attacker knows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import exhume
from exhume.auditing import Audit, Ladder, Rung
from exhume.knowledge import Knowledge
from exhume.report import write_audit, write_ladder
from exhume.report.audit_page import audit_context
from exhume.result import Curve
from exhume.version import __version__
from support.audit_cases import network_audit, pipeline_audit, reconstruction
from support.figure_cases import level
from support.models import relu_pipeline
from support.pages import read

wordy = pytest.mark.usefixtures("unwritten")
HOSTILE = "<script>alert(1)</script>"


def text_of(path: Path) -> str:
    return " ".join(read(path).text.split())


def renamed(audit: Audit, **changes: Any) -> Audit:
    return replace(audit, subject=replace(audit.subject, **changes))


def test_the_report_is_a_page_and_the_same_as_json(tmp_path: Path) -> None:
    found = pipeline_audit()
    page = write_audit(found, tmp_path / "report", command="exhume audit --data 'a b.csv'")
    assert page == tmp_path / "report" / "index.html"
    row = json.loads((tmp_path / "report" / "report.json").read_text())
    assert row["verdict"]["headline"] == found.verdict.headline
    assert (row["exhume"], row["torch"], row["command"]) == (__version__, torch.__version__, "exhume audit --data 'a b.csv'")
    text = text_of(page)
    for words in (found.verdict.headline, found.verdict.detail, "five patients", "exhume audit --data 'a b.csv'", *row["limits"]):
        assert words in text
    assert "0 of 40 held-out samples would have counted as rebuilt" in text
    assert f"held-out error {found.utility['held_out_error']:.3g}" in text


@wordy
def test_names_of_models_columns_and_commands_are_escaped(tmp_path: Path) -> None:
    truth = pipeline_audit().subject.truth
    hostile = renamed(pipeline_audit(), name=HOSTILE, about=HOSTILE, truth=replace(truth, columns=(HOSTILE, *truth.columns[1:])))
    page = write_audit(hostile, tmp_path, command=HOSTILE)
    assert text_of(page).count(HOSTILE) >= 4  # title, name, about, column and command: shown, never run
    assert "<script" not in page.read_text()


@wordy
def test_the_most_exposed_rows_are_shown_in_their_own_units() -> None:
    found = pipeline_audit()
    table = audit_context(found, "")["table"]
    truth = found.subject.truth
    assert table["columns"] == truth.columns[:8]
    assert table["more_columns"] == 22
    assert [one for one, _, _ in table["pairs"]] == list(found.exposures)
    for one, true, made in table["pairs"]:
        raw = truth.raw(truth.rows)[one.sample]
        assert true == made == [f"{value:.5g}" for value in raw[:8]]  # exact to five digits


@wordy
def test_columns_are_shown_in_the_models_units_where_their_statistics_are_hidden(tmp_path: Path) -> None:
    model, X, y = relu_pipeline(6)
    hidden = exhume.audit(model, data=(X, y), knowledge=exhume.Knowledge(statistics=False))
    page = write_audit(hidden, tmp_path).read_text()
    assert "Values as the model takes them" in page
    assert f"{X[0, 3]:.5g}" not in page  # the mean area of a patient, in its own unit


def test_pictures_are_shown_with_their_truth(unwritten: list[Figure]) -> None:
    found = network_audit()
    context = audit_context(found, "")
    assert context["pairs"].startswith("data:image/png")
    pictures = unwritten[-1].axes
    assert len(pictures) == 8
    order = [one.sample for one in found.exposures]
    expected = found.subject.truth.pictures(found.subject.truth.rows[order])
    for axes, picture in zip(pictures[:4], expected, strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), picture[..., 0])


def test_pictures_are_stretched_to_their_range_where_statistics_are_hidden(unwritten: list[Figure], tmp_path: Path) -> None:
    hidden = replace(network_audit(), knowledge=Knowledge(statistics=False))
    assert "every picture is stretched to its full range" in text_of(write_audit(hidden, tmp_path))
    for axes in unwritten[-1].axes:
        pixels = axes.images[0].get_array()
        assert (pixels.min(), pixels.max()) == (pytest.approx(0, abs=1e-5), pytest.approx(1))


@wordy
def test_directions_are_shown_at_the_length_of_their_sample() -> None:
    found = pipeline_audit()
    doubled = replace(found, guess=replace(found.guess, rows=2 * found.guess.rows))
    exact, wrong, fitted = (
        audit_context(audit, "")["table"]["pairs"] for audit in (found, doubled, replace(doubled, directions=True))
    )
    assert fitted == exact
    assert wrong != exact


@wordy
def test_what_is_more_than_fits_is_counted(tmp_path: Path) -> None:
    found = pipeline_audit()
    many = tuple(replace(found.exposures[0], sample=i % 5) for i in range(30))
    context = audit_context(replace(found, exposures=many), "")
    assert len(context["table"]["pairs"]) == 8
    assert context["more"] == 22
    assert "22 more samples and 22 more columns not shown." in text_of(write_audit(replace(found, exposures=many), tmp_path))


@wordy
def test_where_nothing_was_found_no_pairs_are_shown(tmp_path: Path) -> None:
    found = pipeline_audit()
    nothing = tuple(replace(one, row=None, error=1.0, rebuilt=False) for one in found.exposures)
    guess = reconstruction(torch.zeros(0, 30), curve=Curve())
    page = write_audit(replace(found, exposures=nothing, guess=guess), tmp_path)
    assert "Most exposed samples" not in text_of(page)
    assert len(read(page).images) == 1  # the law alone: no curve, no cliff


def test_the_exposure_chart_has_the_bound_and_chance(unwritten: list[Figure]) -> None:
    audit_context(pipeline_audit(), "")
    _, exposure = unwritten[:2]
    assert level(exposure.axes[0]) == [0.1, pipeline_audit().score.chance_signed]


@wordy
@pytest.mark.parametrize(
    ("audit", "expected"),
    [
        (pipeline_audit, {"weights before training": "not needed: the last layer is fitted from zero on fixed features"}),
        (network_audit, {"weights before training": "all layers", "number of samples": "not known"}),
        (lambda: replace(network_audit(), knowledge=Knowledge(init="last")), {"weights before training": "the last layer only"}),
        (
            lambda: renamed(network_audit(), release=replace(network_audit().subject.release, initial={})),
            {"weights before training": "not known"},
        ),
        (
            lambda: replace(network_audit(), knowledge=Knowledge(labels=False, statistics=False)),
            {"what labels look like": "not known", "mean and spread of the inputs": "not known"},
        ),
    ],
)
def test_what_the_attacker_knew_is_told(audit: Any, expected: dict[str, str]) -> None:
    assert expected.items() <= dict(audit_context(audit(), "")["knowledge"]).items()


def _ladder(*, stopped: bool) -> Ladder:
    rungs = (
        Rung("as it is", "", "as it is", 5, 5, True, 0.0, 0.075, 1.0),
        Rung("pruning", "90%", "applied", 0 if stopped else 4, 5, False, 0.0, 0.125, 1.0),
    )
    return Ladder(rungs, (("DP-SGD", "<b>opacus</b> is absent"),), 0.0)


@wordy
def test_the_ladder_names_the_cheapest_step_and_its_price(tmp_path: Path) -> None:
    page = write_ladder(pipeline_audit(), _ladder(stopped=True), tmp_path, command="exhume mitigate")
    text = text_of(page)
    assert "The cheapest step that stops the attack is pruning, 90%: 0 of 5 rebuilt, held-out error 0.125 against 0.075" in text
    assert "Not run: DP-SGD (<b>opacus</b> is absent)." in text
    assert "Can these weights be released?" in text  # the audit's own page is around it
    row = json.loads((tmp_path / "ladder.json").read_text())
    assert (row["cheapest"], row["command"], row["exhume"]) == ("pruning, 90%", "exhume mitigate", __version__)
    assert any(image["alt"].startswith("Share of samples rebuilt") for image in read(page).images)


@wordy
def test_a_ladder_without_a_stop_says_so(tmp_path: Path) -> None:
    assert "None of these steps stopped the attack." in text_of(write_ladder(pipeline_audit(), _ladder(stopped=False), tmp_path))
