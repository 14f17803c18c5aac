"""What the charts draw: points, bars, lines, labels and pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from exhume.auditing import Ladder, Rung
from exhume.report import charts
from exhume.report.palette import BLUE, GREY, RED
from exhume.report.snapshots import Snapshot
from exhume.result import Certificate, Curve
from support.audit_cases import reconstruction, vectors
from support.figure_cases import level, line_named, upright, words
from support.pages import DIGITS, SPHERE, comparison, kind_of

GUESS = reconstruction(
    torch.zeros(4, 6),
    curve=Curve((1.0, 1e-3, 1e-9), (1, 3, 4), (10, 20, 40), (0.1, 0.2, 0.4)),
    removal_costs=(1.0, 0.5, 0.2, 0.1, 1e-9, 0.0),
    certificate=Certificate(100, 50, 1e-9, 1e-15, row_errors=(1e-4, 3e-4, 2e-4, 1e-5)),
)


def shades(axes: Any) -> list[float] | None:
    """The picture of an axes as a flat list; None where there is none."""
    return None if not axes.images else np.asarray(axes.images[0].get_array()).ravel().tolist()


def test_the_loss_curve_has_losses_rows_and_the_floor(sheets: list[Figure]) -> None:
    assert kind_of(charts.loss_curve(GUESS)) == "svg"
    left, right = sheets[0].axes
    assert left.lines[0].get_xydata().tolist() == [[10, 1.0], [20, 1e-3], [40, 1e-9]]
    assert left.get_yscale() == "log"
    assert level(left) == [1e-15]
    assert words(left) == ["rounding floor"]
    assert right.lines[0].get_xydata().tolist() == [[10, 1], [20, 3], [40, 4]]
    assert right.get_ylim() == (0, pytest.approx(4.6))


def test_a_loss_far_above_the_floor_is_drawn_without_it(sheets: list[Figure]) -> None:
    charts.loss_curve(replace(GUESS, certificate=Certificate(100, 50, 1e-9, 1e-18)))
    assert level(sheets[0].axes[0]) == []


def test_the_cliff_parts_rows_found_from_spare_ones(sheets: list[Figure]) -> None:
    assert kind_of(charts.cliff(GUESS)) == "svg"
    (axes,) = sheets[0].axes
    assert line_named(axes, "rows found").get_xydata().tolist() == [[1, 1.0], [2, 0.5], [3, 0.2], [4, 0.1]]
    assert line_named(axes, "spare rows, added to test").get_xydata().tolist() == [[5, 1e-9], [6, 1e-32]]  # zero can be drawn
    assert upright(axes) == [4.5]
    assert words(axes) == ["n = 4"]


@pytest.mark.parametrize(("p", "side"), [(8000, "right"), (10, "left")])
def test_the_law_axis_shows_n_dn_and_this_model(p: int, side: str, sheets: list[Figure]) -> None:
    assert kind_of(charts.law_axis(p, 100, 20)) == "svg"
    (axes,) = sheets[0].axes
    assert upright(axes) == [20, 2000]
    assert axes.lines[-1].get_xydata().tolist() == [[p, 0.3]]
    told = {text.get_text(): text for text in axes.texts}
    assert {"p = n = 20", "p = dn = 2000", f"this model: p = {p}", "memorises labels"} <= told.keys()
    assert told[f"this model: p = {p}"].get_ha() == side  # the label stays inside
    low, high = axes.get_xlim()
    assert low < min(p, 20)
    assert high > max(p, 2000)
    assert [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches] == [
        (low, 20),
        (20, 2000),
        (2000, high),
    ]


@pytest.mark.parametrize("n", [3, 10, 13])
def test_pairs_stand_truth_above_reconstruction(n: int, sheets: list[Figure]) -> None:
    shade = torch.arange(1.0, n + 1)[:, None].expand(n, 4) / 20
    truth = vectors(shade, kind="image", shape=(1, 2, 2))
    assert kind_of(charts.picture_pairs(truth, shade / 2)) == "png"
    per_line = min(n, 10)
    grid = np.array(sheets[0].axes).reshape(-1, per_line)
    lines = -(-n // per_line)
    assert len(grid) == 2 * lines
    for i in range(lines * per_line):
        line, column = divmod(i, per_line)
        above, below = grid[2 * line, column], grid[2 * line + 1, column]
        expected = None if i >= n else pytest.approx([(i + 1) / 20] * 4)
        assert shades(above) == expected
        assert shades(below) == (None if i >= n else pytest.approx([(i + 1) / 40] * 4))
    assert [line[0].get_ylabel() for line in grid] == ["truth", "rebuilt"] * lines


def test_colour_pictures_keep_their_channels(sheets: list[Figure]) -> None:
    truth = vectors(torch.rand(2, 12, generator=torch.Generator().manual_seed(0)), kind="image", shape=(3, 2, 2))
    charts.picture_pairs(truth, truth.rows)
    np.testing.assert_allclose(sheets[0].axes[0].images[0].get_array(), truth.rows[0].reshape(3, 2, 2).permute(1, 2, 0).numpy())


@pytest.mark.parametrize("source", [SPHERE, DIGITS])
def test_a_comparison_has_a_pair_of_bars_for_every_attack_beside_chance(source: Any, sheets: list[Figure]) -> None:
    done = comparison(source)
    assert kind_of(charts.comparison(list(done.results), count=3)) == "png"
    axes, *pictures = sheets[0].axes
    scores = [one.score for one in done.results]
    ends = [round(bar.get_x() + bar.get_width(), 9) for bar in axes.patches]
    assert ends == [round(max(e, 1e-16), 9) for e in (*(s.rho_signed for s in scores), *(s.rho_direction for s in scores))]
    assert upright(axes) == [scores[0].chance_signed]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["exact", "<b>far</b>"]
    if source is SPHERE:
        assert not pictures
        return
    grid = np.array(pictures).reshape(3, 3)
    assert [line[0].get_ylabel() for line in grid] == ["truth", "exact", "<b>far</b>"]
    for above, below in zip(grid[0], grid[1], strict=True):
        assert shades(above) == pytest.approx(shades(below))
    assert shades(grid[0][0]) != pytest.approx(shades(grid[2][0]))


def test_exposures_are_red_within_the_bound_and_grey_beyond(sheets: list[Figure]) -> None:
    assert kind_of(charts.exposure([0.0, 0.05, 0.1, 0.7], 0.1, 1.2, directions=False)) == "svg"
    (axes,) = sheets[0].axes
    rebuilt, others = line_named(axes, "rebuilt"), line_named(axes, "not rebuilt")
    assert rebuilt.get_xydata().tolist() == [[1, 1e-16], [2, 0.05]]
    assert others.get_xydata().tolist() == [[3, 0.1], [4, 0.7]]  # on the bound is not within
    assert (rebuilt.get_color(), others.get_color()) == (RED, GREY)
    assert level(axes) == [0.1, 1.2]
    assert words(axes) == ["10%", "chance"]
    assert axes.get_ylabel() == "relative error"
    charts.exposure([0.5], 0.1, 1.2, directions=True)
    assert sheets[1].axes[0].get_ylabel() == "error of directions"
    assert [text.get_text() for text in sheets[1].axes[0].get_legend().get_texts()] == ["not rebuilt"]


def rung(step: str, rebuilt: int, train: float, held_out: float | None) -> Rung:
    return Rung(step, "", "applied", rebuilt, 10, False, train, held_out, 1.0)


@pytest.mark.parametrize(("held", "errors", "label"), [(True, [0.1, 0.2, 0.3], "held-out"), (False, [0.0, 0.4, 0.5], "training")])
def test_the_ladder_shows_leakage_and_its_price(held: bool, errors: list[float], label: str, sheets: list[Figure]) -> None:
    rungs = tuple(
        rung(step, rebuilt, train, price if held else None)
        for step, rebuilt, train, price in (("as it is", 10, 0.0, 0.1), ("noise", 2, 0.4, 0.2), ("DP-SGD", 1, 0.5, 0.3))
    )
    assert kind_of(charts.ladder(Ladder(rungs, (), 0.1))) == "svg"
    left, right = sheets[0].axes
    assert [bar.get_width() for bar in left.patches] == [1.0, 0.2, 0.1]
    assert [to_hex(bar.get_facecolor()) for bar in left.patches] == [RED, RED, BLUE]  # what is bearable is stopped
    assert words(left) == ["10 of 10", "2 of 10", "1 of 10"]
    assert [text.get_text() for text in left.get_yticklabels()] == ["as it is", "noise", "DP-SGD"]
    heights = [bar.get_y() + bar.get_height() / 2 for bar in left.patches]
    assert heights == pytest.approx([2, 1, 0])  # the open model is on top
    assert right.lines[0].get_xdata() == pytest.approx(errors)
    assert upright(right) == [errors[0]]
    assert right.get_xlabel().startswith(label)


def test_a_film_shows_the_nearest_candidate_at_every_step_with_sign_and_length_fitted(sheets: list[Figure]) -> None:
    truth = vectors(torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0]]), kind="image", shape=(1, 2, 2))
    frames = [Snapshot(0, 1.0, -0.5 * truth.rows[:1]), Snapshot(7, 1e-4, 3 * truth.rows.flip(0))]
    assert kind_of(charts.filmstrip(truth, frames)) == "png"
    grid = np.array(sheets[0].axes).reshape(2, 3)
    assert [axes.get_title() for axes in grid[0]] == ["step 0\nloss 1e+00", "step 7\nloss 1e-04", "truth\n"]
    for i in range(2):
        assert shades(grid[i, 2]) == truth.rows[i].tolist()
        assert shades(grid[i, 1]) == pytest.approx(truth.rows[i].tolist())
    assert shades(grid[0, 0]) == pytest.approx(truth.rows[0].tolist())
    assert shades(grid[1, 0]) == [0, 0, 0, 0]  # no candidate yet


def test_error_bars_are_relative_to_each_row(sheets: list[Figure]) -> None:
    truth = vectors([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]])
    matched = torch.tensor([[3.0, 4.5], [0.0, 2.0], [2.0, 0.0]], dtype=torch.float64)
    assert kind_of(charts.error_bars(truth, matched, GUESS, 1.3)) == "svg"
    (axes,) = sheets[0].axes
    assert line_named(axes, "measured").get_xydata().tolist() == [[1, pytest.approx(0.1)], [2, 1e-16], [3, 1.0]]
    assert sorted(level(axes)) == [3e-4, 1.3]
    assert words(axes) == ["chance"]
    charts.error_bars(truth, matched, replace(GUESS, certificate=Certificate(1, 1, 1.0, 0.0)), 1.3)
    assert level(sheets[1].axes[0]) == [1.3]  # without a certificate there is no estimate


def test_charts_are_the_same_bytes_again() -> None:
    assert charts.law_axis(8000, 100, 20) == charts.law_axis(8000, 100, 20)
