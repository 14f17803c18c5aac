"""Models and data that invite a false verdict, in either direction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import exhume
from exhume import RandomFeatureMap
from exhume.attacks import Resources, attack_named
from exhume.attacks.interface import Progress
from exhume.auditing import AuditInputs, run_audit, subject_of
from exhume.errors import ExhumeError
from support.models import descend, digit_pictures, patients, relu_pipeline, two_layer


def state(net: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


def test_a_wrong_length_does_not_hide_a_right_direction() -> None:
    X, y = digit_pictures(8)
    X = 0.5 + 0.3 * X  # no pixel is black or white, so lengths taken from the range are wrong
    net = two_layer(bias=False)
    init = state(net)
    inputs, targets = torch.as_tensor((X - 0.5) / 0.25), torch.as_tensor(y)
    for _ in range(1500):
        loss = nn.functional.cross_entropy(net(inputs), targets)
        for p, g in zip(net.parameters(), torch.autograd.grad(loss, list(net.parameters())), strict=True):
            p.data.sub_(g, alpha=0.05)
    found = exhume.audit(net, init=init, data=(X, y), mean=(0.5,), spread=(0.25,))
    assert found.guess.scale == "from range"
    assert found.verdict.rebuilt == 8
    assert "in direction" in found.verdict.detail


def test_weighted_classes_do_not_give_wrong_lengths() -> None:
    X, y = patients(11)
    model = make_pipeline(StandardScaler(), RandomFeatureMap(3300), RidgeClassifier(alpha=100, class_weight="balanced")).fit(X, y)
    assert exhume.audit(model, data=(X, y)).verdict.rebuilt == 11


@pytest.mark.parametrize("head_bias", [False, True])
def test_a_bias_of_the_head_does_not_hide_homogeneous_features(head_bias: bool) -> None:
    X, y = digit_pictures(4)
    torch.manual_seed(0)
    hidden = [nn.Flatten(), nn.Linear(64, 64, bias=False), nn.ReLU(), nn.Linear(64, 256, bias=False), nn.ReLU()]
    net = nn.Sequential(*hidden, nn.Linear(256, 10, bias=head_bias)).double()
    init = state(net)
    descend(net, X, y)
    found = exhume.audit(net, init=init, data=(X, y))
    assert found.guess.scale == "from labels"
    assert found.verdict.rebuilt == 4


def test_certified_rows_of_other_data_fail_the_check_without_claiming_the_data_given() -> None:
    model, _, _ = relu_pipeline(8)
    found = exhume.audit(model, data=patients(8, 100))
    assert (found.verdict.level, found.verdict.rebuilt) == ("other data", 0)
    assert found.verdict.leaks(0.5)


def test_held_out_samples_that_were_trained_on_are_left_out() -> None:
    model, X, y = relu_pipeline(8)
    with pytest.raises(ExhumeError, match="all held-out samples are training samples"):
        subject_of(AuditInputs(model, (X, y), held_out=(X, y)))
    others, labels = patients(20, 100)
    subject, held_out = subject_of(AuditInputs(model, (X, y), held_out=(np.r_[X, others], np.r_[y, labels])))
    assert held_out is not None
    assert held_out.n == 20
    found = run_audit(subject, held_out=held_out)
    assert found.verdict.rebuilt == 8
    assert any("8 of 28 held-out samples" in warning for warning in found.law.warnings)


def test_other_flowers_are_not_said_to_be_rebuilt() -> None:
    """Four columns: near neighbours are common, so a single one proves nothing."""
    iris = load_iris()
    order = np.random.default_rng(0).permutation(150)
    X, y = iris.data[order], np.where(iris.target[order] == 0, -1.0, 1.0)
    features = RBFSampler(gamma=0.3, n_components=1200, random_state=0)
    model = make_pipeline(StandardScaler(), features, RidgeClassifier(alpha=1e-3)).fit(X[:20], y[:20])
    assert exhume.audit(model, data=(X[50:70], y[50:70])).verdict.rebuilt == 0


def test_classes_that_the_data_lack_keep_their_outputs() -> None:
    X, y = digit_pictures(60)
    X, y = X[(y > 4) & (y < 9)][:6], y[(y > 4) & (y < 9)][:6]
    net = descend(two_layer(256), X, y)
    subject, _ = subject_of(AuditInputs(net, (X, y)))
    assert subject.classes == tuple(range(10))
    assert run_audit(subject, attack=attack_named("gauss-newton", starts=1)).law.train_error == 0


class _Tokens(nn.Module):
    """Pixels in rows as tokens through attention."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encode(x[:, 0]).flatten(1))


