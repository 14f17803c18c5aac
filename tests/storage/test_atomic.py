"""Files appear whole or not at all."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from exhume.errors import ExhumeError
from exhume.storage.atomic import json_text, require_writable, write_atomically, write_text


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    path.write_text("old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(ExhumeError, match="No space left"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["kept.txt"]


def test_folders_are_made_and_text_is_written(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b" / "c.txt", "grün")
    assert (tmp_path / "a" / "b" / "c.txt").read_text(encoding="utf-8") == "grün"


def test_what_cannot_be_written_is_said_before_a_long_run(tmp_path: Path) -> None:
    require_writable(tmp_path / "new" / "file")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(ExhumeError, match="Choose a folder that you may write to"):
        require_writable(tmp_path / "file" / "below")


def test_json_has_no_infinity() -> None:
    assert json.loads(json_text({"a": [1.5, math.inf], "b": (math.nan,)})) == {"a": [1.5, None], "b": [None]}


def test_temporary_files_of_killed_writers_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead = tmp_path / f".a.txt.{gone.pid}.x.tmp"
    alive, other = tmp_path / f".a.txt.{os.getpid()}.x.tmp", tmp_path / f".b.txt.{gone.pid}.x.tmp"
    for path in (dead, alive, other):
        path.write_text("half")
    write_text(tmp_path / "a.txt", "whole")
    assert {p.name for p in tmp_path.iterdir()} == {"a.txt", alive.name, other.name}
