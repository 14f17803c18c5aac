"""Recipes: schedules that can be followed, and files that cannot lie about them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.release import load_release, save_release
from exhume.training_recipe import Recipe
from exhume.victims import NetworkVictim
from support.problems import small_sphere


def test_the_schedule_takes_each_step_size_in_turn() -> None:
    steps = list(Recipe(4, "square", "gd", (2, 3), (0.5, 0.25)).schedule())
    assert [rate for rate, _ in steps] == [0.5, 0.5, 0.25, 0.25, 0.25]
    assert all(sorted(some.tolist()) == [0, 1, 2, 3] for _, some in steps)


@pytest.mark.parametrize(
    "wrong",
    [{"n": 0}, {"batch": 0}, {"steps": (3,), "rates": (0.1, 0.2)}, {"rates": (-0.1,)}, {"steps": (0,)}, {"rates": ("x",)}],
)
def test_a_recipe_that_cannot_be_followed_is_refused(wrong: dict[str, object]) -> None:
    usual: dict[str, object] = {"n": 4, "loss": "square", "optimizer": "gd", "steps": (3,), "rates": (0.1,)}
    with pytest.raises(ExhumeError, match="a recipe needs"):
        Recipe(**(usual | wrong))  # type: ignore[arg-type]


def test_a_release_carries_the_recipe_only_where_it_is_known(tmp_path: Path) -> None:
    data = small_sphere(d=10, n=4)
    told = NetworkVictim("two-layer", 20, knowledge=Knowledge(recipe=True)).train(data).release
    assert NetworkVictim("two-layer", 20).train(data).release.recipe is None
    assert told.recipe is not None
    save_release(told, tmp_path / "r.safetensors")
    assert load_release(tmp_path / "r.safetensors").recipe == told.recipe


def test_lbfgs_has_no_recipe() -> None:
    victim = NetworkVictim("mlp", 20, widths=(20,), optimizer="lbfgs", epochs=1, knowledge=Knowledge(recipe=True))
    assert victim.train(small_sphere(d=10, n=4)).release.recipe is None


def test_descent_that_changes_its_step_tells_every_size() -> None:
    victim = NetworkVictim("two-layer", 40, loss="logistic", max_steps=30, dtype=torch.float64, knowledge=Knowledge(recipe=True))
    recipe = victim.train(small_sphere(d=10, n=4)).release.recipe
    assert recipe is not None
    assert sum(recipe.steps) <= 30
    assert len(set(recipe.rates)) > 1
