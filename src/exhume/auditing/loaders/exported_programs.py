"""torch.export programs: the graph up to its last linear call as a body, that call as a linear layer."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from exhume.errors import ExhumeError
from exhume.storage.file_checks import require_file


class _Program(nn.Module):
    """An exported program as a module that ends in a linear layer."""

    def __init__(self, body: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inputs -> outputs."""
        return self.head(self.body(x))


def load_exported(path: Path, *, trust: bool) -> nn.Module:
    """The program in a .pt2 file; loading one can run code, so only with the user's word for it."""
    require_file(path, "program")
    if not trust:
        raise ExhumeError(f"{path}: loading a torch.export program can run code. Add --trust-code if you trust its origin.")
    try:
        graph = torch.export.load(path).module()
    except Exception as error:  # the reader fails in many ways on a foreign file
        raise ExhumeError(f"{path} is not a torch.export program ({(str(error) or 'empty').splitlines()[0]}).") from None
    return split_program(graph)


def split_program(graph: torch.fx.GraphModule) -> nn.Module:
    """The program cut at its last linear call."""
    output = next(node for node in graph.graph.nodes if node.op == "output")
    answer = output.args[0][0] if isinstance(output.args[0], tuple | list) else output.args[0]
    if answer.target is not torch.ops.aten.linear.default:
        raise ExhumeError(f"the program ends in {answer.target}, not in a linear layer. Export the part that does.")
    weight = _value(graph, answer.args[1])
    bias = _value(graph, answer.args[2]) if len(answer.args) > 2 and answer.args[2] is not None else None
    head = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    head.weight.data = weight.detach().clone()
    if bias is not None:
        head.bias.data = bias.detach().clone()
    features = answer.args[0]
    output.args = (features,)
    graph.graph._codegen = torch.fx.graph.CodeGen()  # the exported calling convention checks outputs that are gone now
    graph.graph.eliminate_dead_code()
    graph.recompile()
    graph.delete_all_unused_submodules()
    return _Program(graph, head)


def _value(graph: torch.fx.GraphModule, node: torch.fx.Node) -> torch.Tensor:
    found: object = graph
    for part in str(node.target).split("."):
        found = getattr(found, part)
    assert isinstance(found, torch.Tensor)
    return found
