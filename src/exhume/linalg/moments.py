"""Extreme eigenvectors of a symmetric operator that is only known by its products with blocks of vectors."""

from __future__ import annotations

from collections.abc import Callable

import torch

_KRYLOV_STEPS = 4
_OVERSAMPLE = 4


def top_eigenpairs(
    product: Callable[[torch.Tensor], torch.Tensor],
    start: torch.Tensor,  # (d, width) random
    count: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` eigenpairs of largest modulus by a block Krylov range finder: values (c,), vectors (d, c)."""
    d = start.shape[0]
    basis = torch.linalg.qr(start)[0]
    pieces = [basis]
    for _ in range(_KRYLOV_STEPS):
        if sum(piece.shape[1] for piece in pieces) + basis.shape[1] > d:
            break
        image = product(basis)
        for piece in pieces * 2:  # twice is enough
            image = image - piece @ (piece.T @ image)
        basis = torch.linalg.qr(image)[0]
        pieces.append(basis)
    whole = torch.linalg.qr(torch.cat(pieces, dim=1))[0]
    small = whole.T @ product(whole)
    values, vectors = torch.linalg.eigh((small + small.T) / 2)
    order = values.abs().argsort(descending=True)[:count]
    return values[order], whole @ vectors[:, order]


def krylov_width(count: int, d: int) -> int:
    """Columns of the random start that `top_eigenpairs` wants for `count` pairs."""
    return min(d, count + _OVERSAMPLE)
