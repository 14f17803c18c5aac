"""Work that torch does on one core, done on as many as torch may use."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch


def in_parallel(work: Callable[[int], object], items: Iterable[int]) -> None:
    """`work` on every item, by torch.get_num_threads() threads: torch lets go of Python's lock while it computes."""
    count = torch.get_num_threads()
    if count == 1:
        for item in items:
            work(item)
        return
    list(_pool(count).map(work, items))


@contextlib.contextmanager
def at_most(count: int) -> Iterator[None]:
    """No more than `count` threads of torch inside: on many small matrices more of them wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(count, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@functools.cache
def _pool(count: int) -> ThreadPoolExecutor:
    """Threads that stay: starting them anew for every block would cost a third of the time."""
    return ThreadPoolExecutor(count)
