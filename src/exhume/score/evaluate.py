"""One score of one reconstruction, each figure with its chance level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from exhume.data import Dataset
from exhume.linalg import streams
from exhume.release import Release
from exhume.result import Reconstruction
from exhume.score import metrics
from exhume.score.match import match

# A row counts as covered when it is rebuilt within this relative error, its sign included.
COVERED = 0.1
_CHANCE_DRAWS = 5


@dataclass(frozen=True)
class Score:
    """How near the rows came; `chance` fields are random guesses under the same matching."""

    n_true: int
    n_found: int
    rho: float  # Eq. 12, sign forgiven per sample
    rho_signed: float  # Eq. 12, nothing forgiven
    rho_direction: float  # Eq. 12 with every row rescaled to sqrt(d), nothing forgiven
    chance: float
    chance_signed: float
    covered: int  # rows within 10% of the truth, nothing forgiven
    worst_row: float  # largest relative error of a row, nothing forgiven
    span_residual: float | None  # Eq. 167
    psnr: float | None = None
    ssim: float | None = None
    chance_psnr: float | None = None
    chance_ssim: float | None = None
    column_errors: tuple[float, ...] = ()
    chance_column_error: float | None = None
    matched: tuple[int | None, ...] = ()  # rebuilt row of every true row, nothing forgiven


def evaluate(
    guess: Reconstruction, truth: Dataset, release: Release | None, *, device: str = "cpu", within: float = COVERED
) -> Score:
    """Score a reconstruction against the truth; the span residual needs the release whose features the rows belong to."""
    X, G, d = truth.rows, guess.rows.double(), truth.d
    signed = match(X, G, forgive_sign=False)
    forgiven = match(X, G, forgive_sign=True)
    unit = d**0.5
    directed = match(_at_norm(X, unit), _at_norm(G, unit), forgive_sign=False)
    relative = signed.distance / X.norm(dim=1)
    draws = [_random_rows(truth, max(truth.n, len(G)), seed) for seed in range(_CHANCE_DRAWS)]
    lucky = [match(X, rows, forgive_sign=False) for rows in draws]
    blocks = None if release is None else release.model.feature_blocks(release.trained, device=device)
    score: dict[str, Any] = {
        "n_true": truth.n,
        "n_found": len(G),
        "rho": metrics.rho(forgiven.distance, d),
        "rho_signed": metrics.rho(signed.distance, d),
        "rho_direction": metrics.rho(directed.distance, d),
        "chance": _mean(metrics.rho(match(X, rows, forgive_sign=True).distance, d) for rows in draws),
        "chance_signed": _mean(metrics.rho(one.distance, d) for one in lucky),
        "covered": int((relative < within).sum()),
        "worst_row": float(relative.max()),
        "span_residual": None if blocks is None else metrics.span_residual(blocks, X, G),
        "matched": signed.index,
    }
    if truth.kind == "image":
        seen = truth.pictures(X)
        score["psnr"], score["ssim"] = metrics.picture_quality(seen, truth.pictures(signed.rows(G)))
        by_chance = [metrics.picture_quality(seen, truth.pictures(m.rows(r))) for m, r in zip(lucky, draws, strict=True)]
        score["chance_psnr"], score["chance_ssim"] = _mean(q[0] for q in by_chance), _mean(q[1] for q in by_chance)
    if truth.kind == "table":
        score["column_errors"] = metrics.column_errors(truth.raw(X), truth.raw(signed.rows(G)))
        score["chance_column_error"] = _mean(
            float(torch.tensor(metrics.column_errors(X, m.rows(r))).median()) for m, r in zip(lucky, draws, strict=True)
        )
    return Score(**score)


def _at_norm(X: torch.Tensor, norm: float) -> torch.Tensor:
    return X * (norm / X.norm(dim=1, keepdim=True).clamp(min=1e-300))


def _random_rows(truth: Dataset, count: int, seed: int) -> torch.Tensor:
    """A guess without knowledge: as many random directions as were guessed, at the truth's mean norm."""
    return streams.random_directions(count, truth.d, seed=seed, purpose="chance") * truth.rows.norm(dim=1).mean()


def _mean(values: object) -> float:
    collected = list(values)  # type: ignore[call-overload]
    return float(sum(collected) / len(collected))
