"""The vision transformer against torch's own layers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from exhume.architectures import describe_network
from exhume.architectures.vision_transformer import HEADS, features_per_width
from exhume.errors import ExhumeError
from support.drawn_networks import rows, weights


def encoder_layer(theta: dict[str, torch.Tensor], prefix: str, width: int) -> nn.TransformerEncoderLayer:
    """torch's pre-norm layer with the same weights, under its own names."""
    layer = nn.TransformerEncoderLayer(width, HEADS, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True).double().eval()
    names = {
        "self_attn.in_proj_": "attention.mix.",
        "self_attn.out_proj.": "attention.out.",
        "linear1.": "mlp.0.",
        "linear2.": "mlp.2.",
        "norm1.": "norm1.",
        "norm2.": "norm2.",
    }
    layer.load_state_dict(
        {f"{theirs}{what}": theta[f"{prefix}{ours}{what}"] for theirs, ours in names.items() for what in ("weight", "bias")}
    )
    return layer


@pytest.mark.parametrize(("shape", "grid"), [((1, 8, 8), 4), ((3, 16, 16), 4), ((3, 32, 32), 8)])
def test_outputs_are_those_of_torchs_layers(shape: tuple[int, int, int], grid: int) -> None:
    width, tokens = 8, grid**2
    spec = describe_network("vit", shape, outputs=2, last_layer=2 * width * tokens)
    theta = weights(spec)
    assert (spec.width, features_per_width(shape)) == (width, tokens)
    x = rows(3, spec.d).reshape(3, *shape)
    patch = shape[1] // grid
    # Patches as rows of pixels, in reading order.
    pixels = x.unfold(2, patch, patch).unfold(3, patch, patch).permute(0, 2, 3, 1, 4, 5).reshape(3, tokens, -1)
    u = pixels @ theta["first.weight"].flatten(1).T + theta["first.bias"] + theta["position"]
    with torch.no_grad():
        for index in range(2):
            u = encoder_layer(theta, f"layers.{index}.", width)(u)
        u = nn.functional.layer_norm(u, (width,), theta["norm.weight"], theta["norm.bias"])
        torch.testing.assert_close(spec.module(theta)(x), u.flatten(1) @ theta["head.weight"].T)


def test_attention_has_a_forward_derivative() -> None:
    spec = describe_network("vit", (1, 8, 8), outputs=1, last_layer=64)
    features = spec.features_at(weights(spec), dtype=torch.float64)
    X, dX, h = rows(2), rows(2, seed=1), 1e-6
    difference = (features.value(X + h * dX) - features.value(X - h * dX)) / (2 * h)
    torch.testing.assert_close(features.jvp(X, dX)[1], difference, rtol=1e-5, atol=1e-7)


def test_rows_that_are_no_pictures_are_refused() -> None:
    with pytest.raises(ExhumeError, match=r"a vit takes square pictures .* got inputs of shape \(20,\)"):
        describe_network("vit", (20,), outputs=1, last_layer=64).graph()
