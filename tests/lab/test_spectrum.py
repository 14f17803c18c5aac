"""The spectrum job against the matrix written out."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from exhume.attacks import Resources, ignore
from exhume.data import DataRequest, load
from exhume.features import FeatureMemory
from exhume.lab import Trial, train_victim
from exhume.lab.job import Done, key_of
from exhume.lab.spectrum import SpectrumJob
from exhume.linalg import streams

JOB = SpectrumJob(DataRequest("sphere", n=3, d=12, seed=2), ratio=8.0, seed=2)


@cache
def done() -> Done:
    return JOB.run(data_dir=None, watch=ignore, resources=Resources())


def test_eigenvalues_are_those_of_the_weights_second_moment() -> None:
    """M2 = sum_k theta_k (d v_k v_k^T - I), in units of the largest eigenvalue with random signs."""
    trial = Trial(JOB.data, ratio=8.0, seed=2, dtype="float64", allow_underfit=True)
    release = train_victim(trial, load(JOB.data)).release
    V = torch.cat([block.V for block in release.fixed_features(FeatureMemory()).blocks()]).numpy()
    theta = release.weights[0].numpy()
    d = 12

    def spectrum(signs: np.ndarray) -> np.ndarray:
        weights = theta * signs
        return np.linalg.eigvalsh(d * (V.T * weights) @ V - weights.sum() * np.eye(d))

    flips = (torch.randint(0, 2, theta.shape, generator=streams.generator(2, "flips")) * 2 - 1).numpy()
    plain, shuffled = spectrum(np.ones_like(theta)), spectrum(flips)
    edge = np.abs(shuffled).max()
    np.testing.assert_allclose(done().tensors["eigenvalues"].numpy(), plain / edge, rtol=1e-9)
    np.testing.assert_allclose(done().tensors["shuffled"].numpy(), shuffled / edge, rtol=1e-9)
    assert done().row["outside"] == int((np.abs(plain) > edge).sum())
    assert done().row["largest"] == pytest.approx(np.abs(plain).max() / edge)


def test_the_row_names_the_size_and_is_plain_json() -> None:
    row = json.loads(json.dumps(done().row))
    assert (row["d"], row["n_true"], row["p"], row["ratio"], row["seed"]) == (12, 3, 288, 8.0, 2)
    assert abs(done().tensors["shuffled"]).max() == 1


def test_far_above_the_law_the_samples_stand_out() -> None:
    job = SpectrumJob(DataRequest("sphere", n=3, d=12), ratio=64.0)
    assert job.run(data_dir=None, watch=ignore, resources=Resources()).row["outside"] == 3


def test_a_key_depends_on_every_setting() -> None:
    others = [replace(JOB, ratio=9.0), replace(JOB, seed=3), replace(JOB, activation="abs"), replace(JOB, data=DataRequest("wine"))]
    keys = {key_of(job) for job in (JOB, *others)}
    assert len(keys) == 5


def test_the_work_is_two_products_with_v() -> None:
    p, d = 8 * 12 * 3, 12
    assert JOB.flops() == 2 * (2 * p * d * d)
