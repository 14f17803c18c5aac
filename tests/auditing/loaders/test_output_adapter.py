"""Modules that answer with records, dicts or tuples, and heads that are named."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from exhume.auditing.loaders.output_adapter import OutputAdapter, inner_of
from exhume.errors import ExhumeError

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class _Wrapped(nn.Module):
    """A linear layer, whose answer is wrapped; a second layer takes no part."""

    def __init__(self, wrap: Callable[[torch.Tensor], Any] = lambda out: out) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.last, self.spare, self.wrap = nn.Linear(4, 2), nn.Linear(2, 2), wrap

    def forward(self, x: torch.Tensor) -> Any:
        return self.wrap(self.last(x))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda out: out,
        lambda out: {"hidden": torch.zeros(3, 9), "logits": out},
        lambda out: OrderedDict(answer=out, rest=torch.zeros(3)),
        lambda out: SimpleNamespace(loss=None, logits=out),
        lambda out: (out, torch.zeros(3)),
        lambda out: [out],
    ],
    ids=["tensor", "dict with logits", "first of a dict", "record with logits", "tuple", "list"],
)
def test_the_logits_are_found_in_what_a_module_answers(wrap: Callable[[torch.Tensor], Any]) -> None:
    net = _Wrapped(wrap)
    torch.testing.assert_close(OutputAdapter(net, None)(X), net.last(X))


@pytest.mark.parametrize(("answer", "kind"), [("text", "str"), ({}, "NoneType"), ((), "tuple"), ({"logits": 3}, "int")])
def test_an_answer_without_a_tensor_is_refused(answer: object, kind: str) -> None:
    with pytest.raises(ExhumeError, match=f"answers with a {kind}, not with a tensor. Name its last layer with --head"):
        OutputAdapter(_Wrapped(lambda out: answer), None)(X)


def test_a_named_head_ends_the_run_where_it_answers() -> None:
    def after(out: torch.Tensor) -> torch.Tensor:
        raise AssertionError("what comes after the head is not needed")

    net = _Wrapped(after)
    torch.testing.assert_close(OutputAdapter(net, "last")(X), net.last(X))
    assert not net.last._forward_hooks


def test_a_head_that_takes_no_part_is_refused() -> None:
    net = _Wrapped()
    with pytest.raises(ExhumeError, match="--head 'spare' takes no part in the model's answer"):
        OutputAdapter(net, "spare")(X)
    assert not net.spare._forward_hooks


def test_the_users_own_module_is_inside() -> None:
    net = _Wrapped()
    assert inner_of(OutputAdapter(net, None)) is net
    assert inner_of(net) is net
