"""A page from results: truth beside reconstruction, how it was found, how sure that is, what the attacker knew."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from exhume.data import Dataset
from exhume.errors import ExhumeError
from exhume.lab import Comparison, TrialResult
from exhume.report import charts
from exhume.report.snapshots import Recorder, Snapshot
from exhume.result import Reconstruction
from exhume.score import Score
from exhume.score.match import match
from exhume.storage.atomic import write_atomically, write_text
from exhume.version import __version__

# Frames of the film that shows rows on their way.
_FRAMES = 7
# Of a table, as many rows and columns are shown as fit a page.
_TABLE_ROWS = 6
_TABLE_COLUMNS = 8


@dataclass(frozen=True)
class Story:
    """One trial told on the page."""

    result: TrialResult
    title: str
    frames: list[Snapshot] = field(default_factory=list)

    @staticmethod
    def of(result: TrialResult, *, title: str | None = None, recorder: Recorder | None = None) -> Story:
        """The story of a trial, with the recorded steps where there are any."""
        frames = recorder.frames(_FRAMES) if recorder is not None else []
        return Story(result, title or f"{result.truth.n} rows of {result.truth.name}", frames)


def write_page(stories: list[Story], folder: str | Path) -> Path:
    """Write index.html into `folder`; it needs no network and no other file."""
    return render(folder, "page.html.j2", stories=[_context(story) for story in stories])


def write_comparison(comparison: Comparison, folder: str | Path) -> Path:
    """Write index.html into `folder`: one table and one picture of all attacks."""
    first = comparison.results[0]
    release, truth = first.release, first.truth
    about = (
        f"{first.trial.victim} network" if first.trial.victim != "rf" else "Random features"
    ) + f", {truth.n} rows of {truth.name}, p / (d n) = {release.p * release.k / (release.d * truth.n):.3g}."
    return render(
        folder,
        "compare.html.j2",
        about=about[0].upper() + about[1:],
        rows=[result.row() | {"needs": result.trial.attack.needs} for result in comparison.results],
        refused=comparison.refused,
        pictures=truth.kind == "image",
        picture=charts.comparison(list(comparison.results)),
    )


def draw_score(truth: Dataset, guess: Reconstruction, score: Score, path: Path) -> None:
    """Write one picture: truth above reconstruction as PNG, or for rows that are no pictures the error of each as SVG."""
    kind = "png" if truth.kind == "image" else "svg"
    if path.suffix != f".{kind}":
        raise ExhumeError(f"the picture of this score is a .{kind} file, got {path.name}. Name it so.")
    matched = match(truth.rows, guess.rows.double(), forgive_sign=not guess.signs_resolved).rows(guess.rows.double())
    pictures = truth.kind == "image"
    uri = charts.picture_pairs(truth, matched) if pictures else charts.error_bars(truth, matched, guess, score.chance_signed)
    picture = base64.b64decode(uri.partition(",")[2])
    write_atomically(path, lambda temporary: temporary.write_bytes(picture))


def render(folder: str | Path, template: str, **context: Any) -> Path:
    """Write a template as index.html; everything that is put in is escaped."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ExhumeError(f"{folder} is a file. Give a folder for the page.")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("exhume.report", "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    path = folder / "index.html"
    write_text(path, environment.get_template(template).render(version=__version__, **context))
    return path


def _context(story: Story) -> dict[str, Any]:
    result, truth, guess = story.result, story.result.truth, story.result.guess
    row = result.row()
    matched = match(truth.rows, guess.rows.double(), forgive_sign=not guess.signs_resolved).rows(guess.rows.double())
    context: dict[str, Any] = {
        "title": story.title,
        "row": row,
        "verdict": _verdict(result),
        "knowledge": _knowledge(result),
        # A search for columns has no loss that falls to rounding: columns are found or not.
        "loss": charts.loss_curve(guess) if guess.curve.loss and guess.attack != "first-layer" else None,
        "cliff": charts.cliff(guess) if guess.removal_costs else None,
        "law": _law(result),
        "errors": charts.error_bars(truth, matched, guess, row["chance_signed"]),
    }
    if truth.kind == "image":
        context["pairs"] = charts.picture_pairs(truth, matched)
        if story.frames:
            context["film"] = charts.filmstrip(truth, story.frames)
    if truth.kind == "table":
        context["table"] = _table(result, matched)
    return context


def _law(result: TrialResult) -> str:
    """The law that the attack reads: the first layer's, or the last layer's."""
    release, n = result.release, result.truth.n
    if result.trial.attack.name == "first-layer":
        weights = sum(value.numel() for value in release.trained.values())
        return charts.first_layer_axis(len(release.trained[release.model.first_weight or ""]), n, release.d, weights)
    return charts.law_axis(release.p * release.k, release.d, n)


def _verdict(result: TrialResult) -> str:
    n, found = result.truth.n, result.score.covered
    if result.guess.certified and found == n:
        return f"All {n} training rows were rebuilt from the weights alone, and the attacker can prove it."
    if found:
        return f"{found} of {n} training rows were rebuilt within 10% from the weights alone. Status: {result.guess.status.value}."
    return f"No training row was rebuilt within 10%. Status: {result.guess.status.value}."


def _knowledge(result: TrialResult) -> list[tuple[str, str]]:
    facts = result.release.facts
    unknown = "not known"
    return [
        ("weights of the last layer", f"{result.release.p * result.release.k} numbers, {result.row()['dtype']}"),
        ("feature map", result.release.model.in_words(result.release.initial)),
        (
            "number of samples",
            str(facts.n)
            if facts.n is not None
            else unknown
            + ("; the rank of the first layer's change" if result.trial.attack.name == "first-layer" else "; read off the cliff"),
        ),
        ("norm of the inputs", f"{facts.input_norm:.4g}" if facts.input_norm is not None else unknown),
        ("range of the inputs", "{:.3g} to {:.3g}".format(*facts.input_range) if facts.input_range is not None else unknown),
        (
            "size of the labels",
            "one-hot" if facts.one_hot else f"{facts.label_size:g}" if facts.label_size is not None else unknown,
        ),
        ("labels, samples, pixel statistics", unknown + " to the attack; used here only to draw and score"),
    ]


def _table(result: TrialResult, matched: Any) -> dict[str, Any]:
    truth = result.truth
    width = min(_TABLE_COLUMNS, truth.d)
    true, rebuilt = truth.raw(truth.rows), truth.raw(matched)
    return {
        "columns": truth.columns[:width],
        "more_columns": truth.d - width,
        "more_rows": max(0, truth.n - _TABLE_ROWS),
        "pairs": [
            ([f"{v:.5g}" for v in true[i, :width]], [f"{v:.5g}" for v in rebuilt[i, :width]])
            for i in range(min(_TABLE_ROWS, truth.n))
        ],
    }
