"""What the charts of a page draw."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def sheets(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every canvas, in the order in which they are written; the writing itself is left as it is."""
    seen: list[Figure] = []
    write = Figure.savefig

    def savefig(self: Figure, *args: Any, **kwargs: Any) -> None:
        seen.append(self)
        write(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return seen


@pytest.fixture
def unwritten(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Every canvas, drawn and not written: writing takes most of a page's time, and tests of its words can do without."""
    seen: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: seen.append(self))
    return seen
