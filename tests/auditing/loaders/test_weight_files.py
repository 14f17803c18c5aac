"""State dicts from files as training scripts leave them; hostile files have their tests in contract/test_hostile_files.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from exhume.auditing.loaders.weight_files import load_weights
from exhume.errors import ExhumeError

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.steps": torch.tensor(3)}


def same(found: dict[str, torch.Tensor]) -> bool:
    return set(found) == set(WEIGHTS) and all(torch.equal(found[name], value) for name, value in WEIGHTS.items())


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth", ".bin", ".ckpt"])
def test_every_kind_of_file_gives_its_tensors(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"w{suffix}"
    if suffix == ".safetensors":
        save_file(WEIGHTS, path)
    else:
        torch.save(WEIGHTS, path)
    assert same(load_weights(path))


@pytest.mark.parametrize(
    "wrapped",
    [
        {"state_dict": WEIGHTS, "epoch": 3},
        {"model_state_dict": WEIGHTS, "optimizer": {"lr": 0.1}},
        {"model": WEIGHTS},
        {"state_dict": {f"module.{name}": value for name, value in WEIGHTS.items()}},  # as DataParallel names them
    ],
)
def test_the_weights_are_found_inside_a_checkpoint(wrapped: dict[str, Any], tmp_path: Path) -> None:
    torch.save(wrapped, tmp_path / "c.pt")
    assert same(load_weights(tmp_path / "c.pt"))


def test_a_layer_that_is_called_module_keeps_its_name(tmp_path: Path) -> None:
    names = {"module.weight", "head.weight"}
    torch.save({name: torch.ones(2) for name in names}, tmp_path / "c.pt")
    assert set(load_weights(tmp_path / "c.pt")) == names


def test_parameters_lose_their_gradients(tmp_path: Path) -> None:
    torch.save({"w": torch.nn.Parameter(torch.ones(2))}, tmp_path / "w.pt")
    assert not load_weights(tmp_path / "w.pt")["w"].requires_grad


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "holds no state dict"),
        ([torch.ones(2)], "holds no state dict"),
        ({"w": torch.tensor([1.0, float("inf")])}, "'w' holds NaN or infinity"),
    ],
)
def test_what_is_no_state_dict_is_refused(content: object, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(ExhumeError, match=message):
        load_weights(tmp_path / "w.pt")
