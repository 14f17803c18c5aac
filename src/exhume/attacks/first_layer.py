"""`first-layer`: exact rows from the change of a dense first layer with a ReLU behind it, whatever follows it.

[dW, db] = Delta [X, 1], and Delta is exactly zero where a unit was never on for a sample. n is the rank of the change; columns of
Delta are found by their zeros; all of them together give X.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch

from exhume.attacks.factors.column_space import SampleSpan, audible, column_space, sample_span
from exhume.attacks.factors.layer_change import LayerChange, first_layer_change
from exhume.attacks.interface import Attack, Proposal, Resources, Watch, ignore
from exhume.attacks.proof.certificate import VAGUE
from exhume.attacks.proof.column_certificate import certificate_of, check_columns, judge_columns
from exhume.attacks.proof.norms import norms_of_network
from exhume.attacks.run import Answer, Method, StepReport, drive
from exhume.attacks.search.column_search import ColumnSearch, ColumnSearchSettings, ColumnsState
from exhume.counting import MARGIN
from exhume.errors import ExhumeError
from exhume.linalg.numerical_rank import rank_by_gap
from exhume.linalg.pass_counter import PassCounter
from exhume.parallel.threads import at_most
from exhume.release import Release
from exhume.result import Certificate, Curve, Reconstruction, Status

# From this many samples on a second thread pays.
_MANY_SAMPLES = 64


@dataclass(frozen=True)
class FirstLayer(Attack):
    """Settings of the first-layer attack."""

    name: str = field(default="first-layer", init=False)
    about: str = field(default="exact zeros in the change of a dense first layer with a ReLU behind it", init=False)
    needs: str = field(default="first layer before and after training (or Adam's state); n is found", init=False)

    rows: int | None = None  # the rank of the change, where somebody claims to know n
    patience: int = 32  # waves of the search without a new column after which it gives up

    def refusal(self, release: Release) -> str | None:
        """It needs a dense first layer with a ReLU behind it, and its change."""
        if not release.trained:
            return "first-layer reads the first layer's change, and random features have none. Use --attack gauss-newton."
        if not release.network.relu_behind_first:
            return "first-layer needs a dense first layer with a ReLU behind it. Use --attack subspace or gauss-newton."
        if first_layer_change(release) is None:
            return "first-layer needs the first layer before training (--know-init all). Use --attack gauss-newton."
        return None

    def proposals(self, release: Release) -> tuple[Proposal, ...]:
        """First of all, where the first layer's change has a rank."""
        refused = self.refusal(release)
        if refused is not None:
            return (Proposal(self, None, refused),)
        layer = first_layer_change(release)
        assert layer is not None
        if not len(layer.change):
            return (Proposal(self, None, "the first layer did not move"),)
        rank = rank_by_gap(layer.spectrum, layer.rounding)
        if rank is None:
            return (Proposal(self, None, _no_rank(layer)),)
        if len(layer.change) < rank:
            return (Proposal(self, None, f"{len(layer.change)} units are too few for {rank} samples"),)
        return (Proposal(self, 5, f"the first layer's change has rank {rank}: as many samples, {layer.units} units"),)

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        """Rebuild the training rows from the release alone."""
        self.check(release)
        method = ColumnMethod(release, self, resources, seed=seed)
        return drive(method, self, release, seed=seed, watch=watch, resources=resources)


def _no_rank(layer: LayerChange) -> str:
    return (
        "the spectrum of the first layer's change has no gap: there are as many samples as inputs, "
        "or training did not add gradients up (Adam, whose released state would help)"
    )


