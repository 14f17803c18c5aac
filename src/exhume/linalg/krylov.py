"""Extreme eigenvectors of a symmetric operator that is only known by its products with blocks of vectors."""

from __future__ import annotations

from collections.abc import Callable

import torch

_KRYLOV_STEPS = 4
_OVERSAMPLE = 4


def krylov_basis(
    product: Callable[[torch.Tensor], torch.Tensor],
    start: torch.Tensor,  # (d, width) random
    steps: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Orthonormal basis of span{S, A S, ..., A^steps S} and its image under A, both (d, c); fewer steps where d is small."""
    d = start.shape[0]
    pieces = [torch.linalg.qr(start)[0]]
    images = [product(pieces[0])]
    for _ in range(steps):
        if sum(piece.shape[1] for piece in pieces) + start.shape[1] > d:
            break
        image = images[-1]
        for _ in range(2):  # again, since QR makes directions of rounding where the image has a lower rank
            for piece in pieces * 2:  # twice is enough
                image = image - piece @ (piece.T @ image)
            image = torch.linalg.qr(image)[0]
        pieces.append(image)
        images.append(product(pieces[-1]))
    return torch.cat(pieces, dim=1), torch.cat(images, dim=1)


def top_eigenpairs(
    product: Callable[[torch.Tensor], torch.Tensor],
    start: torch.Tensor,  # (d, width) random
    count: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` eigenpairs of largest modulus by a block Krylov range finder: values (c,), vectors (d, c)."""
    return leading(*krylov_basis(product, start, _KRYLOV_STEPS), count)


def leading(basis: torch.Tensor, image: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` eigenpairs of largest modulus that an orthonormal basis (d, c) and its image show: values, vectors (d, count)."""
    small = basis.T @ image
    values, vectors = torch.linalg.eigh((small + small.T) / 2)
    order = values.abs().argsort(descending=True)[:count]
    return values[order], basis @ vectors[:, order]


def krylov_width(count: int, d: int) -> int:
    """Columns of the random start that `top_eigenpairs` wants for `count` pairs."""
    return min(d, count + _OVERSAMPLE)
