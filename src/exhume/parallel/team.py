"""A team of processes that share the feature axis: each holds some blocks of V, and only small sums travel between them."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import torch

from exhume.errors import ExhumeError


class LostProcessError(ExhumeError):
    """A process of the team has ended: the sums of the others mean nothing without it."""


@dataclass(frozen=True)
class Team:
    """This process's place among those that share a run."""

    rank: int = 0
    size: int = 1

    def total(self, part: torch.Tensor) -> torch.Tensor:
        """The sum of `part` over all processes."""
        if self.size == 1:
            return part
        summed = part.clone(memory_format=torch.contiguous_format)
        try:
            torch.distributed.all_reduce(summed)
        except RuntimeError as error:
            raise _lost(str(error).splitlines()[0]) from None
        return summed

    def leave(self) -> None:
        """Wait for the others and part: a process that simply ended would take those down that still speak to it."""
        if self.size > 1:
            torch.distributed.barrier()
            torch.distributed.destroy_process_group()

    def takes(self, block: int) -> bool:
        """Whether this process holds block `block`: they are dealt out in turn, so that any prefix is shared evenly."""
        return block % self.size == self.rank


ALONE = Team()


def _lost(reason: str) -> LostProcessError:
    return LostProcessError(
        f"a process of the team has ended ({reason}). With --checkpoint the same command goes on, with any number of processes."
    )


def _told_to_end(*_: object) -> None:
    raise _lost("torchrun ends the others")


def join(device: str) -> Team:
    """The team that torchrun started, or this process alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return ALONE
    from torch import distributed

    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
        signal.signal(signal.SIGTERM, _told_to_end)  # torchrun may notice a death before the next sum does
    return Team(distributed.get_rank(), distributed.get_world_size())
