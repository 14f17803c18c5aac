"""Options of a model of one's own: each is a field of what an audit is given."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from exhume.auditing import AuditInputs
from exhume.cli.command_tools import options
from exhume.cli.options.own_model import Numbers, inputs_from, model_options, own_data_options
from exhume.errors import ExhumeError
from support.options import parsed

ALL = options(model_options, own_data_options)


@pytest.mark.parametrize(
    ("text", "numbers"), [("0", (0.0,)), ("0.5,0.25,1", (0.5, 0.25, 1.0)), (" 1 , -2e3", (1.0, -2000.0)), ((1.0,), (1.0,))]
)
def test_numbers_have_commas_between_them(text: object, numbers: tuple[float, ...]) -> None:
    assert Numbers().convert(text, None, None) == numbers


@pytest.mark.parametrize("text", ["", "1,", "a,b", "1 2"])
def test_other_texts_are_no_numbers(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected numbers with commas between them"):
        Numbers().convert(text, None, None)


def test_little_given_is_little_known() -> None:
    given = parsed(ALL, "--trained", "net.pt", "--data", "train.csv")
    assert inputs_from(given) == AuditInputs(Path("net.pt"), Path("train.csv"))
    assert given["within"] == 0.1


def test_every_option_reaches_the_audit() -> None:
    given = parsed(
        ALL, "--model", "pkg.nets:make", "--trained", "net.pt", "--init", "start.pt", "--head", "last", "--trust-code",
        "--mean", "0.5,0.4,0.3", "--std", "0.2", "--n", "9", "--data", "train.csv", "--holdout", "test.csv",
    )  # fmt: skip
    assert inputs_from(given) == AuditInputs(
        Path("net.pt"),
        Path("train.csv"),
        model="pkg.nets:make",
        init=Path("start.pt"),
        held_out=Path("test.csv"),
        head="last",
        mean=(0.5, 0.4, 0.3),
        spread=(0.2,),
        n=9,
        trust_code=True,
    )


def test_data_are_asked_for_and_so_is_the_model() -> None:
    with pytest.raises(click.UsageError, match="Missing option '--data'"):
        parsed(ALL, "--trained", "net.pt")
    with pytest.raises(ExhumeError, match="name the trained model with --trained"):
        inputs_from(parsed(ALL, "--data", "train.csv"))


def test_a_command_without_held_out_samples_has_none() -> None:
    given = parsed(model_options, "--trained", "net.pt") | {"data": Path("train.csv")}
    assert inputs_from(given).held_out is None
