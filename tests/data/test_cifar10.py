"""CIFAR-10 from every form in which it is handed around, and hostile batches."""

from __future__ import annotations

import hashlib
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from exhume.data import DataRequest, load
from exhume.data.cifar10 import cifar10
from exhume.data.download import Remote
from exhume.errors import ExhumeError
from support.cifar_files import binary_folder, fake_batch, python_archive
from support.web import served


def test_python_and_binary_versions_agree(tmp_path: Path) -> None:
    python_archive(tmp_path / "cifar-10-python.tar.gz")
    binary_folder(tmp_path)
    one = load(DataRequest("cifar10", n=4, data_dir=tmp_path / "cifar-10-python.tar.gz"))
    for file in tmp_path.glob("*.tar.gz"):
        file.unlink()
    two = load(DataRequest("cifar10", n=4, data_dir=tmp_path))
    assert torch.equal(one.rows, two.rows)
    assert one.labels.tolist() == [-1.0, -1.0, 1.0, 1.0]
    images, labels = fake_batch(1)
    frogs = images[[i for i, v in enumerate(labels) if v == 6]]
    np.testing.assert_allclose(one.raw(one.rows)[0].numpy(), frogs[0], atol=1e-9)


def test_an_extract_is_put_into_the_original_order(tmp_path: Path) -> None:
    binary_folder(tmp_path)
    whole = load(DataRequest("cifar10", n=4, data_dir=tmp_path))
    images = np.concatenate([fake_batch(k)[0] for k in (1, 2)]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([fake_batch(k)[1] for k in (1, 2)])
    order = np.random.default_rng(0).permutation(len(labels))
    np.savez(tmp_path / "cifar-extract.npz", images=images[order], labels=labels[order], indices=order)
    assert torch.equal(load(DataRequest("cifar10", n=4, data_dir=tmp_path)).rows, whole.rows)
    np.savez(tmp_path / "cifar-extract.npz", images=images, labels=labels, indices=order[:5])
    with pytest.raises(ExhumeError, match=r"as many 'indices' as labels, got \(5,\) and \(40,\)"):
        load(DataRequest("cifar10", n=4, data_dir=tmp_path))


@pytest.mark.parametrize(
    ("n", "classes"), [(5, [0, 1, 2, 3, 4]), (10, list(range(10))), (20, [c for c in range(10) for _ in "ab"])]
)
def test_many_classes_come_in_equal_parts(n: int, classes: list[int], tmp_path: Path) -> None:
    binary_folder(tmp_path)
    data = load(DataRequest("cifar10-multi", n=n, data_dir=tmp_path))
    assert data.labels.tolist() == classes
    assert data.label_size is None
    with pytest.raises(ExhumeError, match="multiple of 10 for balanced classes, got 12"):
        load(DataRequest("cifar10-multi", n=12, data_dir=tmp_path))


def test_pictures_are_averaged_to_the_size_that_is_asked_for(tmp_path: Path) -> None:
    binary_folder(tmp_path)
    full, small = (load(DataRequest("cifar10", n=2, data_dir=tmp_path, size=size)) for size in (None, 8))
    assert (full.shape, small.shape) == ((3, 32, 32), (3, 8, 8))
    pictures = full.raw(full.rows).reshape(2, 3, 32, 32)
    first = small.raw(small.rows).reshape(2, 3, 8, 8)[0, 1, 2, 3]
    assert float(first) == pytest.approx(float(pictures[0, 1, 8:12, 12:16].mean()))


def test_the_archive_is_downloaded_where_no_folder_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXHUME_CACHE", str(tmp_path / "cache"))
    web = tmp_path / "web"
    web.mkdir()
    python_archive(web / "cifar.tar.gz")
    md5 = hashlib.md5((web / "cifar.tar.gz").read_bytes()).hexdigest()
    with served(web) as address:
        data = cifar10(n=4, data_dir=None, protocol="frog-truck", remote=Remote(f"{address}/cifar.tar.gz", "cifar.tar.gz", md5))
    assert data.n == 4
    assert torch.equal(data.rows, load(DataRequest("cifar10", n=4, data_dir=web / "cifar.tar.gz")).rows)


def test_a_malicious_batch_is_not_executed(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "owned",))

    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": Payload(), b"labels": []}))
    with pytest.raises(ExhumeError, match="not a CIFAR-10 batch"):
        load(DataRequest("cifar10", n=4, data_dir=tmp_path))
    assert not (tmp_path / "owned").exists()


class _LyingType:
    """A dtype whose bytes are said to be pointers to Python objects: numpy would follow them."""

    def __reduce__(self) -> tuple:
        return np.dtype, ("u1", False, True), (3, "|", None, None, None, -1, -1, 63)


class _Array:
    """The images of a batch, with a dtype of one's own."""

    def __init__(self, images: np.ndarray, kind: object) -> None:
        self.images, self.kind = images, kind

    def __reduce__(self) -> tuple:
        make, arguments, _ = self.images.__reduce__()  # type: ignore[misc]
        return make, arguments, (1, self.images.shape, self.kind, False, self.images.tobytes())


