"""Files that version 0.1 wrote (tests/files/version-0.1): read as they were meant, or refused in one line that says what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from exhume import Knowledge, audit, evaluate
from exhume.attacks import GaussNewton, Resources, attack_named
from exhume.data import DataRequest, load, load_dataset
from exhume.errors import ExhumeError
from exhume.lab.job import TrialJob, key_of
from exhume.lab.spectrum import SpectrumJob
from exhume.lab.store import Store
from exhume.lab.trial import Trial
from exhume.release import load_release
from exhume.result import Status, load_reconstruction
from exhume.victims import NetworkVictim
from support.problems import FILES

OLD = FILES / "version-0.1"
SPHERE = DataRequest("sphere", n=4, d=10)


def test_a_release_its_truth_and_its_reconstruction_are_read() -> None:
    release, truth, guess = load_release(OLD / "release.safetensors"), load_dataset(OLD / "truth.safetensors"), None
    assert torch.equal(truth.rows, load(SPHERE).rows)
    guess = load_reconstruction(OLD / "guess.safetensors")
    assert guess.status is Status.CERTIFIED
    score = evaluate(guess, truth, release)
    assert score.covered == 4
    again = GaussNewton().run(release)
    torch.testing.assert_close(again.rows, guess.rows)
    assert again.certificate.equations == guess.certificate.equations


def test_a_networks_release_is_read() -> None:
    release = load_release(OLD / "network.safetensors")
    assert release.network.architecture == "two-layer"
    assert (release.k, release.facts.n) == (2, 3)
    assert not release.features_stayed
    assert len(attack_named("subspace").run(release).rows) == 3


def test_checkpoints_are_refused_with_the_remedy(tmp_path: Path) -> None:
    for name in ("attack.ckpt", "training.ckpt"):
        shutil.copy(OLD / name, tmp_path / name)
    with pytest.raises(ExhumeError, match=r"another version of exhume .* Delete it and run again"):
        GaussNewton().run(load_release(OLD / "release.safetensors"), resources=Resources(checkpoint=tmp_path / "attack.ckpt"))
    with pytest.raises(ExhumeError, match=r"another version of exhume .* Delete it and run again"):
        NetworkVictim("two-layer", 200, k=2).train(load(DataRequest("sphere", n=3, d=8)), checkpoint=tmp_path / "training.ckpt")
    assert (tmp_path / "attack.ckpt").exists()  # what might still be wanted is not deleted


def test_stored_rows_are_found_under_their_keys() -> None:
    store = Store(OLD / "store")
    knowledge = Knowledge(n=True, labels=False, statistics=False)
    descent = attack_named("projection-gd", max_steps=60)
    jobs = (
        TrialJob(Trial(SPHERE, ratio=8.0)),
        TrialJob(
            Trial(
                DataRequest("sphere", n=4, d=10, seed=1),
                p=300,
                seed=1,
                knowledge=knowledge,
                allow_underfit=True,
                attack=descent,
            ),
            keep=True,
        ),
        TrialJob(Trial(SPHERE, victim="two-layer", k=2, ratio=6.0, knowledge=Knowledge(init="last"), attack=GaussNewton(starts=2))),
        SpectrumJob(SPHERE, 2.0),
    )
    assert {key_of(job) for job in jobs} == set(store.keys())
    assert store.record(key_of(jobs[0]))["row"]["certified"]
    assert "eigenvalues" in store.tensors(key_of(jobs[3]))


def test_a_pipeline_with_our_transformer_is_read() -> None:
    pytest.importorskip("skops", reason="skops is not installed: pip install 'exhume[sklearn]'")
    rows = np.random.default_rng(0).normal(size=(4, 8))
    found = audit(OLD / "pipeline.skops", data=(rows, np.array([1.0, -1, 1, -1])))
    assert found.verdict.rebuilt == 4
