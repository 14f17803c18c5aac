"""A team of processes: sums over all of them, blocks in turn, and the end of one told to the others."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
import torch

from exhume.parallel.team import ALONE, Team, join

# What each of two processes does: a sum, a second one that only the first waits for, or a common end.
PROGRAM = """
import os, sys, torch
from exhume.parallel.team import LostProcessError, join
team = join("cpu")
part = torch.arange(6.0, dtype=torch.float64).reshape(2, 3).T * (team.rank + 1)
total = team.total(part)
print(team.rank, team.size, total.flatten().tolist(), part[1, 1].item(), total.is_contiguous())
if sys.argv[1] == "leave":
    team.leave()
    print(torch.distributed.is_initialized())
elif team.rank == 1:
    os._exit(3)
else:
    try:
        team.total(part)
    except LostProcessError as error:
        print(error)
"""


def team_of_two(end: str) -> list[str]:
    """What both processes print."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shared = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, end], env=shared | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    return [process.communicate(timeout=60)[0] for process in started]


def test_a_process_alone_sums_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    part = torch.ones(2, 3)
    assert ALONE.total(part) is part
    ALONE.leave()  # nobody to wait for
    assert (ALONE.rank, ALONE.size) == (0, 1)
    for size in (None, "1"):
        monkeypatch.setenv("WORLD_SIZE", size) if size else monkeypatch.delenv("WORLD_SIZE", raising=False)
        assert join("cpu") == ALONE


@pytest.mark.parametrize("size", [1, 2, 3])
def test_blocks_are_dealt_out_in_turn(size: int) -> None:
    owners = [[rank for rank in range(size) if Team(rank, size).takes(block)] for block in range(7)]
    assert owners == [[block % size] for block in range(7)]


def test_processes_sum_what_each_has_and_part_in_peace() -> None:
    for rank, said in enumerate(team_of_two("leave")):
        assert said.splitlines() == [f"{rank} 2 [0.0, 9.0, 3.0, 12.0, 6.0, 15.0] {4.0 * (rank + 1)} True", "False"]


def test_a_process_that_ends_is_told_to_the_others() -> None:
    first, second = team_of_two("die")
    assert second.count("\n") == 1
    assert "a process of the team has ended" in first
    assert "With --checkpoint the same command goes on, with any number of processes" in first
