from __future__ import annotations

import hashlib
import http.server
import io
import pickle
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from exhume.data import SOURCES, DataRequest, load, load_dataset, save_dataset
from exhume.data import cifar10 as cifar
from exhume.data.download import Remote, cached
from exhume.errors import ExhumeError

EMBEDDED = ["sphere", "digits", "breast-cancer", "diabetes", "wine"]


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_load_and_survive_a_file(name: str, tmp_path: Path) -> None:
    data = load(DataRequest(name, n=12))
    assert data.n == 12
    assert name in SOURCES
    save_dataset(data, tmp_path / "truth.safetensors")
    back = load_dataset(tmp_path / "truth.safetensors")
    assert torch.equal(back.rows, data.rows)
    assert (back.columns, back.shape, back.label_size) == (data.columns, data.shape, data.label_size)


def test_sphere_has_the_papers_norm_and_labels() -> None:
    data = load(DataRequest("sphere", n=4000, d=50, seed=1))
    torch.testing.assert_close(data.rows.norm(dim=1), torch.full((4000,), 50**0.5, dtype=torch.float64))
    fit = torch.linalg.lstsq(data.rows, data.labels[:, None]).solution[:, 0]
    noise = data.labels - data.rows @ fit
    assert noise.std().item() == pytest.approx(0.5, rel=0.05)


def test_raw_values_come_back() -> None:
    from sklearn.datasets import load_diabetes

    data = load(DataRequest("diabetes", n=20))
    np.testing.assert_allclose(data.raw(data.rows).numpy(), load_diabetes(scaled=False).data[:20], rtol=1e-12)


# CIFAR-10 in its original formats, made here in small.


def fake_batch(seed: int) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (20, 3072), dtype=np.uint8), [int(v) for v in rng.permutation(np.arange(20) % 10)]


def python_archive(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for k in (1, 2):
            images, labels = fake_batch(k)
            content = pickle.dumps({b"data": images, b"labels": labels}, protocol=2)
            info = tarfile.TarInfo(f"cifar-10-batches-py/data_batch_{k}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def binary_folder(path: Path) -> None:
    for k in (1, 2):
        images, labels = fake_batch(k)
        records = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], images], axis=1)
        (path / f"data_batch_{k}.bin").write_bytes(records.tobytes())


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


def test_a_malicious_batch_is_not_executed(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "owned",))

    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": Payload(), b"labels": []}))
    with pytest.raises(ExhumeError, match="not a CIFAR-10 batch"):
        load(DataRequest("cifar10", n=4, data_dir=tmp_path))
    assert not (tmp_path / "owned").exists()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    served = tmp_path / "served"
    served.mkdir()
    python_archive(served / "cifar.tar.gz")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(served))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}/cifar.tar.gz"
        httpd.shutdown()


