"""Work by several threads, as many as torch may use."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from exhume.parallel.threads import in_parallel


@pytest.fixture(params=[1, 2])
def count(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.usefixtures("count")
def test_every_item_is_worked_on_once() -> None:
    done: list[int] = []
    in_parallel(done.append, range(100))
    assert sorted(done) == list(range(100))
    in_parallel(lambda item: pytest.fail("no items, no work"), [])


def test_as_many_threads_work_at_a_time_as_torch_may_use(count: int) -> None:
    """Each worker waits until `count` of them are there: with fewer the barrier breaks."""
    barrier, workers = threading.Barrier(count), set()

    def meet(_: int) -> None:
        barrier.wait(timeout=10)
        workers.add(threading.current_thread().name)

    in_parallel(meet, range(4 * count))
    assert len(workers) == count


@pytest.mark.usefixtures("count")
def test_an_error_of_one_item_is_raised_here() -> None:
    def fail_at_three(item: int) -> None:
        if item == 3:
            raise ValueError(f"item {item}")

    with pytest.raises(ValueError, match="item 3"):
        in_parallel(fail_at_three, range(5))
