"""The paper's random features as a scikit-learn transformer: phi(x) = act(V x), V ~ N(0, 1/d) drawn from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from exhume.errors import ExhumeError
from exhume.features import FeatureMemory, RandomFeatures, RandomFeaturesSpec

_KEEP_BYTES = 1 << 30


class RandomFeatureMap(TransformerMixin, BaseEstimator):
    """Random features of a pipeline, as in `make_pipeline(StandardScaler(), RandomFeatureMap(2000), Ridge())`."""

    def __init__(self, n_components: int = 100, activation: str = "relu", seed: int = 0) -> None:
        self.n_components = n_components
        self.activation = activation
        self.seed = seed

    def fit(self, X: np.ndarray, y: Any = None) -> RandomFeatureMap:
        """Remember the number of columns; V is a function of the seed."""
        validate_data(self, X)
        if self.n_components < 1:
            raise ExhumeError(f"n_components must be at least 1, got {self.n_components}.")
        self._map()
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """phi of every row, (n, p)."""
        check_is_fitted(self, "n_features_in_")
        rows = torch.as_tensor(validate_data(self, X, reset=False, dtype=np.float64))
        return torch.cat(list(self._map().values(rows))).T.numpy()

    def layer(self) -> dict[str, torch.Tensor]:
        """V (p, d) and, for cosine features, their phases, under the names of a two-layer network."""
        blocks = list(self._map().blocks())
        layer = {"first.weight": torch.cat([block.V for block in blocks])}
        phases = [block.phase[:, 0] for block in blocks if block.phase is not None]
        return layer | ({"first.bias": torch.cat(phases)} if phases else {})

    def _map(self) -> RandomFeatures:
        spec = RandomFeaturesSpec.describe(self.n_features_in_, self.n_components, self.activation, self.seed)
        return RandomFeatures(spec, dtype=torch.float64, memory=FeatureMemory(keep_bytes=_KEEP_BYTES))
