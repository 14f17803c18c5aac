"""`exhume watch`: an address with a token, and a page behind it."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support.command_line import exhume


def test_misuse_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    done = exhume("watch", "absent", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "not a folder" in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert "Traceback" not in done.stderr


def test_the_page_is_served_on_this_machine_to_whoever_has_the_token(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'exhume[live]'")
    process = subprocess.Popen(
        [sys.executable, "-m", "exhume", "watch", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background shell ignores it
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        base, found, token = address.partition("?token=")
        assert base.startswith("http://127.0.0.1:")
        assert found
        assert len(token) >= 20
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert "exhume: live" in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(base, timeout=20)
        assert refused.value.code == 403
        refused.value.close()
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert "Traceback" not in errors
