"""The two-layer network against its formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from exhume.architectures import describe_network
from support.drawn_networks import rows, weights


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("head_biased", [False, True])
@pytest.mark.parametrize(("activation", "function"), [("relu", torch.relu), ("tanh", torch.tanh)])
@pytest.mark.parametrize("shape", [(12,), (3, 2, 2)])
def test_outputs_are_theta2_act_theta1_x(
    biased: bool, head_biased: bool, activation: str, function: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]
) -> None:
    spec = describe_network("two-layer", shape, outputs=2, last_layer=40)
    spec = replace(spec, biased=biased, head_biased=head_biased, activation=activation)
    theta, X = weights(spec), rows(5, 12)
    assert ("first.bias" in theta, "head.bias" in theta) == (biased, head_biased)
    hidden = function(X @ theta["first.weight"].T + theta.get("first.bias", 0.0))
    expected = hidden @ theta["head.weight"].T + theta.get("head.bias", 0.0)
    with torch.no_grad():
        torch.testing.assert_close(spec.module(theta)(X.reshape(5, *shape)), expected)
