"""The ResNet against Eqs. 165 and 166, written out."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv2d

from exhume.architectures import describe_network
from exhume.architectures.residual_network import features_per_channel
from exhume.errors import ExhumeError
from support.drawn_networks import rows, weights


@pytest.mark.parametrize(("shape", "kernel"), [((1, 8, 8), 4), ((3, 16, 16), 12), ((3, 32, 32), 28)])
def test_outputs_are_those_of_the_formula(shape: tuple[int, int, int], kernel: int) -> None:
    spec = describe_network("resnet", shape, outputs=2, last_layer=4 * 49 * 2)
    theta = weights(spec)
    assert spec.width == 4
    assert theta["first.weight"].shape == (4, shape[0], kernel, kernel)  # 28x28 for CIFAR-10 (Appendix D.1)
    x = rows(3, spec.d).reshape(3, *shape)
    u = conv2d(x, theta["first.weight"], padding=1)
    assert u.shape[-2:] == (7, 7)
    assert features_per_channel(shape) == 49
    for block in range(4):
        inner = torch.relu(conv2d(u, theta[f"blocks.{block}.inner.weight"], padding=1))
        u = torch.relu(u + conv2d(inner, theta[f"blocks.{block}.outer.weight"], padding=1))
    with torch.no_grad():
        torch.testing.assert_close(spec.module(theta)(x), u.flatten(1) @ theta["head.weight"].T)
    assert len(theta) == 1 + 4 * 2 + 1  # nothing else: no biases, no batch norm


def test_rows_that_are_no_pictures_are_refused() -> None:
    with pytest.raises(ExhumeError, match=r"a resnet takes square pictures .* got inputs of shape \(64,\)"):
        describe_network("resnet", (64,), outputs=1, last_layer=490).graph()
