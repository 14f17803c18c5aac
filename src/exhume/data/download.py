"""Downloads with a checksum, into a cache, and clear instructions when there is no network."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from exhume.errors import ExhumeError
from exhume.storage.atomic import write_atomically

_CHUNK = 1 << 20
_TIMEOUT = 30


@dataclass(frozen=True)
class Remote:
    """A file on the web with its published checksum."""

    url: str
    name: str
    md5: str


def cache_dir() -> Path:
    """Where downloads are kept: $EXHUME_CACHE, or the platform's cache folder."""
    return Path(os.environ.get("EXHUME_CACHE") or platformdirs.user_cache_dir("exhume"))


def cached(remote: Remote) -> Path:
    """The local copy of a remote file, downloaded and verified on first use."""
    path = cache_dir() / remote.name
    if not path.exists():
        write_atomically(path, lambda temporary: _download(remote, temporary))
    return path


def _download(remote: Remote, path: Path) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with urllib.request.urlopen(remote.url, timeout=_TIMEOUT) as answer, open(path, "wb") as file:
            while chunk := answer.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise ExhumeError(
            f"cannot download {remote.name} ({str(error).strip()}). Fetch {remote.url} where there is a network and give it with "
            "--data-dir."
        ) from None
    if digest.hexdigest() != remote.md5:
        raise ExhumeError(f"{remote.name}: checksum {digest.hexdigest()} instead of {remote.md5}. Try again; nothing was kept.")
