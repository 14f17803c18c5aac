"""What a user may bring to an audit, in every form, and what is said of everything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from exhume.auditing.audit_inputs import AuditInputs, import_model, make_module, subject_of, table_of
from exhume.errors import ExhumeError
from support.audit_cases import network_inputs, pipeline_inputs, state
from support.models import digit_pictures, patients, two_layer, write_npz


def _net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 10))


@pytest.mark.parametrize(
    ("brought", "title"),
    [
        (AuditInputs("folder/net.pt", None, name="mine"), "mine"),
        (AuditInputs("folder/net.pt", None, model="pkg.nets:make"), "net.pt"),
        (AuditInputs(Path("folder/net.pt"), None), "net.pt"),
        (AuditInputs({}, None, model="pkg.nets:make"), "pkg.nets:make"),
        (AuditInputs(Ridge(), None), "Ridge"),
    ],
)
def test_the_title_is_the_name_given_a_file_or_a_class(brought: AuditInputs, title: str) -> None:
    assert brought.title == title


def test_the_first_n_samples_are_used(tmp_path: Path) -> None:
    X, y = patients(6)
    path = write_npz(tmp_path / "rows.npz", X, y)
    for data in ((X, y), [X.tolist(), y.tolist()], (torch.as_tensor(X), torch.as_tensor(y)), path, str(path)):
        table = AuditInputs(None, data, n=4).table()
        np.testing.assert_array_equal(table.X, X[:4])
        np.testing.assert_array_equal(table.y, y[:4])


def test_a_folder_of_images_is_read_by_its_subfolders(tmp_path: Path) -> None:
    for name, shade in (("cat", 10), ("dog", 200)):
        (tmp_path / name).mkdir()
        Image.new("RGB", (2, 2), (shade, 0, 0)).save(tmp_path / name / "one.png")
    table = table_of(tmp_path, None)
    assert table.X.shape == (2, 3, 2, 2)
    assert len(set(table.y)) == 2


def test_a_module_and_an_estimator_are_opened_as_they_are() -> None:
    net, model = _net(), pipeline_inputs().trained
    assert AuditInputs(net, None).open_model() is net
    assert AuditInputs(model, None).open_model() is model


def test_weights_go_into_the_model_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "audited_nets.py").write_text(
        "from torch import nn\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 10))\n"
    )
    monkeypatch.chdir(tmp_path)
    net = _net()
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    torch.save(net.state_dict(), tmp_path / "net.pt")
    x = torch.randn(3, 64)
    ways: list[tuple[Any, Any]] = [
        ("net.safetensors", "audited_nets:make"),
        (tmp_path / "net.pt", _net),
        (net.state_dict(), _net()),
    ]
    for trained, model in ways:
        opened = AuditInputs(trained, None, model=model).open_model()
        assert isinstance(opened, nn.Module)
        assert opened is not net
        torch.testing.assert_close(opened(x), net(x))


def test_initial_weights_come_from_a_module_a_mapping_or_a_file(tmp_path: Path) -> None:
    net = _net()
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    brought = AuditInputs(net, None)
    for given in (net, net.state_dict(), tmp_path / "net.safetensors"):
        found = brought.weights(given, "initial")
        assert set(found) == set(net.state_dict())
        assert torch.equal(found["1.weight"], net.state_dict()["1.weight"])
    with pytest.raises(ExhumeError, match="the initial weights must be a module, a state dict or a file, got int"):
        brought.weights(3, "initial")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, "weights alone are no model"),
        ("nets", "--model must be package.module:factory, got 'nets'"),
        (":make", "--model must be package.module:factory"),
        ("no_such_package.nets:make", "No module named 'no_such_package'"),
        ("json:mak", "--model json:mak: json has no 'mak'"),
        (nn.Linear, "failed: .*missing 2 required"),
        (dict, "must give a torch.nn.Module, got dict"),
    ],
)
def test_a_model_that_cannot_be_made_is_told_in_one_line(model: object, message: str) -> None:
    with pytest.raises(ExhumeError, match=message) as error:
        make_module(model)
    assert "\n" not in str(error.value)


def test_what_is_named_is_imported() -> None:
    assert import_model("torch.nn:Linear") is nn.Linear


@pytest.mark.parametrize("data", [3, (1, 2, 3), {"X": 1}, None])
def test_data_of_no_known_form_are_refused(data: object) -> None:
    with pytest.raises(ExhumeError, match=r"data must be \(X, y\), a file or a folder, got"):
        table_of(data, None)


def test_held_out_samples_must_look_like_the_training_data() -> None:
    inputs = pipeline_inputs()
    with pytest.raises(ExhumeError, match=r"held-out samples have shape \(29,\), the training data \(30,\)"):
        subject_of(AuditInputs(inputs.trained, inputs.data, held_out=(np.ones((3, 29)), np.arange(3))))


def test_a_pipeline_takes_rows_and_no_pictures() -> None:
    with pytest.raises(ExhumeError, match=r"takes rows \(n, d\), got data of shape \(4, 1, 8, 8\)"):
        subject_of(AuditInputs(pipeline_inputs().trained, digit_pictures(4)))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"n": -3}, "n = -3"),
        ({"mean": (0.5,)}, "Leave --model"),
        ({"head": "last"}, "Leave --model"),
        ({"model": _net}, "Leave --model"),
        ({"spread": (2.0,)}, "Leave --model"),
        ({"init": {}}, "keeps no weights from before training. Leave --init out"),
    ],
)
def test_what_a_pipeline_has_no_use_for_is_refused(extra: dict, message: str) -> None:
    inputs = pipeline_inputs()
    with pytest.raises(ExhumeError, match=message):
        subject_of(AuditInputs(inputs.trained, inputs.data, **extra))


def test_a_module_is_fed_with_standardised_samples_held_out_ones_too() -> None:
    inputs = network_inputs()
    X, y = inputs.data
    others, labels = digit_pictures(5, 50)
    subject, held_out = subject_of(
        AuditInputs(inputs.trained, (X, y), init=inputs.init, held_out=(others, labels), mean=(0.5,), spread=(2.0,))
    )
    assert held_out is not None
    for made, raw in ((subject.truth, X), (held_out, others)):
        np.testing.assert_allclose(made.rows.numpy(), (raw.reshape(len(raw), -1) - 0.5) / 2.0)
    assert subject.name == "Sequential"


def test_held_out_samples_that_were_trained_on_are_dropped_with_a_note() -> None:
    inputs = network_inputs()
    X, y = inputs.data
    others, labels = digit_pictures(5, 50)
    mixed = (np.concatenate([others, X[:2]]), np.concatenate([labels, y[:2]]))
    subject, held_out = subject_of(AuditInputs(inputs.trained, (X, y), held_out=mixed))
    assert held_out is not None
    np.testing.assert_allclose(held_out.rows.numpy(), others.reshape(5, -1))
    assert held_out.labels.tolist() == labels.tolist()
    assert subject.notes == ("2 of 7 held-out samples are training samples and were left out",)


def test_without_held_out_samples_there_are_none() -> None:
    assert subject_of(network_inputs())[1] is None


def test_initial_weights_of_another_model_are_refused() -> None:
    inputs = network_inputs()
    with pytest.raises(ExhumeError, match="the initial weights do not fit the model"):
        subject_of(AuditInputs(inputs.trained, inputs.data, init=state(two_layer(7))))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((np.zeros((6, 5)), np.zeros(6)), "fitted on 30 columns"),
        ((np.zeros((6, 30)), np.zeros((6, 2))), "y (n,)"),
        ((np.zeros((6, 30)), np.array(["a"] * 6)), "must be real numbers"),
        ((np.full((6, 30), np.nan), np.zeros(6)), "NaN"),
    ],
)
def test_rows_that_do_not_fit_a_pipeline_are_refused(data: tuple, message: str) -> None:
    with pytest.raises(ExhumeError) as error:
        subject_of(AuditInputs(pipeline_inputs().trained, data))
    assert message in str(error.value)


def test_misfits_are_told_in_one_sentence() -> None:
    X, y = digit_pictures(4)
    net = two_layer(16)
    for brought, words in (
        (AuditInputs(net, (np.ones((4, 5)), y)), "does not take inputs"),
        (AuditInputs(net, (X, y), init=two_layer(17).state_dict()), "do not fit the model"),
        (AuditInputs(net, (X, y), head="1x"), "not a linear layer"),
        (AuditInputs({"a": torch.ones(1)}, (X, y)), "weights alone are no model"),
        (AuditInputs(nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU()), (X, y)), "does not end in a linear layer"),
        (AuditInputs(make_pipeline(StandardScaler(), Ridge()).fit(*patients(9)), patients(9)), "RBFSampler"),
        (AuditInputs(Ridge(), patients(9)), "not fitted"),
        (AuditInputs(net, (X, y), mean=(0.0, 1.0)), "--mean needs"),
        (AuditInputs(net, (X, y), spread=(0.0,)), "--std must be positive"),
    ):
        with pytest.raises(ExhumeError, match=words):
            subject_of(brought)
