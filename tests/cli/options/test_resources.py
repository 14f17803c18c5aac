"""Options of the machine: memory, device, threads, checkpoint and cache."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from exhume.attacks import Resources
from exhume.cli.options.resources import machine_options, resource_options, resources_from, usable_device
from exhume.errors import ExhumeError
from exhume.parallel.team import ALONE
from support.options import parsed

HERE = "cuda" if torch.cuda.is_available() else "cpu"


def test_nothing_given_is_four_gigabytes_of_this_machine() -> None:
    made = resources_from(parsed(resource_options))
    assert (made.device, made.checkpoint, made.cache, made.team, made.most_passes) == (HERE, None, None, ALONE, None)
    assert made.memory == resources_from(parsed(resource_options, "--memory", "4GB")).memory


def test_every_option_reaches_the_resources() -> None:
    given = parsed(resource_options, "--memory", "150MB", "--device", "cpu", "--checkpoint", "run.ckpt", "--cache", "blocks")
    memory = resources_from(parsed(machine_options, "--memory", "150MB")).memory
    assert resources_from(given) == Resources("cpu", memory, Path("run.ckpt"), Path("blocks"))
    assert 140e6 < memory < 160e6


def test_a_command_may_lack_some_of_the_options() -> None:
    assert resources_from({}).device == HERE


def test_threads_are_set_for_this_process() -> None:
    before = torch.get_num_threads()
    try:
        resources_from(parsed(machine_options, "--threads", "1"))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "0"], "--threads must be at least 1, got 0"),
        (["--memory", "much"], "not a size"),
        (["--device", "abacus"], r"device 'abacus' cannot be used here .*Try --device cpu"),
        (["--device", "meta"], r"device 'meta' cannot be used here"),  # it holds no numbers
    ],
)
def test_what_the_machine_does_not_have_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        resources_from(parsed(machine_options, *arguments))


def test_auto_is_a_device_that_is_there() -> None:
    assert usable_device("auto") == HERE
    assert usable_device("cpu") == "cpu"
