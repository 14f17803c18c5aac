"""The start of a run on inputs of many dimensions: rows from inside the moment subspace, then rounds until no more are found."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from exhume.attacks import moment_start, noisy, rounds, search
from exhume.attacks.base import Progress
from exhume.attacks.moment_start import Inside
from exhume.attacks.rounds import Round
from exhume.attacks.search import Search
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import State

if TYPE_CHECKING:
    from exhume.attacks.exact_run import ExactRun

# Rows found that are more than this share of those that could be pinned down ask for more features.
_CROWDED = 0.4
# The subspace is refreshed as long as that shows this many times the rows; more features must be this many times as many.
_MORE = 1.2
# A loss in the full space below which few rows can be missing.
_EXPLAINED = 0.02
# Rounds run on the features that this many times the rows need, or so many rows more; on fewer than before where those were
# this many times as many.
_ROOM, _MOST_ROOM, _TOO_MANY = 1.25, 10, 1.25
# V inside the moment subspace may take this share of the memory budget.
_INNER_SHARE = 1 / 8
# Inside the subspace features are cheap, and more of them show more rows: as many as this multiple of the first rows would need.
_INSIDE = 8
# States alive at once in a round: of the full space, and of the trial and the accepted rows inside; features and slopes of each.
_ROUND_COPIES = 6


class WideStart:
    """The first rows of one run, and the problem on the features that they need."""

    def __init__(self, run: ExactRun, first: int) -> None:
        self.run, self.first = run, first

    def fits(self) -> bool:
        """Whether V inside the moment subspace is within the memory budget."""
        return self._most >= self.run.features_for(self.first)

    def begin(self, seen: int) -> tuple[SpanProblem, Search]:
        """Rows found where `seen` features showed the first of them."""
        run = self.run
        wanted = max(seen, run.features_for(run.known_n or _INSIDE * self.first))
        return self._inside(run.problem(min(wanted, self._most)))

    def resume(self, problem: SpanProblem, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> tuple[SpanProblem, Search]:
        """Go on where a checkpoint stands."""
        device = self.run.resources.device
        if "rounds" in values:
            return self._rounds(problem, rounds.unpack(tensors, values["rounds"], device))
        step = noisy.unpack(tensors, values["inside"], device)
        return self._inside(problem, resumed=Inside(tensors["Q"].to(device), step, values["before"]))

    @property
    def _most(self) -> int:
        """The most features whose V inside the moment subspace is worth its memory."""
        release, resources = self.run.release, self.run.resources
        row = moment_start.dimension(release.d) * release.weights.element_size()
        return min(self.run.p, int(resources.memory * _INNER_SHARE * resources.team.size / row)) if row else 0

    def _features_for_rounds(self, rows: int) -> int:
        return self.run.features_for(min(math.ceil(_ROOM * rows), rows + _MOST_ROOM))

    def _inside(self, problem: SpanProblem, *, resumed: Inside | None = None) -> tuple[SpanProblem, Search]:
        """Rows from inside the moment subspace, which is refreshed as long as that shows more of them; then rounds."""
        run = self.run
        limit = search.row_limit(problem, run.known_n)
        rows = run.known_n or min(self.first, limit)

        def report(inside: Inside, state: State) -> None:
            tensors, values = noisy.pack(inside.step)
            at = {"inside": values, "before": inside.before}
            run.finished(problem, inside.step.search, state, self.first, tensors | {"Q": inside.Q}, at)

        inside = partial(moment_start.search_inside, problem, rows=rows, plan=run.attack.plan(), seed=run.seed, report=report)
        before = 0 if resumed is None else resumed.before
        X = inside(limit=limit, resumed=resumed)
        while True:
            state, stuck = problem.state(X), len(X) <= _MORE * before
            # More features show more rows: wanted where rows crowd those that they were found with, or are missing.
            wanted = len(X) > _CROWDED * limit or (stuck and state.loss > _EXPLAINED)
            more = min(2 * problem.p, self._most)
            if wanted and more > _MORE * problem.p:
                problem.extend(more)
                limit = search.row_limit(problem, run.known_n)
                state = problem.state(X)
            elif stuck:
                break
            before, X = len(X), inside(limit=limit, found=state)
        needed = self._features_for_rounds(len(X))
        if problem.p > _TOO_MANY * needed:
            run.spent += problem.passes
            fewer = run.problem(needed)
            fewer.carry(problem.carried())
            problem = fewer
        del state
        return self._rounds(problem, Round(Search(X)))

    def _rounds(self, problem: SpanProblem, at: Round) -> tuple[SpanProblem, Search]:
        """Rows from rounds between subspaces and the full space, on more features as rows come in, until no more are found."""
        run = self.run
        state = problem.state(at.search.X)
        if at.move is None:  # what lies outside the first subspace is noise there
            state = rounds.full_step(problem, state, run.attack.plan())

        def show(inside: State) -> None:
            passes, seconds = run.spent + problem.passes, run.clock.seconds
            run.watch(Progress("round", at.search.step, inside.loss, inside.m, passes, seconds, None, inside.X))

        while at.going:
            needed = max(problem.p, self._features_for_rounds(state.m))
            limit = search.row_limit(problem, run.known_n)
            columns = _ROUND_COPIES * (state.m + rounds.new_rows(state.m, limit)) + rounds.dimension(state.m)
            if not run.affords(needed, columns):
                break
            if needed > problem.p:
                problem.extend(needed)
                state = problem.state(state.X)
            at, state = rounds.advance(problem, state, at, run.attack.plan(), limit=limit, seed=run.seed, show=show)
            tensors, values = rounds.pack(at)
            run.finished(problem, at.search, state, self.first, tensors, {"rounds": values})
        return problem, replace(at.search, damping=moment_start.DAMPING)
