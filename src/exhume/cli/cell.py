"""Options of the command line -> the cell that they describe."""

from __future__ import annotations

from typing import Any

from exhume.attacks import GaussNewton
from exhume.cli import common
from exhume.data import DataRequest
from exhume.lab import Cell

# Options that bear the name of the cell's field.
_SAME = (
    "victim", "loss", "k", "ratio", "p", "activation", "ridge", "weight_decay", "prune", "init_scale", "train_to", "know_init",
    "know_n", "allow_underfit", "seed", "dtype",
)  # fmt: skip


def cell_from(options: dict[str, Any]) -> Cell:
    """Data, victim and, where the command has one, attack."""
    attack = GaussNewton()
    if "attack" in options:
        attack = common.attack_from(
            options["attack"], options["rows"], options["starts"], options["max_steps"], options["step_size"]
        )
    # Ten outputs on CIFAR-10 mean its ten classes.
    source = "cifar10-multi" if options["source"] == "cifar10" and options["k"] > 2 else options["source"]
    request = DataRequest(
        source=source,
        n=options["n"],
        d=options["d"],
        rank=options["rank"],
        size=options["size"],
        seed=options["seed"],
        data_dir=options["data_dir"],
        data_file=options["data_file"],
    )
    return Cell(
        **{name: options[name] for name in _SAME},
        data=request,
        schedule="paper" if options["paper_schedule"] else "fast",
        know_labels=not options["hide_labels"],
        know_norm=not options["hide_norm"],
        attack=attack,
    )
