"""Last-layer features removed after training: by magnitude for networks, by Optimal Brain Surgeon for random features.

The surgeon (Hassibi and Stork 1992; Figure 16 of the paper) has a closed form for a linear layer under square loss. With more
features than samples the Hessian Phi^T Phi is singular, and the surgeon's rule has a limit: removing feature q from the
minimum-norm interpolator costs theta_q^2 / (1 - l_q), with l_q = phi_q^T K^-1 phi_q its leverage, and the other weights move
to the minimum-norm interpolator of the features that are left. No label is lost as long as n features remain.
"""

from __future__ import annotations

import torch

from exhume.errors import ExhumeError

# Features are removed one by one up to this many, beyond it in as many equal rounds.
_ROUNDS = 4000
# The kernel's inverse is computed anew after this many removals, since updates lose digits.
_REFRESH = 500


def optimal_brain_surgeon(Phi: torch.Tensor, y: torch.Tensor, share: float) -> torch.Tensor:
    """theta (p,) of the minimum-norm interpolator on the features that remain, zero on the `share` removed; Phi is (p, n)."""
    p, n = Phi.shape
    gone = round(share * p)
    if p - gone < 2 * n:
        raise ExhumeError(f"--prune {share:g} leaves {p - gone} of {p} features, too few to fit {n} labels. Prune less or raise p.")
    Phi, y = Phi.double(), y.double()
    alive = torch.ones(p, dtype=torch.bool, device=Phi.device)
    batch = max(1, gone // _ROUNDS)
    inverse, since = torch.linalg.inv(Phi.T @ Phi), 0
    while gone:
        if since >= _REFRESH:
            inverse, since = torch.linalg.inv(Phi[alive].T @ Phi[alive]), 0
        solved = Phi @ inverse  # (p, n)
        theta, leverage = solved @ y, (solved * Phi).sum(1)
        cost = torch.where(alive, theta**2 / (1 - leverage).clamp(min=1e-12), torch.inf)
        worst = cost.topk(min(batch, gone), largest=False).indices
        for q in worst.tolist():
            u = inverse @ Phi[q]
            inverse = inverse + torch.outer(u, u) / (1 - Phi[q] @ u)
        alive[worst] = False
        gone -= len(worst)
        since += len(worst)
    kept = Phi * alive[:, None]
    return kept @ torch.linalg.solve(kept.T @ kept, y)


def prune_by_magnitude(weights: torch.Tensor, share: float) -> torch.Tensor:
    """Weights (k, p) without whole features: those with the smallest weights go to zero in every output."""
    gone = weights.norm(dim=0).argsort()[: round(share * weights.shape[1])]
    pruned = weights.clone()
    pruned[:, gone] = 0.0
    return pruned


def check_prune(share: float) -> None:
    """A share of features must leave some."""
    if not 0 <= share < 1:
        raise ExhumeError(f"--prune is a share of the features between 0 and 1, got {share}.")
