"""The audit itself: which attempt counts, what is exposed, what is reported; attacks are scripted where their answer matters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from exhume.attacks import Attack, Resources
from exhume.auditing import run_audit, subject_of
from exhume.auditing.run import Audit
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.result import Certificate, Reconstruction, Status
from exhume.storage.atomic import json_text
from support.audit_cases import (
    ScriptedAttack,
    network_audit,
    network_inputs,
    pipeline_audit,
    pipeline_case,
    reconstruction,
    vectors,
)


def answers(*guesses: Reconstruction) -> dict[str, Attack]:
    """Attacks that answer so on the audited weights, in this order, and with no row on shuffled ones."""
    weights = pipeline_case()[0].release.weights

    def script(guess: Reconstruction) -> Any:
        return lambda release: guess if torch.equal(release.weights, weights) else reconstruction(torch.zeros(0, release.d))

    names = [f"attack {i}" for i in range(len(guesses))]
    return {
        name: ScriptedAttack(name, answer=script(g), ranks=(i,)) for i, (name, g) in enumerate(zip(names, guesses, strict=True))
    }


def audit_with(monkeypatch: pytest.MonkeyPatch, *guesses: Reconstruction, **settings: Any) -> tuple[Audit, dict[str, Attack]]:
    registered = answers(*guesses)
    monkeypatch.setattr("exhume.auditing.attack_order.ATTACKS", registered)
    return run_audit(pipeline_case()[0], **settings), registered


def test_attempts_end_with_the_first_that_is_not_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = pipeline_case()[0].truth.rows
    found, _ = audit_with(
        monkeypatch,
        reconstruction(torch.ones(1, 30), Status.STALLED),
        reconstruction(truth, Status.CERTIFIED),
        reconstruction(truth, Status.CERTIFIED),
    )
    assert [(one.attack, one.status, one.rows) for one in found.attempts] == [
        ("attack 0", "stalled", 1),
        ("attack 1", "converged and certified", 5),
    ]
    assert found.verdict.rebuilt == 5


def test_of_stalled_attempts_the_one_with_the_least_loss_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = [1e-2, 1e-5, 1e-3]
    rows = [torch.full((1, 30), float(i + 1)) for i in range(3)]
    guesses = [reconstruction(X, certificate=Certificate(1, 1, loss, 0.0)) for X, loss in zip(rows, losses, strict=True)]
    found, registered = audit_with(monkeypatch, *guesses)
    assert len(found.attempts) == 3
    assert found.guess.rows.tolist() == rows[1].tolist()
    # The null is run with the attack that counts, once more.
    assert [len(attack.seen) for attack in registered.values()] == [1, 2, 1]  # type: ignore[attr-defined]


def test_a_named_attack_is_the_only_one() -> None:
    attack = answers(reconstruction(pipeline_case()[0].truth.rows))["attack 0"]
    found = run_audit(pipeline_case()[0], attack=attack)
    assert [(one.attack.name, one.place, one.why) for one in found.options] == [("attack 0", 1, "asked for")]


def test_exposures_are_the_samples_with_the_row_nearest_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = pipeline_case()[0].truth.rows
    rows = torch.stack([1.2 * truth[3], truth[1], 1.05 * truth[4]])
    proof = Certificate(100, 50, 1e-3, 1e-15, row_errors=(0.3, 0.1, 0.2))
    found, _ = audit_with(monkeypatch, reconstruction(rows, certificate=proof))
    first, second, third = found.exposures[:3]
    assert (first.sample, first.row, first.error, first.error_bar, first.rebuilt) == (1, 1, 0.0, 0.1, True)
    assert (second.sample, second.row, second.error, second.rebuilt) == (4, 2, pytest.approx(0.05), True)
    assert (third.sample, third.error, third.rebuilt) == (3, pytest.approx(0.2), False)
    assert len(found.exposures) == 5
    assert [one.error for one in found.exposures] == sorted(one.error for one in found.exposures)


def test_no_rows_expose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = audit_with(monkeypatch, reconstruction(torch.zeros(0, 30)))
    assert [(one.row, one.error, one.rebuilt) for one in found.exposures] == [(None, 1.0, False)] * 5
    assert found.verdict.rebuilt == 0


@pytest.mark.parametrize(("scale", "rebuilt", "directions"), [("from labels", 5, True), ("fitted", 0, False)])
def test_a_wrong_length_counts_only_where_lengths_were_inferred(
    monkeypatch: pytest.MonkeyPatch, scale: str, rebuilt: int, directions: bool
) -> None:
    found, _ = audit_with(monkeypatch, reconstruction(3 * pipeline_case()[0].truth.rows, scale=scale))
    assert found.directions is directions
    assert sum(one.rebuilt for one in found.exposures) == rebuilt


def test_lengths_that_fit_are_kept_in_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = audit_with(monkeypatch, reconstruction(pipeline_case()[0].truth.rows, scale="from labels"))
    assert not found.directions


def test_a_finished_attempt_is_not_run_again_with_a_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    resources = Resources(checkpoint=tmp_path / "audit.ckpt")
    guess = reconstruction(pipeline_case()[0].truth.rows, Status.UNCERTIFIED)
    for runs in (1, 0):
        found, registered = audit_with(monkeypatch, guess, resources=resources)
        attempted = [given for _, _, given in registered["attack 0"].seen if given.checkpoint is not None]  # type: ignore[attr-defined]
        assert len(attempted) == runs
        assert torch.equal(found.guess.rows, guess.rows)
    assert len(list(tmp_path.glob("audit.ckpt.*.done"))) == 1


@pytest.mark.parametrize("within", [0.0, 1.0, -0.1, float("nan")])
def test_a_distance_that_is_no_share_is_refused(within: float) -> None:
    with pytest.raises(ExhumeError, match="--within must lie between 0 and 1"):
        run_audit(pipeline_case()[0], within=within)


def test_held_out_samples_of_another_dimension_are_refused() -> None:
    with pytest.raises(ExhumeError, match="held-out samples have 2 dimensions, the training data 30"):
        run_audit(pipeline_case()[0], held_out=vectors(torch.ones(3, 2)))


def test_stages_are_told_in_their_order() -> None:
    told: list[str] = []
    run_audit(pipeline_case()[0], stage=told.append)
    assert told[0] == "looking at the model and its data"
    assert told[1].startswith("attacking: gauss-newton (only the last layer was trained")
    assert told[-1] == "scoring and calibrating"


def test_utility_is_the_error_on_the_data_and_on_held_out_samples() -> None:
    found, (subject, held_out) = pipeline_audit(), pipeline_case()
    wrong = (subject.outputs(held_out.rows)[:, 0].sign() != held_out.labels).double().mean()
    assert found.utility == {"train_error": 0.0, "held_out_error": pytest.approx(float(wrong))}
    assert set(network_audit().utility) == {"train_error"}


@pytest.mark.parametrize(("known", "reported"), [(Knowledge(), "all"), (Knowledge(init="none"), "none")])
def test_the_knowledge_reported_is_that_which_was_used(known: Knowledge, reported: str) -> None:
    subject, _ = subject_of(network_inputs(), known)
    attack = ScriptedAttack(answer=lambda release: reconstruction(torch.ones(1, release.d)))
    assert run_audit(subject, attack=attack, knowledge=known).knowledge.init == reported
    bare, _ = subject_of(replace(network_inputs(), init=None))
    assert run_audit(bare, attack=attack, knowledge=Knowledge()).knowledge.init == "none"  # nobody has a start to know


def test_the_report_is_plain_json_and_says_what_was_found() -> None:
    found = pipeline_audit()
    row = json.loads(json_text(found.row()))
    assert row["format"] == "exhume-audit-1"
    assert row["model"] == {"name": "five patients", "about": "1500 features of a RandomFeatureMap under a Ridge"}
    assert (row["verdict"]["rebuilt"], row["verdict"]["leakage"], row["verdict"]["within"]) == (5, 1.0, 0.1)
    assert sorted(one["sample"] for one in row["exposures"]) == list(range(5))
    assert row["attacks"]["attempts"][0]["attack"] == row["attacks"]["options"][0]["attack"] == "gauss-newton"
    assert len(row["result"]["error_bars"]) == row["result"]["n_found"] == 5
    assert "matched" not in row["score"]
    assert row["calibration"]["rate"] == 0
    assert len(row["limits"]) == 3
