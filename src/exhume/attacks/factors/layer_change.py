"""The first layer's change as a product of two matrices: [dW, db] = Delta [X, 1].

Every gradient of a dense layer is a sum of outer products delta_i x_i^T over samples. A training rule that adds gradients up (GD,
SGD in any order, momentum, L-BFGS) leaves a change of exactly that form, whatever the depth and the loss above: Delta (units x
samples) holds what reached each unit through each sample over all of training. The rank of the change is the number of samples,
as long as these are linearly independent. Adam divides gradients, so that its change has no such form, but its first moment has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from exhume.attacks.span.trained_network import learned
from exhume.linalg.numerical_rank import spectrum_of
from exhume.release import Release

# Units whose change is below this share of the largest took no part in training: their zeros prove nothing.
_DEAD_UNIT = 1e-7
# Where a training checkpoint keeps Adam's mean of gradients.
_MOMENT = "exp_avg"


@dataclass(frozen=True)
class LayerChange:
    """What training added to a dense layer, of the units that took part, in float64; a bias is the weight of a constant input."""

    change: torch.Tensor  # (h, c)
    start: torch.Tensor  # (h, c) weights when the first of these gradients was taken
    end: torch.Tensor  # (h, c) weights after the last one
    biased: bool  # the last of the c inputs is the constant 1
    units: int  # of the layer, those that took no part included
    rounding: float  # of the released numbers, relative
    source: str  # what was read, in words

    def of_units(self, which: torch.Tensor) -> LayerChange:
        """The change of some units (a mask)."""
        return replace(self, change=self.change[which], start=self.start[which], end=self.end[which])

    @property
    def spectrum(self) -> torch.Tensor:
        """Singular values of the change, descending."""
        return spectrum_of(self.change)


def first_layer_change(release: Release, device: torch.device | str = "cpu") -> LayerChange | None:
    """What the release tells of the first layer's change: W_T - c W_0, or Adam's moment; None where it tells nothing."""
    weight, bias = release.model.first_weight, release.first_bias
    if weight is None or release.trained[weight].ndim != 2:
        return None
    moment = f"{_MOMENT}/{weight}" in release.optimizer
    if not moment and weight not in release.initial:
        return None
    names = (weight,) if bias is None else (weight, bias)
    end = _joined([release.trained[name] for name in names], device)
    if moment:
        change, start = _joined([release.optimizer[f"{_MOMENT}/{name}"] for name in names], device), end
        source = "Adam's mean of gradients in the released optimizer state"
    else:
        kept = learned(release).kept
        start = _joined([release.initial[name] for name in names], device)
        change = end - kept * start
        source = "the first layer's change" if kept == 1 else f"the first layer's change beyond {kept:.6g} times its start"
    sizes = change.norm(dim=1)
    alive = sizes > _DEAD_UNIT * sizes.max()
    rounding = torch.finfo(release.weights.dtype).eps
    return LayerChange(change[alive], start[alive], end[alive], bias is not None, len(sizes), rounding, source)


def _joined(parts: list[torch.Tensor], device: torch.device | str) -> torch.Tensor:
    """Weight and bias side by side in float64."""
    return torch.cat([part.to(device, torch.float64).reshape(len(part), -1) for part in parts], dim=1)
