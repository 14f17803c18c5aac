"""Random features phi(x) = act(Vx), V ~ N(0, 1/d), matrix-free: V is a stream that is drawn block by block."""

from __future__ import annotations

import bisect
import itertools
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from exhume.errors import ExhumeError
from exhume.features.activations import Activation, activation
from exhume.features.hermite import hermite_coefficients
from exhume.features.spill import Spill
from exhume.linalg import streams
from exhume.linalg.blocks import block_rows, slices
from exhume.linalg.team import ALONE, Team
from exhume.release import FeatureSpec

_FINGERPRINT = 4
_BLOCKS_EACH = 4  # blocks that each process of a team has at least, where there are enough features


@dataclass(frozen=True)
class Block:
    """A run of features: rows of V, and for phased features the phase with its even and odd weights."""

    rows: slice
    V: torch.Tensor  # (b, d)
    phase: torch.Tensor | None = None  # (b, 1)

    @property
    def even(self) -> torch.Tensor | None:
        """Weight cos b of the even Hermite part, (b, 1); None means 1."""
        return None if self.phase is None else torch.cos(self.phase)

    @property
    def odd(self) -> torch.Tensor | None:
        """Weight sin b of the odd Hermite part, (b, 1); None means 1."""
        return None if self.phase is None else torch.sin(self.phase)

    def preactivation(self, X: torch.Tensor) -> torch.Tensor:
        """V x + b for every row of X, (b, m)."""
        Z = self.V @ X.T
        return Z if self.phase is None else Z + self.phase


