"""What networks on pictures share."""

from __future__ import annotations

from exhume.errors import ExhumeError


def square_picture(name: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Channels and side of square pictures whose side is a multiple of 8; anything else is refused."""
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] % 8:
        raise ExhumeError(
            f"a {name} takes square pictures whose side is a multiple of 8, got inputs of shape {shape}. Use --victim two-layer."
        )
    return shape[0], shape[1]
