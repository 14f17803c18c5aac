"""Pictures that networks take."""

from __future__ import annotations

import pytest

from exhume.architectures.pictures import square_picture
from exhume.errors import ExhumeError


@pytest.mark.parametrize(("shape", "parts"), [((1, 8, 8), (1, 8)), ((3, 32, 32), (3, 32)), ((3, 64, 64), (3, 64))])
def test_square_pictures_have_channels_and_a_side(shape: tuple[int, ...], parts: tuple[int, int]) -> None:
    assert square_picture("resnet", shape) == parts


@pytest.mark.parametrize("shape", [(64,), (3, 32, 24), (3, 28, 28), (8, 8), (1, 3, 8, 8)])
def test_other_inputs_are_refused_by_the_networks_name(shape: tuple[int, ...]) -> None:
    with pytest.raises(ExhumeError, match=r"a vit takes square pictures whose side is a multiple of 8.* Use --victim two-layer"):
        square_picture("vit", shape)
