"""`exhume data`: the sources, or one of them looked at."""

from __future__ import annotations

from typing import Any

import click

from exhume.cli import command_tools as tools
from exhume.cli.options.data import request_from, subset_options


@click.command("data", short_help="List the data sources, or look at one.")
@click.argument("name", required=False)
@subset_options
@tools.seed_option
@tools.json_option
@tools.guarded
def command(name: str | None, as_json: bool, **options: Any) -> None:
    """List the data sources, or load source NAME and say what is in it.

    \b
    exhume data
    exhume data cifar10 --data-dir cifar-10-python.tar.gz --n 10
    """
    from exhume.data import SOURCES, load

    if name is None:
        if as_json:
            tools.emit_json({key: {"about": one.about, "needs": one.needs} for key, one in SOURCES.items()})
        else:
            rows = [(key, one.about + (f"; needs {one.needs}" if one.needs else "")) for key, one in SOURCES.items()]
            tools.print_table("data sources", rows)
        return
    dataset = load(request_from(name, options))
    norms = dataset.rows.norm(dim=1)
    facts: dict[str, Any] = {
        "name": dataset.name,
        "kind": dataset.kind,
        "n": dataset.n,
        "d": dataset.d,
        "shape": list(dataset.shape),
        "norm_min": float(norms.min()),
        "norm_max": float(norms.max()),
        "labels": sorted({float(v) for v in dataset.labels})[:10],
        "columns": list(dataset.columns),
    }
    if as_json:
        tools.emit_json(facts)
        return
    tools.print_table(
        dataset.name,
        [
            ("kind", f"{dataset.kind}, one input has shape {dataset.shape}"),
            ("n, d", f"{dataset.n}, {dataset.d}"),
            (
                "norms / sqrt(d)",
                f"{facts['norm_min'] / dataset.d**0.5:.3f} to {facts['norm_max'] / dataset.d**0.5:.3f}",
            ),
            ("labels", ", ".join(f"{v:.3g}" for v in facts["labels"])),
            ("p = d n", f"{dataset.n * dataset.d}"),
        ],
    )
