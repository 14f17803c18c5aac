"""One run of `gauss-newton` on weights that lie exactly in the span: which features carry it, its start, its steps, its end."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch

from exhume.attacks import certificate, moment_start, noisy, pursuit, search, signs, wide_span
from exhume.attacks.base import Clock, Progress, Resources, Watch, check_rows, checkpoint_of, estimate_eta
from exhume.attacks.scale import resolve_scale
from exhume.attacks.search import Search
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import State
from exhume.attacks.wide_span import WideSpan
from exhume.attacks.wide_start import WideStart
from exhume.errors import ExhumeError
from exhume.features import MatrixFeatures, RandomFeatures
from exhume.linalg.precision import precision
from exhume.linalg.team import LostProcessError
from exhume.release import FeatureSpec, Release
from exhume.result import Curve, Reconstruction, Status

if TYPE_CHECKING:
    from exhume.attacks.gauss_newton import GaussNewton

_POLISH_STEPS = 6
# State tensors alive at once: features and slopes, of the accepted rows and of the trial.
_STATE_COPIES = 4
# Up to this many entries of V the search uses all features.
_CHEAP = 8_000_000
# The first rows: those that stand out in the weights' second moment, and this share of them.
_HEADROOM = 1.25
# Entries of V by which the rows that stand out are counted.
_VISIBLE = 400_000_000
# Nuisance columns are used where there are this many times as many weights.
_NUISANCE_PAYS = 2


class ExactRun:
    """One attack on one release: which features carry the search, what has been found, what it cost."""

    def __init__(self, attack: GaussNewton, release: Release, seed: int, watch: Watch, resources: Resources) -> None:
        self.attack, self.release, self.seed, self.watch = attack, release, seed, watch
        self.resources = resources
        self.known_n = attack.rows if attack.rows is not None else release.facts.n
        check_rows(self.known_n, release)
        # V may take half of the budget; features and slopes of the rows share the other half.
        self.keep = resources.memory // 2
        self.features = self._released_features()
        self.p, self.weights = self.features.p, self.features.own(release.weights[:, release.alive])
        homogeneous = self.features.activation.homogeneous
        norm = release.facts.input_norm
        # Homogeneous features span the same line at every norm: any radius will do until the scale is resolved.
        self.radius = norm if norm is not None else (math.sqrt(release.d) if homogeneous else None)
        # With hardly more weights than nuisance columns, those would fit everything.
        self._nuisance = self.p > _NUISANCE_PAYS * (release.d + 1)
        visible = self._nuisance and self.features.activation.parity != "odd" and not self.features.activation.phase
        self._inner = moment_start.dimension(release.d) if visible else 0
        self.checkpoint = checkpoint_of(resources, attack, release, seed)
        self.clock = Clock()
        self.curve = Curve()
        self.spent = 0  # passes of problems that were left behind
        self.notes: list[str] = []

    def _released_features(self) -> RandomFeatures | MatrixFeatures:
        """phi: drawn from its stream, or a layer that is at hand."""
        spec, dtype, alive = self.release.features, self.release.weights.dtype, self.release.alive
        device = self.resources.device
        if isinstance(spec, FeatureSpec):
            team, cache = self.resources.team, self.resources.cache
            return RandomFeatures(spec, dtype=dtype, device=device, keep_bytes=self.keep, alive=alive, team=team, spill=cache)
        return MatrixFeatures.of_layer(self.release.trained, spec.activation, alive=alive, dtype=dtype, device=device)

    def features_for(self, rows: int) -> int:
        """Features that carry a search for `rows` rows: a multiple of the unknowns, all of them where that is cheap."""
        if self.p * self.release.d <= _CHEAP:
            return self.p
        return min(self.p, math.ceil(self.attack.subsample * self.release.d * rows))

    def affords(self, count: int, columns: int) -> bool:
        """Whether so many numbers for each of `count` features fit the budget besides V's share."""
        return self._bytes(count, columns) <= self.resources.memory - self.keep

    def _bytes(self, count: int, columns: int) -> int:
        return count * columns * self.release.weights.element_size()

    def _check_budget(self, count: int, rows: int) -> None:
        """States must fit the budget; V takes what is left of it."""
        columns = _STATE_COPIES * (rows + 2)
        if not self.affords(count, columns):
            raise ExhumeError(
                f"a memory budget of {self.resources.memory / 1e6:.0f} MB is too small: {rows} rows on {count} features need "
                f"{self._bytes(count, columns) / 1e6:.0f} MB besides V's share of {self.keep / 1e6:.0f} MB. Raise --memory."
            )

    def search(self) -> tuple[SpanProblem, Search, State]:
        """Run or resume the search until it is done or has failed; Ctrl-C keeps the last finished step."""
        try:
            problem, now, first = self._start()
            return self._advance(problem, now, min(first, search.row_limit(problem, self.known_n)))
        except (KeyboardInterrupt, LostProcessError):
            self.checkpoint.flush()
            raise

    def _start(self) -> tuple[SpanProblem, Search, int]:
        """The problem and the first rows, or those of the checkpoint; and how many rows stood out."""
        resumed = self.checkpoint.load()
        if resumed is None:
            visible, seen = self._look()
            first = max(2, math.ceil(_HEADROOM * visible))
            return *self._begin(first, seen), first
        tensors, values = resumed
        first, device = values["first"], self.resources.device
        self.curve = Curve(**{name: tuple(v) for name, v in values["curve"].items()})
        self.clock, self.spent = Clock(values["seconds"]), values["passes"]
        problem = self.problem(values["features"])
        problem.carry(tensors)
        if "search" in values:
            return problem, search.unpack(tensors, values["search"], device), first
        return *WideStart(self, first).resume(problem, tensors, values), first

    def _advance(self, problem: SpanProblem, now: Search, first: int) -> tuple[SpanProblem, Search, State]:
        """Step after step, on more features as rows come in."""
        state, plan = problem.state(now.X), self.attack.plan()
        if self._inner:
            plan = moment_start.afterwards(plan)
        while now.stage in ("grow", "prune"):
            needed = self.features_for(now.X.shape[0])
            self._check_budget(max(needed, problem.p), now.X.shape[0])
            if needed > problem.p:
                problem.extend(needed)
                state = problem.state(now.X)
                now = replace(now, losses=())
            limit = search.row_limit(problem, self.known_n)
            if self.radius is None:
                now, state = pursuit.advance(problem, state, now, plan, limit=limit, seed=self.seed)
            else:
                now, state = search.advance(problem, state, now, plan, limit=limit, first_rows=first, seed=self.seed)
            tensors, values = search.pack(now)
            self.finished(problem, now, state, first, tensors, {"search": values})
        return problem, now, state

    def _look(self) -> tuple[int, int]:
        """Rows that stand out in the weights' second moment, and the features by which they do: more of them until some do."""
        # Inside the moment subspace growing is cheap, so that it may begin from fewer rows.
        most = 12 if self._inner else 24
        count = min(self.p, max(_VISIBLE // self.release.d, 1))
        while True:
            problem = self.problem(count, nuisance=False)
            visible = search.visible_rows(problem, self.seed, most=most)
            self.spent += problem.passes
            if 2 * visible >= most or problem.p >= self.p:
                return visible, problem.p
            count = min(self.p, 4 * problem.p)

    def _begin(self, first: int, seen: int) -> tuple[SpanProblem, Search]:
        """The first rows. With n claimed, all of them at once, which is fastest; later attempts grow from below."""
        wide = WideStart(self, first)
        if self.radius is not None and self._inner and wide.fits():
            return wide.begin(seen)
        problem = self.problem(self.features_for(self.known_n or first))
        if self.radius is None:  # norms count and are not known
            return problem, pursuit.begin(problem, seed=self.seed)
        rows = self.known_n or min(first, search.row_limit(problem, self.known_n))
        return problem, search.begin(problem, rows=rows, seed=self.seed)

    def problem(self, count: int | None = None, *, nuisance: bool = True) -> SpanProblem:
        """The span problem on the first `count` features."""
        self._check_budget(count or self.p, 1)
        enough = (count or self.p) >= wide_span.ENOUGH * self.release.d
        if nuisance and self._inner and isinstance(self.features, RandomFeatures) and self.radius is not None and enough:
            return WideSpan(self.features, self.weights, radius=self.radius, count=count)
        problem = SpanProblem(self.features, self.weights, radius=self.radius, nuisance=nuisance and self._nuisance, count=count)
        problem.slack = pursuit.SLACK
        return problem

    def finished(
        self, problem: SpanProblem, now: Search, state: State, first: int, tensors: dict[str, torch.Tensor], at: dict[str, Any]
    ) -> None:
        """Note a finished step: in the curve, in the checkpoint (`tensors` and `at` say where it stands), and to who watches."""
        passes, seconds = self.spent + problem.passes, self.clock.seconds
        self.curve = self.curve.extended(loss=state.loss, rows=state.m, passes=passes, seconds=seconds)
        kept = {"first": first, "features": problem.p, "passes": passes, "seconds": seconds, "curve": asdict(self.curve)}
        self.checkpoint.save(tensors | problem.carried(), kept | at)
        eta = estimate_eta(self.curve.loss, self.curve.seconds, precision(problem.dtype).converged)
        self.watch(Progress(now.stage, now.step, state.loss, state.m, passes, seconds, eta, state.X, now.attempt))

    def finish(self, found: tuple[SpanProblem, Search, State]) -> Reconstruction:
        """Signs, a polish on all that the weights say, scale, and the certificate."""
        problem, now, state = found
        costs, spare = certificate.cliff(problem, state, self.seed)
        resolved, X, note = signs.resolve_signs(problem, state)
        if note:
            self.notes.append(note)
        exact = self.problem(problem.p, nuisance=False)
        open_signs = not resolved and problem.features.activation.parity == "linear-odd"
        last = exact.state(X) if open_signs else self._polish(exact, X)  # a polish would bend rows of the wrong sign
        if exact.p < self.p and not open_signs:
            last = self._verify(exact, last)
        passes, seconds = self.spent + problem.passes + exact.passes, self.clock.seconds
        rows, scale = resolve_scale(exact, last, self.release.facts)
        proof = certificate.certify(exact, last, costs=costs, spare=spare)
        status, reason = certificate.judge(proof, converged=now.stage == "done")
        if self.radius is None and status is Status.STALLED:  # the pursuit keeps only rows that stand out of a noise floor
            status, reason = certificate.judge_noisy(proof, noise=noisy.noise_cost(exact, last))
        if status is not Status.STALLED and not resolved and problem.features.activation.parity in ("even", "odd"):
            self.notes.append(f"{problem.features.activation.name} hides the sign: each row is known up to its sign")
        self.checkpoint.clear()
        return Reconstruction(
            rows=rows.cpu(),
            status=status,
            reason=reason,
            certificate=proof,
            attack=self.attack.name,
            passes=passes,
            seconds=seconds,
            curve=self.curve,
            removal_costs=tuple(sorted((*costs, *spare), reverse=True)),
            signs_resolved=resolved,
            scale=scale,
            notes=tuple(self.notes),
        )

    def _polish(self, exact: SpanProblem, X: torch.Tensor) -> State:
        """A few steps on the exact problem, without nuisance columns: now the linear part counts as evidence too."""
        state = exact.state(X)
        for _ in range(_POLISH_STEPS):
            if state.loss <= precision(exact.dtype).polished:
                break
            trial = exact.state(exact.step(state, damping=1e-9, cg_steps=3 * self.attack.cg_steps, cg_tolerance=1e-2))
            if trial.loss > 0.9 * state.loss:
                break
            state = trial
        return state

    def _verify(self, exact: SpanProblem, state: State) -> State:
        """The loss on all features; polished there too when the subset left more than rounding."""
        self._check_budget(self.p, state.m)
        exact.extend(self.p)
        whole = exact.state(state.X)
        return whole if whole.loss <= precision(exact.dtype).certified else self._polish(exact, state.X)