def test_a_type_that_lies_about_its_memory_is_not_believed(tmp_path: Path) -> None:
    images, labels = fake_batch(1)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": _Array(images, _LyingType()), b"labels": labels}, protocol=2))
    data = load(DataRequest("cifar10", n=2, data_dir=tmp_path))
    np.testing.assert_allclose(data.raw(data.rows)[0].numpy(), images[labels.index(6)], atol=1e-9)


IMAGES, NUMBERS = fake_batch(1)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_batches_of_every_protocol_and_order_are_read(protocol: int, order: str, tmp_path: Path) -> None:
    batch = {b"data": np.asarray(IMAGES, order=order), b"labels": NUMBERS}  # type: ignore[call-overload]
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(batch, protocol=protocol))
    data = load(DataRequest("cifar10", n=2, data_dir=tmp_path))
    np.testing.assert_allclose(data.raw(data.rows)[1].numpy(), IMAGES[NUMBERS.index(9)], atol=1e-9)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({b"data": IMAGES.astype(np.float32), b"labels": NUMBERS}, "type u1, got 'f4'"),
        ({b"data": IMAGES.astype(object), b"labels": NUMBERS}, "type u1, got 'O8'"),
        ({b"data": IMAGES[:, :100], b"labels": NUMBERS}, r"expected 20 images of 3072 bytes .* \(20, 100\)"),
        ({b"data": IMAGES[:7], b"labels": NUMBERS}, r"expected 20 images of 3072 bytes .* \(7, 3072\)"),
        ({b"data": IMAGES}, "not a CIFAR-10 batch .*labels"),
        ({b"data": [1, 2], b"labels": [1, 2]}, "not a CIFAR-10 batch"),
        ([1, 2], "not a CIFAR-10 batch"),
        ({b"data": IMAGES, b"labels": [10**30]}, "not a CIFAR-10 batch"),
        ({b"data": IMAGES, b"labels": 3}, "expected 1 images of 3072 bytes"),
        ({b"data": IMAGES, b"labels": [[label] for label in NUMBERS]}, "expected 20 images of 3072 bytes"),
    ],
)
def test_a_batch_that_is_none_is_refused(content: object, message: str, tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(ExhumeError, match=message):
        load(DataRequest("cifar10", n=2, data_dir=tmp_path))


@pytest.mark.parametrize("content", [b"", b"garbage", pickle.dumps({b"data": IMAGES, b"labels": NUMBERS}, protocol=2)[:-40]])
def test_a_damaged_batch_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").write_bytes(content)
    with pytest.raises(ExhumeError, match=r"data_batch_1 is not a CIFAR-10 batch .*Download it again"):
        load(DataRequest("cifar10", n=2, data_dir=tmp_path))


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1").mkdir()  # a folder of that name is no batch
    with pytest.raises(ExhumeError, match="no CIFAR-10 training batches in it"):
        load(DataRequest("cifar10", n=2, data_dir=tmp_path))
    (tmp_path / "data_batch_2.bin").write_bytes(bytes(3000))
    with pytest.raises(ExhumeError, match="multiple of 3073 bytes, got 3000"):
        load(DataRequest("cifar10", n=2, data_dir=tmp_path))
    with tarfile.open(tmp_path / "other.tar", "w") as archive:
        archive.add(tmp_path / "data_batch_2.bin", "read-me")
    with pytest.raises(ExhumeError, match="no CIFAR-10 training batches in it"):
        load(DataRequest("cifar10", n=2, data_dir=tmp_path / "other.tar"))
    (tmp_path / "cut.tar.gz").write_bytes(b"\x1f\x8b\x08" + bytes(40))
    with pytest.raises(ExhumeError, match="not a readable CIFAR-10 archive"):
        load(DataRequest("cifar10", n=2, data_dir=tmp_path / "cut.tar.gz"))


def test_too_many_of_a_class_are_refused(tmp_path: Path) -> None:
    binary_folder(tmp_path)
    with pytest.raises(ExhumeError, match="class 0 has 4 samples, 5 are needed for n = 10"):
        load(DataRequest("cifar10", n=10, data_dir=tmp_path))


def test_real_cifar10_protocols(cifar10_file: Path) -> None:
    pair = load(DataRequest("cifar10", n=10, data_dir=cifar10_file))
    assert pair.labels.tolist() == [-1.0] * 5 + [1.0] * 5
    assert pair.rows.mean().item() == pytest.approx(0, abs=1e-12)
    assert pair.rows.std().item() == pytest.approx(1)
    many = load(DataRequest("cifar10-multi", n=20, data_dir=cifar10_file))
    assert many.labels.tolist() == [float(c) for c in range(10) for _ in range(2)]


def test_photographs_are_averaged_down(cifar10_file: Path) -> None:
    whole = load(DataRequest("cifar10", n=4, data_dir=cifar10_file))
    small = load(DataRequest("cifar10", n=4, size=8, data_dir=cifar10_file.parent))
    assert small.shape == (3, 8, 8)
    pooled = torch.nn.functional.avg_pool2d(whole.raw(whole.rows).reshape(4, 3, 32, 32), 4).reshape(4, -1)
    assert torch.allclose(small.raw(small.rows), pooled)
    with pytest.raises(ExhumeError, match="divisor of 32"):
        load(DataRequest("cifar10", n=4, size=5, data_dir=cifar10_file))
