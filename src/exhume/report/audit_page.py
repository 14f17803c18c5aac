"""The audit's report: one self-contained page, and the same content as JSON."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from exhume.auditing import Audit, Ladder
from exhume.auditing.mitigation.ladder import cost
from exhume.auditing.verdict import LIMITS
from exhume.data import Dataset
from exhume.report import charts
from exhume.report.trial_page import render
from exhume.storage.atomic import json_text, write_text
from exhume.version import __version__

# The most exposed samples that are shown: pictures, or rows and columns of a table.
_PICTURES = 20
_TABLE_ROWS = 8
_TABLE_COLUMNS = 8


def write_audit(audit: Audit, folder: str | Path, *, command: str = "") -> Path:
    """Write index.html and report.json into `folder`; neither needs a network or another file."""
    folder = Path(folder)
    row = audit.row() | {"exhume": __version__, "torch": torch.__version__, "python": platform.python_version(), "command": command}
    write_text(folder / "report.json", json_text(row, indent=1))
    return render(folder, "audit.html.j2", **audit_context(audit, command))


def write_ladder(audit: Audit, ladder: Ladder, folder: str | Path, *, command: str = "") -> Path:
    """The audit's page with the mitigation ladder on it, and ladder.json."""
    folder = Path(folder)
    write_text(folder / "ladder.json", json_text(ladder.row() | {"exhume": __version__, "command": command}, indent=1))
    context = audit_context(audit, command)
    context |= {"rungs": ladder.rungs, "skipped": ladder.skipped, "best": ladder.cheapest, "price": cost}
    return render(folder, "ladder.html.j2", **context, ladder=charts.ladder(ladder))


def audit_context(audit: Audit, command: str) -> dict[str, Any]:
    """What the template shows."""
    guess, law, truth = audit.guess, audit.law, audit.subject.truth
    shown = [one for one in audit.exposures if one.row is not None][: _PICTURES if truth.kind == "image" else _TABLE_ROWS]
    context: dict[str, Any] = {
        "audit": audit,
        "verdict": audit.verdict,
        "law": law,
        "guess": guess,
        "proof": guess.certificate,
        "calibration": audit.calibration,
        "knowledge": _knowledge(audit),
        "limits": LIMITS,
        "command": command,
        "torch": torch.__version__,
        "axis": charts.law_axis(law.p, law.d, law.n),
        "exposure": charts.exposure(
            [one.error for one in audit.exposures], audit.within, audit.score.chance_signed, directions=audit.directions
        ),
        "loss": charts.loss_curve(guess) if guess.curve.loss else None,
        "cliff": charts.cliff(guess) if guess.removal_costs else None,
        "more": sum(one.row is not None for one in audit.exposures) - len(shown),
    }
    if shown:
        some, rebuilt = _pairs(audit, [one.sample for one in shown], [one.row for one in shown if one.row is not None])
        if truth.kind == "image":
            context["pairs"] = charts.picture_pairs(some, rebuilt)
        elif truth.kind == "table":
            context["table"] = _table(some, rebuilt, shown, known=audit.knowledge.statistics)
    return context


def _pairs(audit: Audit, samples: list[int], rows: list[int]) -> tuple[Dataset, torch.Tensor]:
    """The samples and the rows rebuilt of them, as they are shown: lengths and pixel statistics that are unknown are fitted."""
    truth = audit.subject.truth
    some = replace(truth, rows=truth.rows[samples], labels=torch.arange(len(samples)).double())
    rebuilt = audit.guess.rows[rows].double()
    if audit.directions:
        rebuilt = rebuilt * (some.rows.norm(dim=1) / rebuilt.norm(dim=1).clamp(min=1e-300))[:, None]
    if truth.kind == "image" and not audit.knowledge.statistics:
        unit = torch.ones(truth.d, dtype=torch.float64)
        some = replace(some, rows=_full_range(some.rows), mean=0 * unit, spread=unit, white=1.0)
        rebuilt = _full_range(rebuilt)
    return some, rebuilt


def _full_range(rows: torch.Tensor) -> torch.Tensor:
    low, high = rows.min(dim=1, keepdim=True).values, rows.max(dim=1, keepdim=True).values
    return ((rows - low) / (high - low).clamp(min=1e-300)).clamp(min=1e-6)


def _table(some: Dataset, rebuilt: torch.Tensor, shown: list[Any], *, known: bool) -> dict[str, Any]:
    width = min(_TABLE_COLUMNS, some.d)
    # Without mean and spread the attacker sees the model's inputs, not the columns' own units.
    true, made = (some.raw(some.rows), some.raw(rebuilt)) if known else (some.rows, rebuilt)
    return {
        "units": known,
        "columns": some.columns[:width],
        "more_columns": some.d - width,
        "pairs": [
            (one, [f"{v:.5g}" for v in true[i, :width]], [f"{v:.5g}" for v in made[i, :width]]) for i, one in enumerate(shown)
        ],
    }


def _knowledge(audit: Audit) -> list[tuple[str, str]]:
    facts, known = audit.subject.release.facts, audit.knowledge
    network = bool(audit.subject.release.trained) and not audit.subject.release.features_stayed
    start = {"all": "all layers", "last": "the last layer only", "none": "not known"}[known.init]
    if network and not audit.subject.release.initial:
        start = "not known"
    return [
        ("trained weights and the model's graph", "known"),
        ("weights before training", start if network else "not needed: the last layer is fitted from zero on fixed features"),
        ("number of samples", str(facts.n) if facts.n is not None else "not known"),
        ("mean and spread of the inputs", "known" if known.statistics else "not known"),
        ("what labels look like", "known (one-hot, or all of one size)" if known.labels else "not known"),
        ("the samples themselves", "not known to the attack; used to score it and for the pictures here"),
    ]
