"""Panels drawn from rows made by hand: means, bands, thresholds, chance, pictures, cells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from exhume.figures.panels import Curves, Line, Pictures, Points, Table
from exhume.figures.sheet import Results
from exhume.figures.trials import ours, points, sphere
from exhume.lab.store import Store
from support.figure_cases import drawn, keep, level, line_named, upright, words

D, N = 10, 4
AT: Points = points(lambda p, seed: ours(sphere(D, N, seed), int(p), seed), (4, 40, 400), range(3))
ERRORS = {4: [1.0, 1.1, 1.2], 40: [0.5, 0.7], 400: [1e-3, 3e-3, 2e-3]}  # one seed of 40 is not finished


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path)
    for x, jobs in AT:
        for job, error in zip(jobs, ERRORS[int(x)], strict=False):
            keep(made, job, {"rho": error, "chance": 1.3 + error / 10, "train_loss": None, "other": 5.0})
    return made


def test_a_line_is_mean_and_spread_over_the_seeds_that_are_stored(store: Store) -> None:
    x, mean, spread = Line("error", "rho", AT).values(Results(store))
    np.testing.assert_array_equal(x, [4, 40, 400])
    np.testing.assert_allclose(mean, [1.1, 0.6, 2e-3])
    np.testing.assert_allclose(spread, [np.std([1.0, 1.1, 1.2]), 0.1, np.std([1e-3, 2e-3, 3e-3])])


@pytest.mark.parametrize("field", ["train_loss", "absent"])
def test_a_field_that_no_row_has_is_no_line(field: str, store: Store) -> None:
    assert all(len(part) == 0 for part in Line("", field, AT).values(Results(store)))


def test_points_without_a_row_are_left_out(tmp_path: Path) -> None:
    few = Store(tmp_path)
    keep(few, AT[1][1][2], {"rho": 0.25})
    x, mean, spread = Line("", "rho", AT).values(Results(few))
    assert (x.tolist(), mean.tolist(), spread.tolist()) == ([40.0], [0.25], [0.0])


def test_curves_show_means_bands_thresholds_and_chance(store: Store) -> None:
    panel = Curves("a title", (Line("error", "rho", AT), Line("nothing", "absent", AT)), N, D)
    (axes,) = drawn(panel, store)
    line = line_named(axes, "error")
    np.testing.assert_array_equal(line.get_xdata(), [4, 40, 400])
    np.testing.assert_allclose(line.get_ydata(), [1.1, 0.6, 2e-3])
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(1.1 + np.std([1.0, 1.1, 1.2]))
    assert {0.5, 0.7} <= set(np.round(band[band[:, 0] == 40][:, 1], 9))  # one standard deviation about 0.6
    assert upright(axes) == [4.0, 40.0]
    assert level(axes) == [pytest.approx(1.3 + np.mean([error for seeds in ERRORS.values() for error in seeds]) / 10)]
    assert words(axes) == ["p = n", "p = dn", "chance"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["error"]
    assert (axes.get_title(), axes.get_xscale(), axes.get_yscale()) == ("a title", "log", "linear")
    assert axes.get_ylim() == (-0.04, 2.0)


def test_a_logarithmic_panel_has_a_positive_band_and_no_chance(store: Store) -> None:
    wild: Points = AT[:1]
    made = Store(store.root.parent / "wild")
    for job, loss in zip(wild[0][1], (1e-9, 1e-9, 1.0), strict=True):
        keep(made, job, {"loss": loss, "chance": 1.0})
    (axes,) = drawn(Curves("", (Line("loss", "loss", wild),), log=True, chance=None, ylabel="loss"), made)
    assert axes.get_yscale() == "log"
    assert axes.collections[0].get_paths()[0].vertices[:, 1].min() == pytest.approx(1 / 30)  # a tenth of the mean
    assert level(axes) == upright(axes) == []
    assert axes.get_ylabel() == "loss"


@pytest.mark.parametrize("count", [5, 6])
def test_long_legends_have_two_columns(count: int, store: Store) -> None:
    lines = tuple(Line(f"line {i}", "other", AT) for i in range(count))
    (axes,) = drawn(Curves("", lines, N, D), store)
    assert axes.get_legend()._ncols == (1 if count == 5 else 2)


def test_a_narrow_range_is_labelled_at_its_points_where_they_are_legible(tmp_path: Path) -> None:
    xs = (20, 21, 40, 80, 160, 320)
    at = points(lambda p, seed: ours(sphere(D, N, seed), int(p), seed), xs, range(1))
    store = Store(tmp_path)
    for _, jobs in at:
        keep(store, jobs[0], {"rho": 0.1})
    (axes,) = drawn(Curves("", (Line("", "rho", at),), xlabel="width"), store)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["21", "40", "80", "160", "320"]  # 20 runs into 21
    assert axes.get_xlabel() == "width"


def test_a_panel_whose_jobs_have_not_begun_is_empty(tmp_path: Path) -> None:
    (axes,) = drawn(Curves("later", (Line("error", "rho", AT),), N, D), Store(tmp_path))
    assert axes.get_title() == "later"
    assert upright(axes) == [4.0, 40.0]
    assert level(axes) == []


def test_curves_need_the_jobs_of_all_their_lines() -> None:
    panel = Curves("", (Line("", "rho", AT[:1]), Line("", "rho", AT[1:])))
    assert panel.jobs() == [job for _, jobs in AT for job in jobs]


PICTURES = Pictures("digits", AT[0][1][0], count=5, per_line=3)


def picture(shade: int, channels: int = 1) -> torch.Tensor:
    return torch.full((2, 2, channels), shade, dtype=torch.uint8)


def test_pictures_stand_truth_over_rebuilt(tmp_path: Path) -> None:
    store = Store(tmp_path)
    truth, rebuilt = (torch.stack([picture(base + i) for i in range(5)]) for base in (10, 100))
    row = {"rho": 0.123, "chance": 1.4, "n_found": 4, "n_true": 5}
    keep(store, PICTURES.job, row, {"truth_pictures": truth, "rebuilt_pictures": rebuilt})
    axes = np.array(drawn(PICTURES, store)).reshape(4, 3)
    shades = [[int(a.images[0].get_array()[0, 0]) if a.images else None for a in line] for line in axes]
    assert shades == [[10, 11, 12], [100, 101, 102], [13, 14, None], [103, 104, None]]
    assert [words(line[0]) for line in axes] == [["truth"], ["rebuilt"], ["truth"], ["rebuilt"]]
    assert axes[0, 0].images[0].get_clim() == (0, 255)
    assert axes[0, 0].figure.get_suptitle() == "digits\nρ = 0.12 (chance 1.4), 4 rows found of 5"


def test_every_picture_found_may_be_shown_instead(tmp_path: Path) -> None:
    store = Store(tmp_path)
    panel = replace(PICTURES, every=True, count=4)
    found = torch.stack([picture(20 * i, channels=3) for i in range(6)])
    keep(store, panel.job, {"rho": 0.1, "chance": 1.0, "n_found": 6, "n_true": 5}, {"all_pictures": found})
    axes = drawn(panel, store)
    assert [int(a.images[0].get_array()[0, 0, 0]) for a in axes if a.images] == [0, 20, 40, 60]  # as many as were asked for
    assert not any(words(a) for a in axes)


def test_pictures_that_are_not_finished_say_so(tmp_path: Path) -> None:
    axes = drawn(PICTURES, Store(tmp_path))
    assert axes[0].figure.get_suptitle() == "digits\n(not finished)"
    assert not any(a.images for a in axes)
    assert PICTURES.jobs() == [PICTURES.job]


@pytest.mark.parametrize(("count", "every", "lines"), [(3, False, 2), (4, False, 4), (3, True, 1), (7, True, 3)])
def test_the_size_of_pictures_follows_their_number(count: int, every: bool, lines: int) -> None:
    panel = replace(PICTURES, count=count, every=every)
    assert panel.lines == lines
    assert panel.height == pytest.approx(0.52 * lines + 0.6)
    assert panel.width == pytest.approx(0.5 * 3 + 0.9)


def test_a_table_has_a_header_and_cells_read_from_rows(store: Store) -> None:
    job = AT[0][1][0]
    panel = Table("results", ("name", "error"), (("first", lambda results: [f"{results.row(job)['rho']:.1f}"]),), (job,))  # type: ignore[index]
    (axes,) = drawn(panel, store)
    cells = {place: cell.get_text().get_text() for place, cell in axes.tables[0].get_celld().items()}
    assert cells == {(0, 0): "name", (0, 1): "error", (1, 0): "first", (1, 1): "1.0"}
    assert axes.get_title() == "results"
    assert panel.jobs() == [job]
