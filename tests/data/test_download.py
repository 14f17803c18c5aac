"""Downloads: verified, kept, and told clearly when they fail."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
import pytest

from exhume.data.download import Remote, cache_dir, cached
from exhume.errors import ExhumeError
from support.web import served

CONTENT = bytes(range(256)) * 5000  # more than a chunk


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("EXHUME_CACHE", str(tmp_path / "cache"))
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "a.bin").write_bytes(CONTENT)
    with served(tmp_path / "web") as address:
        yield f"{address}/a.bin"


def test_download_is_verified_and_cached(server: str, tmp_path: Path) -> None:
    remote = Remote(server, "kept.bin", hashlib.md5(CONTENT).hexdigest())
    assert cached(remote) == tmp_path / "cache" / "kept.bin"
    (tmp_path / "web" / "a.bin").unlink()
    assert cached(remote).read_bytes() == CONTENT  # the second time needs no server


def test_a_wrong_checksum_keeps_nothing(server: str, tmp_path: Path) -> None:
    with pytest.raises(ExhumeError, match=r"checksum .* instead of 0{32}\. Try again; nothing was kept"):
        cached(Remote(server, "kept.bin", "0" * 32))
    assert not list((tmp_path / "cache").iterdir())


def test_no_network_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXHUME_CACHE", str(tmp_path))
    with pytest.raises(ExhumeError, match="--data-dir"):
        cached(Remote("http://127.0.0.1:9/none", "none", "0" * 32))


def test_a_page_that_is_not_there_is_told(server: str) -> None:
    with pytest.raises(ExhumeError, match=r"cannot download kept\.bin \(HTTP Error 404.*--data-dir"):
        cached(Remote(server + ".gone", "kept.bin", "0" * 32))


@contextmanager
def answers(reply: bytes) -> Iterator[str]:
    """A server that says one thing and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/a.bin"
        thread.join()


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"220 mail.example.org ready\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\nhalf a chunk",
    ],
    ids=["silence", "no web server", "cut off"],
)
def test_an_answer_that_breaks_off_is_told_and_keeps_nothing(reply: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXHUME_CACHE", str(tmp_path))
    with answers(reply) as address, pytest.raises(ExhumeError, match=r"cannot download kept\.bin .* give it with --data-dir"):
        cached(Remote(address, "kept.bin", "0" * 32))
    assert not list(tmp_path.iterdir())


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXHUME_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.setenv("EXHUME_CACHE", "")
    assert cache_dir() == Path(platformdirs.user_cache_dir("exhume"))
