"""Figures of the papers and beyond: each a grid of jobs and a drawing of their stored rows. Add one: append it to a FIGURES."""

import re

from exhume.figures import ablations, all_weights, beyond, finite_width, networks, random_features, tables
from exhume.figures.sheet import SCALES, Figure, Results, draw

_ALL = [
    *random_features.FIGURES, *networks.FIGURES, *ablations.FIGURES, *tables.FIGURES, *finite_width.FIGURES,
    *beyond.FIGURES, *all_weights.FIGURES,
]  # fmt: skip


def _order(figure: Figure) -> tuple[bool, int, str]:
    number = re.fullmatch(r"fig(\d+)", figure.name)
    return (number is None, int(number[1]) if number else 0, "" if number else str(_ALL.index(figure)).zfill(3))


FIGURES: dict[str, Figure] = {figure.name: figure for figure in sorted(_ALL, key=_order)}

__all__ = ["FIGURES", "SCALES", "Figure", "Results", "draw"]
