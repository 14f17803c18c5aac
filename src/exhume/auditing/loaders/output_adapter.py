"""A user's module as one that answers with a tensor, whatever it answers with and whatever comes after its head."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from exhume.errors import ExhumeError


class _ReachedError(Exception):
    """The head has answered: what comes after it is not needed."""

    def __init__(self, output: torch.Tensor) -> None:
        super().__init__()
        self.output = output


class OutputAdapter(nn.Module):
    """A user's module as one that answers with a tensor: what a named layer gives, or the logits in a record, dict or tuple."""

    def __init__(self, inner: nn.Module, head: str | None) -> None:
        super().__init__()
        self.inner, self._head = inner, head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inputs -> the answer that counts, (n, k)."""
        if self._head is None:
            return _tensor_of(self.inner(x))

        def reached(_: nn.Module, __: object, output: torch.Tensor) -> None:
            raise _ReachedError(output)

        handle = self.inner.get_submodule(self._head).register_forward_hook(reached)
        try:
            self.inner(x)
        except _ReachedError as end:
            return end.output
        finally:
            handle.remove()
        raise ExhumeError(f"--head {self._head!r} takes no part in the model's answer. Name the layer that gives it.")


def _tensor_of(answer: object) -> torch.Tensor:
    """The logits in what a module answered."""
    if isinstance(answer, Mapping):
        answer = answer.get("logits", next(iter(answer.values()), None))
    elif hasattr(answer, "logits"):
        answer = answer.logits
    elif isinstance(answer, tuple | list) and answer:
        answer = answer[0]
    if not isinstance(answer, torch.Tensor):
        raise ExhumeError(f"the model answers with a {type(answer).__name__}, not with a tensor. Name its last layer with --head.")
    return answer


def inner_of(module: nn.Module) -> nn.Module:
    """The user's own module."""
    return module.inner if isinstance(module, OutputAdapter) else module