def test_download_is_verified_and_cached(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXHUME_CACHE", str(tmp_path / "cache"))
    md5 = hashlib.md5((tmp_path / "served" / "cifar.tar.gz").read_bytes()).hexdigest()
    remote = Remote(server, "cifar.tar.gz", md5)
    data = cifar.cifar10(n=4, data_dir=None, protocol="frog-truck", remote=remote)
    assert data.n == 4
    (tmp_path / "served" / "cifar.tar.gz").unlink()
    assert cached(remote).exists()  # the second time needs no server


def test_a_wrong_checksum_keeps_nothing(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXHUME_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ExhumeError, match="checksum"):
        cached(Remote(server, "cifar.tar.gz", "0" * 32))
    assert not list((tmp_path / "cache").iterdir())


def test_no_network_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXHUME_CACHE", str(tmp_path))
    with pytest.raises(ExhumeError, match="--data-dir"):
        cached(Remote("http://127.0.0.1:9/none", "none", "0" * 32))


def test_real_cifar10_protocols(cifar10_file: Path) -> None:
    pair = load(DataRequest("cifar10", n=10, data_dir=cifar10_file))
    assert pair.labels.tolist() == [-1.0] * 5 + [1.0] * 5
    assert pair.rows.mean().item() == pytest.approx(0, abs=1e-12)
    assert pair.rows.std().item() == pytest.approx(1)
    many = load(DataRequest("cifar10-multi", n=20, data_dir=cifar10_file))
    assert many.labels.tolist() == [float(c) for c in range(10) for _ in range(2)]


def test_real_tiny_imagenet(tiny_imagenet_file: Path) -> None:
    data = load(DataRequest("tiny-imagenet", n=20, data_dir=tiny_imagenet_file))
    assert data.d == 12288
    assert data.labels.sum() == 0


def test_tiny_imagenet_folder_layout(tmp_path: Path) -> None:
    for c in range(200):
        folder = tmp_path / "train" / f"n{c:08d}" / "images"
        folder.mkdir(parents=True)
        if c in (2, 116):
            for i in (0, 1, 10):
                Image.new("RGB", (64, 64), (c, i * 9, 7)).save(folder / f"n{c:08d}_{i}.JPEG", quality=100)
    data = load(DataRequest("tiny-imagenet", n=4, data_dir=tmp_path))
    assert data.shape == (3, 64, 64)
    assert data.labels.tolist() == [-1.0, -1.0, 1.0, 1.0]
    greens = data.raw(data.rows).reshape(4, 3, -1)[:, 1].mean(1)
    assert greens[1] > greens[0]  # _0 before _1, and _10 is not second


def test_a_folder_of_images(tmp_path: Path) -> None:
    for k, name in enumerate(("a", "b")):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.new("RGB", (6, 4), (40 * i, 90 * k, 10)).save(tmp_path / name / f"{i}.png")
    data = load(DataRequest("folder", n=4, data_dir=tmp_path))
    assert data.shape == (3, 4, 6)
    assert data.labels.tolist() == [-1.0, -1.0, 1.0, 1.0]
    assert data.pictures(data.rows).shape == (4, 4, 6, 3)


def test_own_npz_and_csv(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 3)), np.array([1.0, -1, 1, -1, 1, -1])
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    lines = ["age,weight,height,label"] + [",".join(str(v) for v in (*x, t)) for x, t in zip(X, y, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    one = load(DataRequest("file", data_file=tmp_path / "rows.npz"))
    two = load(DataRequest("file", data_file=tmp_path / "rows.csv"))
    torch.testing.assert_close(one.rows, two.rows)
    assert one.label_size == 1.0
    assert two.columns == ("age", "weight", "height")


def bad_npz(tmp_path: Path, **arrays: object) -> DataRequest:
    np.savez(tmp_path / "bad.npz", **arrays)  # type: ignore[arg-type]
    return DataRequest("file", data_file=tmp_path / "bad.npz")


GOOD = np.arange(12.0).reshape(4, 3) ** 1.5
Y = np.array([1.0, -1, 1, -1])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.where(GOOD == 0, np.nan, GOOD), "y": Y}, "NaN or infinity"),
        ({"X": GOOD, "y": np.array([1, np.inf, 1, 1])}, "NaN or infinity"),
        ({"X": GOOD, "y": Y[:3]}, "expected X"),
        ({"X": GOOD[0], "y": Y}, "expected X"),
        ({"X": GOOD, "y": np.ones(4)}, "distinct labels"),
        ({"X": GOOD}, "arrays 'X' and 'y'"),
        ({"X": GOOD.astype(str), "y": Y}, "real numbers"),
        ({"X": np.stack([GOOD[0], GOOD[0] + 1, GOOD[0] + 2]), "y": Y[:3]}, "norm zero"),
        ({"X": np.array([[object()]]), "y": Y[:1]}, "not a plain npz"),
    ],
)
def test_bad_rows_are_refused(arrays: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ExhumeError, match=message):
        load(bad_npz(tmp_path, **arrays))


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (DataRequest("spere"), "Did you mean 'sphere'"),
        (DataRequest("digits", n=0), "n must be at least 1"),
        (DataRequest("wine", n=10_000), "178 samples"),
        (DataRequest("sphere", d=1), "d >= 2"),
        (DataRequest("file"), "--data-file"),
        (DataRequest("folder"), "--data-dir"),
        (DataRequest("tiny-imagenet"), "--data-dir"),
        (DataRequest("file", data_file=Path("/nowhere/x.npz")), "not a file"),
        (DataRequest("cifar10", data_dir=Path("/nowhere")), "not a readable CIFAR-10 archive"),
    ],
)
def test_bad_requests_are_refused(request_: DataRequest, message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        load(request_)
