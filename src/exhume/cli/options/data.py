"""Which data: options -> DataRequest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exhume.cli.command_tools import options

if TYPE_CHECKING:
    from exhume.data import DataRequest

subset_options = options(
    click.option("--n", type=int, help="Number of training samples."),
    click.option("--d", type=int, help="Input dimension (sphere only)."),
    click.option("--rank", type=int, help="Dimension of the subspace that holds the rows (sphere only)."),
    click.option("--size", type=int, help="Average photographs down to this many pixels per side."),
    click.option("--data-dir", type=click.Path(path_type=Path), help="Archive, folder or npz of the data source."),
    click.option("--data-file", type=click.Path(path_type=Path), help="Your rows: npz with X and y, or CSV, label last."),
)

data_options = options(
    click.option("--data", "source", default="sphere", show_default=True, help="Data source; `exhume data` lists them."),
    subset_options,
)


def request_from(source: str, given: dict[str, Any]) -> DataRequest:
    """The samples that the options name."""
    from exhume.data import DataRequest

    names = ("n", "d", "rank", "size", "seed", "data_dir", "data_file")
    return DataRequest(source, **{name: given[name] for name in names})
