"""Options of the command line -> the cell that they describe."""

from __future__ import annotations

from typing import Any

from exhume.attacks import GaussNewton
from exhume.cli import common
from exhume.data import DataRequest
from exhume.errors import unknown_name
from exhume.lab import Cell
from exhume.victims import VICTIMS


def cell_from(options: dict[str, Any]) -> Cell:
    """Data, victim and, where the command has one, attack."""
    if options["victim"] not in VICTIMS:
        raise unknown_name("victim", options["victim"], VICTIMS)
    attack = GaussNewton()
    if "attack" in options:
        attack = common.attack_from(
            options["attack"], options["rows"], options["starts"], options["max_steps"], options["step_size"]
        )
    request = DataRequest(
        source=options["source"],
        n=options["n"],
        d=options["d"],
        seed=options["seed"],
        data_dir=options["data_dir"],
        data_file=options["data_file"],
    )
    return Cell(
        data=request,
        ratio=options["ratio"],
        p=options["p"],
        activation=options["activation"],
        ridge=options["ridge"],
        seed=options["seed"],
        dtype=options["dtype"],
        know_n=options["know_n"],
        know_labels=not options["hide_labels"],
        know_norm=not options["hide_norm"],
        allow_underfit=options["allow_underfit"],
        attack=attack,
    )