class RandomFeatures:
    """The feature map of a `FeatureSpec` on a device, holding as much of V as a byte budget allows."""

    def __init__(
        self,
        spec: FeatureSpec,
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        keep_bytes: int = 0,
        alive: torch.Tensor | None = None,  # (p,) which features take part; None means all
        team: Team = ALONE,
        spill: Path | None = None,  # a folder for blocks that memory does not hold
    ) -> None:
        if spec.kind != "random-features" or spec.stream not in streams.STREAMS:
            raise ExhumeError(f"cannot draw features of kind {spec.kind!r} from stream {spec.stream!r}. Update exhume.")
        if spec.input_dim < 1 or spec.count < 1:
            raise ExhumeError(f"features need d >= 1 and p >= 1, got d = {spec.input_dim}, p = {spec.count}.")
        if tuple(spec.fingerprint) != _fingerprint(spec.seed, spec.input_dim, spec.stream):
            raise ExhumeError("the feature stream drawn here differs from the release's. Use the torch version that wrote it.")
        self.spec = spec
        self.activation: Activation = activation(spec.activation)
        self.dtype = dtype
        self.device = torch.device(device)
        self.d = spec.input_dim
        self._step = block_rows(self.d, dtype.itemsize, granule=streams.STREAM_ROWS)
        if team.size > 1:  # a few blocks for everybody
            granules = -(-spec.count // (_BLOCKS_EACH * team.size * streams.STREAM_ROWS))
            self._step = min(self._step, granules * streams.STREAM_ROWS)
        # Numbers of 16 bits are kept as such, and widened whenever they are used: exactly the same, in half the space.
        self._stored = torch.float16 if spec.stream == streams.QUANTILES else dtype
        block_bytes = self._step * self.d * self._stored.itemsize
        self._keep = team.size * (keep_bytes // block_bytes)  # the first blocks stay in memory
        self._drawn = list(slices(spec.count, self._step))  # rows of V, block by block
        self._alive = None if alive is None or bool(alive.all()) else alive
        counts = [r.stop - r.start if alive is None else int(alive[r].sum()) for r in self._drawn]
        self._ends = list(itertools.accumulate(counts))  # features up to each block's end
        self.p = self._ends[-1]
        self.team = team
        self._held = list(itertools.accumulate(c if team.takes(i) else 0 for i, c in enumerate(counts)))  # of them, held here
        self._kept: dict[int, Block] = {}
        self._store: torch.Tensor | None = None
        self._spill = None if spill is None or self._keep >= len(self._drawn) else Spill(spill)

    @staticmethod
    def describe(d: int, p: int, act: str, seed: int) -> FeatureSpec:
        """The public description of p features of a d-dimensional input."""
        stream = streams.stream_for(p * d)
        return FeatureSpec(d, p, activation(act).name, seed, stream, _fingerprint(seed, d, stream))

    @cached_property
    def mean_slope(self) -> float:
        """mu_1 = E[phi'(g)], relative to the odd weight where features have a phase."""
        return _mean_slope(self.activation)

    def whole_blocks(self, count: int) -> int:
        """The smallest number of features >= count that ends at a block's end (or at p)."""
        return self._ends[min(bisect.bisect_left(self._ends, count), len(self._ends) - 1)]

    def blocks_within(self, count: int) -> int:
        """The largest number of features <= count that ends at a block's end."""
        return ([0, *self._ends])[bisect.bisect_right(self._ends, count)]

    def held(self, count: int) -> int:
        """How many of the first `count` features (in whole blocks) this process holds."""
        return 0 if count == 0 else self._held[bisect.bisect_left(self._ends, count)]

    def own(self, values: torch.Tensor) -> torch.Tensor:
        """Of values over the features (..., p) those that this process holds."""
        if self.team.size == 1:
            return values
        places = (slice(a, b) for i, (a, b) in enumerate(itertools.pairwise([0, *self._ends])) if self.team.takes(i))
        return torch.cat([values[..., :0], *(values[..., place] for place in places)], dim=-1)

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Features start..stop that this process holds, both at a block's end, their rows counted among those held.

        Kept blocks come from memory, others from the stream. Any prefix of the features satisfies the same equations as all of
        them.
        """
        last = self.p if stop is None else stop
        places = zip(itertools.pairwise([0, *self._ends]), itertools.pairwise([0, *self._held]), strict=True)
        for index, ((first, end), here) in enumerate(places):
            if first < start or first == end or first >= last or not self.team.takes(index):
                continue
            block = self._kept.get(index)
            if block is None:
                block = self._draw(index, slice(*here))
                if index < self._keep:
                    self._kept[index] = block = self._in_place(block, index)
            yield block if block.V.dtype == self.dtype else replace(block, V=block.V.to(self.dtype))

    def _in_place(self, block: Block, index: int) -> Block:
        """A block whose rows lie in one store with all that are kept: pieces among passing buffers would leave holes."""
        if self._store is None:
            most = self._held[min(self._keep, len(self._held)) - 1]
            self._store = torch.empty(most, self.d, dtype=self._stored, device=self.device)
        self._store[block.rows] = block.V
        return replace(block, V=self._store[block.rows])

    def _draw(self, index: int, place: slice) -> Block:
        """Block `index` of the stream as it is kept, without features that take no part."""
        rows = self._drawn[index]
        size = streams.STREAM_ROWS
        first, last = rows.start // size, -(-rows.stop // size)
        count, seed = rows.stop - rows.start, self.spec.seed
        V = None if self._spill is None else self._spill.read(index, self._stored)
        if V is None:
            began = time.perf_counter()
            V = self._drawn_rows(rows)
            if self._spill is not None and index >= self._keep:
                self._spill.drew(index, V, time.perf_counter() - began)
        phase = None
        if self.activation.phase:
            parts = [streams.uniform_block(seed, "phases", block) for block in range(first, last)]
            phase = (torch.cat(parts)[:count, None].to(self.dtype) * (2 * math.pi)).to(self.device)
        if self._alive is not None:
            taking_part = self._alive[rows]
            V, phase = V[taking_part], None if phase is None else phase[taking_part.to(self.device)]
        return Block(place, V.to(self.device), phase)

    def _drawn_rows(self, rows: slice) -> torch.Tensor:
        """Rows of V from their stream, on the CPU; scaled in the stream's precision, so that they do not depend on the dtype."""
        blocks = range(rows.start // streams.STREAM_ROWS, -(-rows.stop // streams.STREAM_ROWS))
        scale = 1.0 / math.sqrt(self.d)
        V = streams.normal_blocks(self.spec.seed, "features", blocks, self.d, stream=self.spec.stream, scale=scale)
        return V[: rows.stop - rows.start].to(self._stored)


class MatrixFeatures:
    """phi(x) = act(V x) for a matrix V that is at hand as a whole: a trained first layer, or V Q for inputs x = Q z."""

    team = ALONE

    def __init__(self, V: torch.Tensor, act: Activation, phase: torch.Tensor | None = None) -> None:
        self.activation = act
        self.dtype, self.device = V.dtype, V.device
        self.p, self.d = V.shape
        step = block_rows(self.d, V.element_size(), granule=streams.STREAM_ROWS)
        self._blocks = [Block(rows, V[rows], None if phase is None else phase[rows]) for rows in slices(self.p, step)]

    @staticmethod
    def of_layer(
        parameters: Mapping[str, torch.Tensor],
        act: str,
        *,
        alive: torch.Tensor,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> MatrixFeatures:
        """The hidden layer of a two-layer network, without features that take no part; a bias is the phase of cosine features."""
        V, bias = parameters["first.weight"][alive].to(device, dtype), parameters.get("first.bias")
        return MatrixFeatures(V.contiguous(), activation(act), None if bias is None else bias[alive, None].to(device, dtype))

    def projected(self, basis: torch.Tensor) -> MatrixFeatures:
        """act(V Q z): features of inputs x = Q z as features of z."""
        Q = basis.to(self.device, self.dtype)
        phases = [block.phase for block in self._blocks if block.phase is not None]
        V = torch.cat([block.V @ Q for block in self._blocks])
        return MatrixFeatures(V, self.activation, torch.cat(phases) if phases else None)

    @cached_property
    def mean_slope(self) -> float:
        """As for random features."""
        return _mean_slope(self.activation)

    def whole_blocks(self, count: int) -> int:
        """All of them: they are at hand."""
        return self.p

    def blocks_within(self, count: int) -> int:
        """As for random features: all or none."""
        return self.p if count >= self.p else 0

    def held(self, count: int) -> int:
        """All of them."""
        return self.p if count else 0

    def own(self, values: torch.Tensor) -> torch.Tensor:
        """As for random features: all."""
        return values

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """All features in order."""
        return iter(self._blocks)


def _mean_slope(act: Activation) -> float:
    """mu_1 = E[phi'(g)], relative to the odd weight where features have a phase."""
    return -math.sqrt(2.0) * math.exp(-0.5) if act.phase else hermite_coefficients(act, 1)[1]


def _fingerprint(seed: int, d: int, stream: str) -> tuple[float, ...]:
    return tuple(streams.normal_blocks(seed, "features", range(1), d, stream=stream).flatten()[:_FINGERPRINT].tolist())