class ColumnMethod(Method[ColumnsState]):
    """One attack on one release."""

    state_type = ColumnsState

    def __init__(self, release: Release, attack: FirstLayer, resources: Resources, *, seed: int) -> None:
        layer = first_layer_change(release, resources.device)
        assert layer is not None
        self.release, self.layer = release, layer
        self.passes = PassCounter()
        self.spectrum = layer.spectrum
        claimed = attack.rows if attack.rows is not None else release.facts.n
        rank = claimed if claimed is not None else rank_by_gap(self.spectrum, layer.rounding)
        self.rank = rank
        if rank is not None and not 1 <= rank <= min(layer.change.shape):
            if claimed is not None and attack.rows is not None:
                raise ExhumeError(f"rows must be at least 1 and at most {min(layer.change.shape)}, got {rank}.")
            self.rank = None
        if self.rank is not None:
            heard = audible(layer, sample_span(layer, self.rank))
            self.layer = layer.of_units(heard) if int(heard.sum()) >= self.rank else layer
        self._seed, self._settings = seed, ColumnSearchSettings(patience=attack.patience)

    @cached_property
    def _space(self) -> SampleSpan:
        assert self.rank is not None
        return sample_span(self.layer, self.rank)

    @cached_property
    def _search(self) -> ColumnSearch:
        return ColumnSearch(self.layer, self._space, seed=self._seed, passes=self.passes, settings=self._settings)

    def begin(self) -> ColumnsState:
        """No columns."""
        if self.rank is None:
            return ColumnsState(self.layer.change.new_zeros(0, 0), torch.zeros(len(self.layer.change), 0, dtype=torch.bool))
        return self._search.begin()

    def advance(self, state: ColumnsState) -> ColumnsState:
        """One wave of the search."""
        assert self.rank is not None
        with at_most(1) if self.rank < _MANY_SAMPLES else contextlib.nullcontext():
            return self._search.advance(state)

    def done(self, state: ColumnsState) -> bool:
        """Whether all columns are found, or no more are."""
        return self.rank is None or self._search.done(state)

    def report(self, state: ColumnsState) -> StepReport:
        """The share of columns that are missing is the loss."""
        assert self.rank is not None
        rows = self._rows(state)
        if state.found == self.rank:
            rows = self._scaled(rows)[0]
        else:  # of no length yet
            rows = rows[:, : self.release.d]
            rows = rows * math.sqrt(self.release.d) / rows.norm(dim=1, keepdim=True).clamp(min=1e-300)
        return StepReport("settle" if state.found == self.rank else "columns", state.wave, 1 - state.found / self.rank, rows)

    def time_left(self, state: ColumnsState, curve: Curve) -> float | None:
        """At the pace of all waves so far, by columns."""
        if not state.found or self.rank is None or not curve.seconds:
            return None
        return curve.seconds[-1] * (self.rank - state.found) / state.found

    def _rows(self, state: ColumnsState) -> torch.Tensor:
        """Rows (f, c) of the columns found, on the side of their masks: exact once there are all of them.

        Of a part of the columns only y_i . x_k = 0 is known; the least x with that stands for the row.
        """
        inverse = torch.linalg.inv(state.duals) if state.found == self.rank else torch.linalg.pinv(state.duals)
        rows = inverse @ self._space.basis.T
        on = (self.layer.start + self.layer.end) @ rows.T
        off = torch.where(state.zeros, on, 0.0).sum(0) - torch.where(state.zeros, 0.0, on).sum(0)
        signs = torch.where(off > 0, -1.0, 1.0).to(rows)
        return rows * signs[:, None]

    def finish(self, state: ColumnsState) -> Answer:
        """The rows at their norms, and how sure they are."""
        notes = [f"read from {self.layer.source}"]
        if len(self.layer.change) < self.layer.units:
            notes.append(f"{self.layer.units - len(self.layer.change)} of {self.layer.units} units took no part in training")
        if self.rank is None or state.found < self.rank:
            return self._stalled(state, notes)
        rows = self._rows(state)
        if self.rank == 1:
            return self._alone(rows, notes)
        columns = column_space(self.layer, self._space, equalise=True)
        signs = (rows @ (self._space.basis @ state.duals)).diagonal().sign()
        checks = check_columns(self.layer, self._space, columns, state.duals * signs, state.zeros, rows)
        energy = (self.layer.change @ (self._space.basis @ state.duals)).square().sum(0) * rows.square().sum(1)
        costs = tuple((energy / energy.sum()).tolist())
        behind = (self.spectrum[self.rank :][:3].square() / self.spectrum.square().sum()).tolist()
        proof = certificate_of(checks, weakest=min(costs), spare=max(behind, default=None))
        status, reason = judge_columns(checks, proof)
        found, scale, flipped = self._scaled(rows)
        if flipped:
            status, reason = Status.UNCERTIFIED, f"the bias gives {flipped} rows a sign that their masks do not"
        return Answer(found, status, reason, proof, (*costs, *behind), signs_resolved=True, scale=scale, notes=tuple(notes))

    def _alone(self, rows: torch.Tensor, notes: list[str]) -> Answer:
        """One sample is the row space itself: a change of rank one has h c equations for h + c - 1 unknowns."""
        h, c = self.layer.change.shape
        noise, energy = float(self._space.noise.square().sum()) * c, float(self.layer.change.square().sum())
        error = math.sqrt(noise / energy)
        found, scale, flipped = self._scaled(rows)
        proof = Certificate(h * c, h + c - 1, noise / energy, noise / energy, (error,), 1.0, None, 1.0)
        sure = proof.margin >= MARGIN and error <= VAGUE and not flipped
        reason = f"the change has rank one: {proof.equations} equations for {proof.unknowns} unknowns"
        status = Status.CERTIFIED if sure else Status.UNCERTIFIED
        return Answer(found, status, reason, proof, (1.0,), signs_resolved=True, scale=scale, notes=tuple(notes))

    def _scaled(self, rows: torch.Tensor) -> tuple[torch.Tensor, str, int]:
        """Rows at their norms, where those come from, and how many have another sign by their bias than by their mask."""
        if self.layer.biased:
            last = rows[:, -1:]
            return (rows[:, :-1] / last).to(self.release.weights.dtype), "from bias", int((last <= 0).sum())
        found, scale = norms_of_network(self.release, rows)
        return found.to(self.release.weights.dtype), scale, 0

    def _stalled(self, state: ColumnsState, notes: list[str]) -> Answer:
        """What there is of the rows where columns are missing, and why they are."""
        empty = Certificate(0, 0, 1.0, 0.0)
        units = len(self.layer.change)
        if self.rank is None:
            none = torch.zeros(0, self.release.d, dtype=self.release.weights.dtype)
            return Answer(none, Status.STALLED, _no_rank(self.layer), empty, notes=tuple(notes))
        rows, scale, _ = self._scaled(self._rows(state)) if state.found else (torch.zeros(0, self.release.d), "unknown", 0)
        few = f"{units} units for {self.rank} samples: " if units < 3 * self.rank else ""
        reason = f"{few}{state.found} of {self.rank} columns were found; rows need all of them, more units per sample would help"
        return Answer(
            rows, Status.STALLED, reason, replace(empty, loss=1 - state.found / self.rank), scale=scale, notes=tuple(notes)
        )