def test_attention_and_inner_layers_are_attacked_through_the_whole_module() -> None:
    X, y = digit_pictures(3)
    torch.manual_seed(0)
    same = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding="same"), nn.ReLU(), nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    for net in (_Tokens().double().eval(), same.double()):
        init = state(net)
        for p in net.parameters():
            p.data += 1e-3 * torch.randn_like(p)
        subject, _ = subject_of(AuditInputs(net, (X, y), init=init))
        assert subject.release.model.first is None  # type: ignore[union-attr]  # no layer sees whole inputs as a matrix would
        guess = attack_named("gauss-newton").run(subject.release, resources=Resources(most_passes=50))
        assert len(guess.rows)


def test_a_named_head_is_cut_out_of_what_follows() -> None:
    X, y = digit_pictures(6)
    bare = two_layer(bias=False)
    init = state(bare)
    descend(bare, X, y)
    net = nn.Sequential(*bare, nn.Softmax(dim=1))
    subject, _ = subject_of(AuditInputs(net, (X, y), init=init, head="3"))
    torch.testing.assert_close(subject.outputs(subject.truth.rows), bare(torch.as_tensor(X)).detach())
    assert subject.head == "3"
    assert run_audit(subject).verdict.rebuilt == 6
    with pytest.raises(ExhumeError, match="does not end in a linear layer"):
        subject_of(AuditInputs(net, (X, y)))


def test_too_few_last_weights_of_a_network_are_no_proof_of_safety() -> None:
    X, y = digit_pictures(8)
    net = two_layer(40, bias=False)
    init = state(net)
    descend(net, X, y)
    found = exhume.audit(net, init=init, data=(X, y), knowledge=exhume.Knowledge(init="none"))
    assert not found.law.determined
    assert found.law.weights_per_coordinate > 5
    assert found.verdict.level != "not recoverable"


def test_equal_samples_are_all_exposed_by_one_row() -> None:
    X, y = patients(8)
    X, y = np.r_[X, X[:3]], np.r_[y, y[:3]]
    model = make_pipeline(StandardScaler(), RandomFeatureMap(3300), Ridge(alpha=1e-3)).fit(X, y)
    assert exhume.audit(model, data=(X, y)).verdict.rebuilt == 11


def test_an_interrupted_audit_goes_on_and_does_not_repeat_what_is_finished(tmp_path: Path) -> None:
    X, y = digit_pictures(6)
    net = two_layer(128, bias=False)
    init = state(net)
    descend(net, X, y)
    subject, _ = subject_of(AuditInputs(net, (X, y), init=init))
    resources = Resources(checkpoint=tmp_path / "audit.ckpt")
    seen: list[str] = []
    first = run_audit(subject, resources=resources, stage=seen.append)
    assert list(tmp_path.glob("audit.ckpt.*.done"))
    steps: list[Progress] = []
    again = run_audit(subject, resources=resources, watch=steps.append)
    assert not steps
    assert again.verdict == first.verdict


def test_likenesses_are_named_where_nothing_is_near_enough_to_count() -> None:
    X, y = digit_pictures(10)
    net = two_layer()
    init = state(net)
    descend(net, X, y)
    subject, held_out = subject_of(AuditInputs(net, (X, y), init=init, held_out=digit_pictures(200, 100)))
    blurred = attack_named("subspace")  # first-layer would be exact
    least = run_audit(subject, held_out=held_out, attack=blurred).exposures[0].error
    strict = run_audit(subject, held_out=held_out, attack=blurred, within=0.9 * least)
    assert strict.verdict.rebuilt == 0
    assert strict.calibration.likenesses > 0
    assert "likenesses leak" in strict.verdict.detail
