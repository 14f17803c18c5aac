"""Passes over all features, parts of them added up."""

from __future__ import annotations

from exhume.linalg.pass_counter import PassCounter


def test_whole_passes_are_counted_on_top_of_those_before() -> None:
    counter = PassCounter(already=7)
    assert counter.total == 7
    counter.add(3)
    counter.add(2)
    assert counter.total == 12


def test_parts_of_a_pass_add_up() -> None:
    counter = PassCounter()
    counter.add(1, share=0.9375)
    assert counter.total == 0
    counter = PassCounter()
    seen = []
    for _ in range(8):
        counter.add(3, share=0.25)
        seen.append(counter.total)
    assert seen == [0, 1, 2, 3, 3, 4, 5, 6]
    counter.add(1, share=0.5)
    counter.add(1)
    counter.add(1, share=0.5)
    assert counter.total == 8
