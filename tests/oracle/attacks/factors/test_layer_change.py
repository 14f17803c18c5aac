"""What a release tells of its first layer's change."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.attacks.factors.layer_change import first_layer_change
from exhume.knowledge import Knowledge
from exhume.victims import NetworkVictim
from support.problems import small_sphere


def trained(**settings: object):  # type: ignore[no-untyped-def]
    victim = NetworkVictim("mlp", 1, widths=(30, 12), bias=True, k=2, loss="cross-entropy", epochs=4, **settings)  # type: ignore[arg-type]
    return victim.train(small_sphere(d=10, n=4)).release


@pytest.mark.parametrize("optimizer", ["gd", "sgd", "momentum", "lbfgs"])
def test_the_change_is_a_product_with_the_samples(optimizer: str) -> None:
    data = small_sphere(d=10, n=4)
    layer = first_layer_change(trained(optimizer=optimizer, **({"batch": 2} if optimizer in ("sgd", "momentum") else {})))
    assert layer is not None
    X = torch.cat([data.rows.double(), torch.ones(4, 1, dtype=torch.float64)], dim=1)
    outside = layer.change - layer.change @ torch.linalg.pinv(X) @ X
    assert layer.change.shape[1] == 11
    assert float(outside.norm() / layer.change.norm()) < 1e-12


def test_decay_is_taken_out() -> None:
    data = small_sphere(d=10, n=4)
    layer = first_layer_change(trained(optimizer="momentum", batch=2, weight_decay=1e-2))
    assert layer is not None
    X = torch.cat([data.rows.double(), torch.ones(4, 1, dtype=torch.float64)], dim=1)
    outside = layer.change - layer.change @ torch.linalg.pinv(X) @ X
    assert "times its start" in layer.source
    assert float(outside.norm() / layer.change.norm()) < 1e-9


def test_adam_tells_by_its_state_only() -> None:
    data = small_sphere(d=10, n=4)
    X = torch.cat([data.rows.double(), torch.ones(4, 1, dtype=torch.float64)], dim=1)
    away = []
    for known in (False, True):
        layer = first_layer_change(trained(optimizer="adam", lr=0.01, knowledge=Knowledge(optimizer=known)))
        assert layer is not None
        away.append(float((layer.change - layer.change @ torch.linalg.pinv(X) @ X).norm() / layer.change.norm()))
    assert away[0] > 0.1
    assert away[1] < 1e-12


def test_units_that_took_no_part_are_left_out() -> None:
    release = trained(optimizer="sgd")
    weight, bias = release.trained["first.weight"].clone(), release.trained["first.bias"].clone()
    weight[3], bias[3] = release.initial["first.weight"][3], release.initial["first.bias"][3]
    layer = first_layer_change(replace(release, trained={**release.trained, "first.weight": weight, "first.bias": bias}))
    assert layer is not None
    assert len(layer.change) < layer.units == 30
    assert not any(torch.equal(row, torch.cat([weight[3], bias[3:4]]).double()) for row in layer.end)


def test_without_the_start_nothing_is_told() -> None:
    assert first_layer_change(trained(optimizer="sgd", knowledge=Knowledge(init="none"))) is None
