"""One run of `gauss-newton` on weights that lie exactly in the span: which features carry it, its start, its steps, its end."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch

from exhume.attacks import certificate, noisy, pursuit, search, signs, streaming, wide_span
from exhume.attacks.base import Clock, Progress, Resources, Watch, check_rows, checkpoint_of, estimate_eta
from exhume.attacks.scale import resolve_scale
from exhume.attacks.search import Search
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import State
from exhume.attacks.streaming import Stream
from exhume.attacks.wide_span import WideSpan
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
# Entries of V by which the rows that stand out are counted, and how many of these at most.
_VISIBLE, _MOST_VISIBLE = 400_000_000, 24
# Rows from windows that leave no more loss than this are near: the full problem goes on from them.
_NEAR = 1e-6
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
        drawn = isinstance(self.features, RandomFeatures) and self.p >= wide_span.ENOUGH * release.d
        self._wide = visible and drawn and self.radius is not None and release.d >= streaming.WIDE
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
        """Features, in whole blocks, that carry a search for `rows` rows: a multiple of the unknowns, all where that is cheap."""
        d = self.release.d
        least = wide_span.ENOUGH * d if self._wide else 0
        count = self.p if self.p * d <= _CHEAP else min(self.p, max(least, math.ceil(self.attack.subsample * d * rows)))
        half, wanted = (self.features.whole_blocks(some) for some in (count // 2, count))
        return min(wanted, max(half, self.features.blocks_within(self._affordable(rows))))

    def _affordable(self, rows: int) -> int:
        """Most features on which the states of `rows` rows fit the budget besides V's share."""
        return self.resources.team.size * (self.resources.memory - self.keep) // self._bytes_per_feature(rows)

    def _bytes_per_feature(self, rows: int) -> int:
        return _STATE_COPIES * (rows + 2) * self.release.weights.element_size()

    def _check_budget(self, count: int, rows: int) -> None:
        """States must fit the budget; V takes what is left of it."""
        if count > self._affordable(rows):
            need = count * self._bytes_per_feature(rows) / self.resources.team.size
            raise ExhumeError(
                f"a memory budget of {self.resources.memory / 1e6:.0f} MB is too small: {rows} rows on {count} features need "
                f"{need / 1e6:.0f} MB besides V's share of {self.keep / 1e6:.0f} MB. Raise --memory."
            )

    def search(self) -> tuple[SpanProblem, Search, State]:
        """Run or resume the search until it is done or has failed; Ctrl-C keeps the last finished step."""
        try:
            problem, now, first = self._start()
            return self._advance(problem, now, min(first, search.row_limit(problem, self.known_n)))
        except (KeyboardInterrupt, LostProcessError, ExhumeError):
            self.checkpoint.flush()
            raise

    def _start(self) -> tuple[SpanProblem, Search, int]:
        """The problem and the first rows, or those of the checkpoint; and how many rows to begin a further attempt with."""
        resumed = self.checkpoint.load()
        if resumed is None:
            return self._stream(None) if self._wide and self.release.k == 1 else self._grow()
        tensors, values = resumed
        self.curve = Curve(**{name: tuple(v) for name, v in values["curve"].items()})
        self.clock, self.spent = Clock(values["seconds"]), values["passes"]
        if "stream" in values:
            return self._stream(streaming.unpack(tensors, values["stream"], self.resources.device))
        problem = self.problem(values["features"])
        problem.carry(tensors)
        return problem, search.unpack(tensors, values["search"], self.resources.device), values["first"]

    def _grow(self) -> tuple[SpanProblem, Search, int]:
        """The rows that stand out. With n claimed, all at once, which is fastest; later attempts grow from below."""
        first = max(2, math.ceil(_HEADROOM * self._visible()))
        problem = self.problem(self.features_for(self.known_n or first))
        if self.radius is None:  # norms count and are not known
            return problem, pursuit.begin(problem, seed=self.seed), first
        rows = self.known_n or min(first, search.row_limit(problem, self.known_n))
        return problem, search.begin(problem, rows=rows, seed=self.seed), first

    def _visible(self) -> int:
        """Rows that stand out in the weights' second moment, on more features until some do."""
        count = min(self.p, max(_VISIBLE // self.release.d, 1))
        while True:
            problem = self.problem(count, nuisance=False)
            visible = search.visible_rows(problem, self.seed, most=_MOST_VISIBLE)
            self.spent += problem.passes
            if 2 * visible >= _MOST_VISIBLE or problem.p >= self.p:
                return visible
            count = min(self.p, 4 * problem.p)

    def _stream(self, at: Stream | None) -> tuple[SpanProblem, Search, int]:
        """Rows from windows of features, which leave the full problem little to do; where that fails, rows grown from below."""
        problem = self.problem()
        assert isinstance(problem, WideSpan)
        limit = streaming.row_limit(problem, self.known_n)
        at = at or streaming.begin(problem, limit=limit, seed=self.seed)
        while at.stage not in ("done", "failed"):
            at = streaming.advance(problem, at, limit=limit, seed=self.seed)
            tensors, values = streaming.pack(at)
            self.finished(problem, tensors, {"stream": values}, stage=at.stage, step=at.step, loss=at.loss, X=at.X)
        self.spent += problem.passes
        del problem
        if at.loss > _NEAR:
            return self._grow()
        rest = self.problem(self.features_for(len(at.X)))
        rest.carry({"w": at.w})
        return rest, Search(at.X, step=at.step, doubted=at.stage == "done"), len(at.X)

    def _advance(self, problem: SpanProblem, now: Search, first: int) -> tuple[SpanProblem, Search, State]:
        """Step after step, on more features as rows come in."""
        state, plan = None, self.attack.plan()
        while now.stage in ("grow", "prune"):
            problem, changed = self._sized(problem, len(now.X))
            now = replace(now, losses=()) if changed else now
            state = problem.state(now.X) if changed or state is None else state
            limit = search.row_limit(problem, self.known_n)
            if self.radius is None:
                now, state = pursuit.advance(problem, state, now, plan, limit=limit, seed=self.seed)
            else:
                now, state = search.advance(problem, state, now, plan, limit=limit, first_rows=first, seed=self.seed)
            tensors, values = search.pack(now)
            at = {"first": first, "features": problem.p, "search": values}
            self.finished(problem, tensors, at, stage=now.stage, step=now.step, loss=state.loss, X=state.X, attempt=now.attempt)
        return problem, now, state or problem.state(now.X)

    def _sized(self, problem: SpanProblem, rows: int) -> tuple[SpanProblem, bool]:
        """The problem on more features where the rows need them, on fewer where memory demands it, and whether that changed."""
        needed = self.features_for(rows)
        self._check_budget(needed, rows)
        if needed > problem.p:
            problem.extend(needed)
            return problem, True
        if problem.p <= max(needed, self._affordable(rows)):
            return problem, False
        smaller = self.problem(needed)
        smaller.carry(problem.carried())
        self.spent += problem.passes
        return smaller, True

    def problem(self, count: int | None = None, *, nuisance: bool = True) -> SpanProblem:
        """The span problem on the first `count` features."""
        self._check_budget(count or self.p, 1)
        if nuisance and self._wide and (count or self.p) >= wide_span.ENOUGH * self.release.d:
            assert isinstance(self.features, RandomFeatures)
            assert self.radius is not None
            return WideSpan(self.features, self.weights, radius=self.radius, count=count)
        problem = SpanProblem(self.features, self.weights, radius=self.radius, nuisance=nuisance and self._nuisance, count=count)
        problem.slack = pursuit.SLACK
        return problem

    def finished(
        self,
        problem: SpanProblem,
        tensors: dict[str, torch.Tensor],
        at: dict[str, Any],
        *,
        stage: str,
        step: int,
        loss: float,
        X: torch.Tensor,
        attempt: int = 0,
    ) -> None:
        """Note a finished step: in the curve, in the checkpoint (`tensors` and `at` say where it stands), and to who watches."""
        passes, seconds = self.spent + problem.passes, self.clock.seconds
        self.curve = self.curve.extended(loss=loss, rows=len(X), passes=passes, seconds=seconds)
        kept = {"passes": passes, "seconds": seconds, "curve": asdict(self.curve)}
        self.checkpoint.save(tensors | problem.carried(), kept | at)
        eta = estimate_eta(self.curve.loss, self.curve.seconds, precision(problem.dtype).converged)
        self.watch(Progress(stage, step, loss, len(X), passes, seconds, eta, X, attempt))

    def finish(self, found: tuple[SpanProblem, Search, State]) -> Reconstruction:
        """Signs, a polish on all that the weights say, scale, and the certificate."""
        problem, now, state = found
        costs, spare = certificate.cliff(problem, state, self.seed)
        resolved, X, note = signs.resolve_signs(problem, state)
        if note:
            self.notes.append(note)
        del found, state  # features and slopes of the rows: the end needs its own
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
        """The loss on all features, or as many as memory allows; polished there too when the subset left more than rounding."""
        count = min(self.p, self._affordable(state.m))
        if count < self.p:
            self.notes.append(f"verified on {max(count, exact.p)} of {self.p} features: --memory allows no more")
        if count <= exact.p:
            return state
        exact.extend(count)
        whole = exact.state(state.X)
        return whole if whole.loss <= precision(exact.dtype).certified else self._polish(exact, state.X)
