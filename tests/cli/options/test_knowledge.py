"""Switches of the attacker's knowledge: each is one field."""

from __future__ import annotations

import click
import pytest

from exhume.cli.options.knowledge import knowledge_from, knowledge_options
from exhume.knowledge import Knowledge
from support.options import parsed


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], Knowledge()),
        (["--know-init", "last"], Knowledge(init="last")),
        (["--know-init", "none"], Knowledge(init="none")),
        (["--know-n"], Knowledge(n=True)),
        (["--hide-stats"], Knowledge(statistics=False)),
        (["--hide-norm"], Knowledge(statistics=False)),
        (["--hide-labels"], Knowledge(labels=False)),
        (["--know-n", "--hide-labels", "--hide-stats"], Knowledge(n=True, statistics=False, labels=False)),
    ],
)
def test_a_switch_is_a_field(arguments: list[str], expected: Knowledge) -> None:
    assert knowledge_from(parsed(knowledge_options, *arguments)) == expected


def test_what_may_be_known_of_the_start_is_listed() -> None:
    with pytest.raises(click.UsageError, match="'some' is not one of 'all', 'last', 'none'"):
        parsed(knowledge_options, "--know-init", "some")
