"""The span problem through the penultimate features of any module: jvp and vjp in place of V, k outputs over one m x p Gram."""

from __future__ import annotations

import torch

from exhume.attacks.span.problem import Point, Span, State
from exhume.features import ModuleFeatures
from exhume.linalg import streams
from exhume.linalg.conjugate_gradients import Group
from exhume.linalg.pass_counter import PassCounter
from exhume.linalg.projector import Projector

# Random directions from which the derivative Gram tr(J_i^T J_j) of the preconditioner is estimated.
_PROBES = 4


class ModuleSpan(Span):
    """theta in span{phi(x_i)} for a module's phi; every row has its own Jacobian, none of which is ever formed."""

    nuisance = False

    def __init__(
        self, features: ModuleFeatures, weights: torch.Tensor, *, radius: float | None, passes: PassCounter | None = None
    ) -> None:
        self.features = features
        self.dtype, self.device = features.dtype, features.device
        self.d, self.p, self.k = features.d, features.p, weights.shape[0]
        self.radius, self.passes = radius, PassCounter() if passes is None else passes
        self.theta = weights.T.to(self.device, self.dtype).contiguous()
        self.energy = float((self.theta.double() ** 2).sum())
        self._probes = streams.random_directions(_PROBES, self.d, seed=0, purpose="derivative probes").to(self.device, self.dtype)

    def state(self, at: Point) -> State:
        """One forward pass, one backward pass, and one forward-mode pass per probe."""
        X = at.X
        scale = (self.d / _PROBES) ** 0.5  # E[v v^T] = I
        pieces, Phi = [], torch.empty(0)
        for probe in self._probes:
            value, change = self.features.jvp(X, (scale * probe).expand_as(X).contiguous())
            Phi = value.T
            pieces.append(change.T)
        gram = (Phi.T @ Phi).double()
        projector = Projector.build(gram, None, None, jitter=self._jitter)
        alpha, _ = projector.solve((Phi.T @ self.theta).double(), None)
        residual = self.theta - Phi @ alpha.to(self.dtype)
        gradient = self.features.vjp(X, alpha.to(self.dtype) @ residual.T)
        self.passes.add(2 + _PROBES)
        loss = float((residual.double() ** 2).sum()) / self.energy
        return State(at, Phi, torch.cat(pieces), projector, alpha, None, residual, gradient, loss)

    def gauss_newton_product(self, state: State, unknowns: Group) -> Group:
        """J^T J (dX, dalpha) with J = [J_i dx_i alpha_i, Phi]: one forward-mode and one backward pass."""
        dX, da = unknowns[0], unknowns[1].to(self.dtype)
        alpha = state.alpha.to(self.dtype)
        _, change = self.features.jvp(state.X, dX)
        U = change.T @ alpha + state.Phi @ da  # (p, k)
        self.passes.add(2)
        return self.features.vjp(state.X, alpha @ U.T), (state.Phi.T @ U).double()

    def informative(self, state: State) -> int:
        """Features that move with some row."""
        return int((state.slopes.reshape(_PROBES, self.p, -1) != 0).any(2).any(0).sum())
