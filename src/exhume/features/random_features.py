"""Random features phi(x) = act(Vx), V ~ N(0, 1/d), matrix-free: V is a stream that is drawn block by block."""

from __future__ import annotations

import bisect
import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import torch

from exhume.errors import ExhumeError
from exhume.features.activations import activation
from exhume.features.blocks import Block, BlockwiseFeatures
from exhume.features.disk_cache import DiskCache
from exhume.features.spec import FeatureBlocks, FeatureMemory, ModelSpec, Parameters
from exhume.linalg import streams
from exhume.linalg.blocks import block_rows, slices

_FINGERPRINT = 4
_BLOCKS_EACH = 4  # blocks that each process of a team has at least, where there are enough features


@dataclass(frozen=True)
class RandomFeaturesSpec(ModelSpec):
    """The public description of phi(x) = activation(V x): enough to draw V again."""

    kind: ClassVar[str] = "random-features"
    shared_by_processes: ClassVar[bool] = True
    input_dim: int  # d
    count: int  # p
    activation: str
    seed: int
    stream: str
    fingerprint: tuple[float, ...]  # first entries of the stream: another machine must draw the same

    @staticmethod
    def describe(d: int, p: int, act: str, seed: int) -> RandomFeaturesSpec:
        """The description of p features of a d-dimensional input."""
        stream = streams.stream_for(p * d)
        return RandomFeaturesSpec(d, p, activation(act).name, seed, stream, _fingerprint(seed, d, stream))

    @property
    def d(self) -> int:
        """Input dimension."""
        return self.input_dim

    @property
    def p(self) -> int:
        """Number of features."""
        return self.count

    @property
    def homogeneous(self) -> bool:
        """That of the activation."""
        return activation(self.activation).homogeneous

    @property
    def one_hidden_layer(self) -> bool:
        """Always."""
        return True

    @property
    def first_weight(self) -> str | None:
        """None: V is not trained."""
        return None

    def header(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self) | {"kind": self.kind}

    def last_layer(self, weights: torch.Tensor, trained: Parameters) -> torch.Tensor:
        """The weights themselves: training starts from zero."""
        return weights

    def features_stayed(self, trained: Parameters, initial: Parameters) -> bool:
        """Always."""
        return True

    def fixed_features(
        self, trained: Parameters, *, alive: torch.Tensor, dtype: torch.dtype, memory: FeatureMemory
    ) -> RandomFeatures:
        """V drawn from its stream."""
        return RandomFeatures(self, dtype=dtype, memory=memory, alive=alive)

    def feature_blocks(self, trained: Parameters, *, device: torch.device | str = "cpu") -> FeatureBlocks:
        """Drawn block by block: an attack's own V may still be in memory."""
        features = RandomFeatures(self, dtype=torch.float64, memory=FeatureMemory(device))
        return lambda X: (phi.cpu() for phi in features.values(X.to(device)))

    def reordered(self, parameters: Parameters, order: torch.Tensor) -> dict[str, torch.Tensor]:
        """There are no parameters besides the weights."""
        return dict(parameters)

    def in_words(self, initial: Parameters) -> str:
        """Activation and seed."""
        return f"{self.activation} of V x, V drawn from seed {self.seed}"


class RandomFeatures(BlockwiseFeatures):
    """The feature map of a `RandomFeaturesSpec` on a device, holding as much of V as a byte budget allows."""

    drawn = True

    def __init__(
        self,
        spec: RandomFeaturesSpec,
        *,
        dtype: torch.dtype,
        memory: FeatureMemory = FeatureMemory(),
        alive: torch.Tensor | None = None,  # (p,) which features take part; None means all
    ) -> None:
        if spec.stream not in streams.STREAMS:
            raise ExhumeError(f"cannot draw features from stream {spec.stream!r}. Update exhume.")
        if spec.input_dim < 1 or spec.count < 1:
            raise ExhumeError(f"features need d >= 1 and p >= 1, got d = {spec.input_dim}, p = {spec.count}.")
        if tuple(spec.fingerprint) != _fingerprint(spec.seed, spec.input_dim, spec.stream):
            raise ExhumeError("the feature stream drawn here differs from the release's. Use the torch version that wrote it.")
        self.spec = spec
        self.activation = activation(spec.activation)
        self.dtype = dtype
        self.device, team = torch.device(memory.device), memory.team
        self.d = spec.input_dim
        self._step = block_rows(self.d, dtype.itemsize, granule=streams.STREAM_ROWS)
        if team.size > 1:  # a few blocks for everybody
            granules = -(-spec.count // (_BLOCKS_EACH * team.size * streams.STREAM_ROWS))
            self._step = min(self._step, granules * streams.STREAM_ROWS)
        # Numbers of 16 bits are kept as such, and widened whenever they are used: exactly the same, in half the space.
        self._stored = torch.float16 if spec.stream == streams.QUANTILES else dtype
        block_bytes = self._step * self.d * self._stored.itemsize
        self._keep = team.size * (memory.keep_bytes // block_bytes)  # the first blocks stay in memory
        self._block_rows = list(slices(spec.count, self._step))  # rows of V, block by block
        self._alive = None if alive is None or bool(alive.all()) else alive
        counts = [r.stop - r.start if alive is None else int(alive[r].sum()) for r in self._block_rows]
        self._ends = list(itertools.accumulate(counts))  # features up to each block's end
        self.p = self._ends[-1]
        self.team = team
        self._held = list(itertools.accumulate(c if team.takes(i) else 0 for i, c in enumerate(counts)))  # of them, held here
        self._kept: dict[int, Block] = {}
        self._store: torch.Tensor | None = None
        beyond_memory = memory.cache is not None and self._keep < len(self._block_rows)
        self._cache = DiskCache(memory.cache) if memory.cache is not None and beyond_memory else None

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
        rows = self._block_rows[index]
        size = streams.STREAM_ROWS
        first, last = rows.start // size, -(-rows.stop // size)
        count, seed = rows.stop - rows.start, self.spec.seed
        V = None if self._cache is None else self._cache.read(index, self._stored)
        if V is None:
            began = time.perf_counter()
            V = self._drawn_rows(rows)
            if self._cache is not None and index >= self._keep:
                self._cache.drew(index, V, time.perf_counter() - began)
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


def _fingerprint(seed: int, d: int, stream: str) -> tuple[float, ...]:
    return tuple(streams.normal_blocks(seed, "features", range(1), d, stream=stream).flatten()[:_FINGERPRINT].tolist())
