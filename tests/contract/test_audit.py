"""Audits of models that a user brings: what is rebuilt, what is claimed of it, and what is never claimed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from jsonschema import validate
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import exhume
from exhume.auditing import AuditInputs, choose, run_audit, run_mitigations, subject_of
from exhume.auditing.mitigation.weight_edits import without_features
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.report import write_audit
from support.models import descend, digit_pictures, patients, relu_pipeline, two_layer

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "audit.schema.json"


def test_a_pipeline_gives_up_its_patients_and_the_report_says_so(tmp_path: Path) -> None:
    model, X, y = relu_pipeline()
    found = exhume.audit(model, data=(X, y), held_out=patients(300, 100))
    assert found.verdict.level == "rebuilt"
    assert (found.verdict.rebuilt, found.verdict.certified) == (12, True)
    assert found.score.rho_signed < 1e-6
    assert found.calibration.false_positives == 0
    assert found.calibration.null_matches == 0
    assert not found.calibration.null_certified
    errors = [one.error for one in found.exposures]
    assert errors == sorted(errors)
    page = write_audit(found, tmp_path, command="exhume audit <b>")
    validate(json.loads((tmp_path / "report.json").read_text()), json.loads(SCHEMA.read_text()))
    text = page.read_text()
    assert "12 of 12 training samples were rebuilt" in text
    assert "<b>" not in text
    assert "http" not in text.replace("http://www.w3.org", "")  # nothing is fetched


@pytest.mark.parametrize("last", [Ridge(alpha=1e-4), RidgeClassifier(alpha=1e-4), LogisticRegression(C=1e4, max_iter=5000)])
def test_rbf_samplers_keep_lengths_and_every_linear_model_is_read(last: object) -> None:
    X, y = patients(8)
    model = make_pipeline(StandardScaler(), RBFSampler(gamma="scale", n_components=3600, random_state=0), last).fit(X, y)
    found = exhume.audit(model, data=(X, y))
    assert found.verdict.rebuilt == 8
    assert found.guess.scale == "fitted"


def test_models_trained_on_other_data_are_never_said_to_hold_the_data_given() -> None:
    for start in range(0, 200, 20):
        model, *_ = relu_pipeline(10, start=start)
        found = exhume.audit(model, data=patients(10, 300 + start))
        assert found.verdict.level == "other data"
        assert found.verdict.rebuilt == 0
        assert "none of the data given" in found.verdict.headline


def test_a_safe_model_is_told_with_its_margin() -> None:
    model, X, y = relu_pipeline(20, ratio=0.05)
    found = exhume.audit(model, data=(X, y))
    assert found.verdict.level == "not recoverable"
    assert "margin of 2" in found.verdict.detail
    assert found.verdict.leakage == 0


@pytest.mark.parametrize("bias", [True, False])
def test_a_torch_network_is_recognised_and_verdicts_follow_what_is_known(bias: bool) -> None:
    X, y = digit_pictures(10)
    net = two_layer(bias=bias)
    init = {name: value.clone() for name, value in net.state_dict().items()}
    descend(net, X, y)
    found = exhume.audit(net, init=init, data=(X, y), held_out=digit_pictures(200, 100))
    assert "512 relu units" in found.subject.about
    assert found.attempts[0].attack == "first-layer"
    assert found.verdict.rebuilt == 10
    assert found.verdict.certified
    assert found.guess.scale == ("from the bias" if bias else "from labels")
    blind = exhume.audit(net, init=init, data=(X, y), knowledge=Knowledge(init="none"))
    assert blind.verdict.rebuilt < 10
    assert not blind.verdict.certified


def test_other_modules_are_taken_whole() -> None:
    X, y = digit_pictures(3)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.GELU(), nn.Flatten(), nn.Linear(288, 10)).double().eval()
    init = {name: value.clone() for name, value in net.state_dict().items()}
    subject, _ = subject_of(AuditInputs(descend(net, X, y, to=1e-2), (X, y), init=init))
    assert "Sequential" in subject.about
    assert subject.release.p == 288
    torch.testing.assert_close(subject.outputs(subject.truth.rows), net(torch.as_tensor(X)).detach())
    assert "gauss-newton" in [o.attack.name for o in choose(subject.release) if o.place]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch.export about itself
def test_exported_programs_need_trust_and_are_cut_at_the_last_layer(tmp_path: Path) -> None:
    X, y = digit_pictures(4)
    net = two_layer(64).float()
    program = torch.export.export(net, (torch.zeros(2, 1, 8, 8),), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.raises(ExhumeError, match="--trust-code"):
        subject_of(AuditInputs(tmp_path / "net.pt2", (X, y)))
    subject, _ = subject_of(AuditInputs(tmp_path / "net.pt2", (X, y), trust_code=True))
    assert subject.release.p == 64
    torch.testing.assert_close(subject.outputs(subject.truth.rows).float(), net(torch.as_tensor(X).float()).detach())


def test_mlps_are_read_and_their_lost_start_is_named() -> None:
    X, y = patients(10)
    model = make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(200,), max_iter=2000, random_state=0)).fit(X, y)
    found = exhume.audit(model, data=(X, y))
    assert not found.verdict.certified
    assert any("before training are not known" in warning for warning in found.law.warnings)


def test_answers_with_logits_are_understood() -> None:
    class Answer:
        def __init__(self, logits: torch.Tensor) -> None:
            self.logits = logits

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = two_layer(32)

        def forward(self, x: torch.Tensor) -> Answer:
            return Answer(self.net(x))

    subject, _ = subject_of(AuditInputs(Wrapped(), digit_pictures(4)))
    assert subject.release.p == 32


def test_the_ladder_measures_every_step_and_names_the_cheapest() -> None:
    model, X, y = relu_pipeline(8)
    brought = AuditInputs(model, (X, y), held_out=patients(200, 100))
    subject, held_out = subject_of(brought)
    first = run_audit(subject, held_out=held_out)
    ladder = run_mitigations(brought, Knowledge(), first)
    by_name = {f"{rung.step} {rung.setting}".strip(): rung for rung in ladder.rungs}
    assert by_name["as it is"].leakage == 1
    assert by_name["rounding float16"].leakage == 1  # rounding is no protection
    assert by_name["smaller head p = 0.3 dn"].leakage == 0
    assert by_name["DP-SGD epsilon 1"].leakage == 0
    assert len({rung.step for rung in ladder.rungs}) >= 6
    assert all(rung.held_out_error is not None for rung in ladder.rungs)
    assert ladder.cheapest is not None
    assert ladder.cheapest.leakage == 0
    assert ("withholding theta_0", "there is none to withhold") in ladder.skipped


def test_pruning_whole_features_of_a_network_is_no_protection() -> None:
    X, y = digit_pictures(6)
    net = two_layer(bias=False)
    brought = AuditInputs(net, (X, y), init={name: value.clone() for name, value in net.state_dict().items()})
    descend(net, X, y)
    pruned, _ = subject_of(without_features(brought, head="3", share=0.5))
    assert int(pruned.release.alive.sum()) == 256
    assert run_audit(pruned).verdict.rebuilt == 6


def test_knowledge_is_a_switch() -> None:
    X, y = digit_pictures(6)
    net = two_layer(128, bias=False)
    init = {name: value.clone() for name, value in net.state_dict().items()}
    descend(net, X, y)
    facts = {
        name: subject_of(AuditInputs(net, (X, y), init=init), known)[0].release.facts
        for name, known in (
            ("open", Knowledge(n=True)),
            ("labels", Knowledge(labels=False)),
            ("statistics", Knowledge(statistics=False)),
        )
    }
    assert facts["open"].n == 6
    assert facts["open"].one_hot
    assert facts["open"].input_range is not None
    assert not facts["labels"].one_hot
    assert facts["statistics"].input_range is None
    last = subject_of(AuditInputs(net, (X, y), init=init), Knowledge(init="last"))[0].release
    assert set(last.initial) == {"head.weight"}
