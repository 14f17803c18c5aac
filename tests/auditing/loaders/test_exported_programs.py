"""Programs of torch.export, cut at their last linear layer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from exhume.auditing.loaders.exported_programs import load_exported, split_program
from exhume.errors import ExhumeError

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch.export about itself
X = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))


class _Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.net(torch.tanh(x)), x


def exported(net: nn.Module) -> torch.export.ExportedProgram:
    return torch.export.export(net, (X[:2],), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))


@pytest.mark.parametrize("bias", [True, False])
def test_a_program_is_its_body_and_a_linear_head(bias: bool) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 2, bias=bias))
    program = split_program(exported(net).module())
    torch.testing.assert_close(program(X), net(X))
    assert torch.equal(program.head.weight, net[2].weight)
    assert (program.head.bias is None) is not bias
    torch.testing.assert_close(program.body(X), net[:2](X))


def test_of_several_answers_the_first_counts() -> None:
    torch.manual_seed(0)
    net = _Pair()
    torch.testing.assert_close(split_program(exported(net).module())(X), net(X)[0])


def test_a_program_that_ends_in_something_else_is_refused() -> None:
    with pytest.raises(ExhumeError, match=r"the program ends in aten.relu.default, not in a linear layer"):
        split_program(exported(nn.Sequential(nn.Linear(5, 2), nn.ReLU())).module())


def test_files_are_loaded_only_on_the_users_word(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, path = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)), tmp_path / "net.pt2"
    with pytest.raises(ExhumeError, match="is not a file"):
        load_exported(path, trust=True)
    torch.export.save(exported(net), path)
    with pytest.raises(ExhumeError, match=r"can run code. Add --trust-code"):
        load_exported(path, trust=False)
    torch.testing.assert_close(load_exported(path, trust=True)(X), net(X))


def test_another_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "net.pt2").write_bytes(b"no program")
    with pytest.raises(ExhumeError, match=r"is not a torch\.export program") as error:
        load_exported(tmp_path / "net.pt2", trust=True)
    assert "\n" not in str(error.value)
