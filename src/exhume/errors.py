"""What a person did wrong, in one sentence with the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ExhumeError(Exception):
    """Misuse: the message says what was expected, what was got and what to do. The CLI prints it and exits with 2."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ExhumeError:
    """An error for a name that is not registered, with the nearest one suggested."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ExhumeError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")
