"""The command line: in this process, which is quick, or in one of its own, as a person starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from exhume.cli import main


@dataclass(frozen=True)
class Done:
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def exhume(*arguments: str, cwd: Path | None = None) -> Done:
    """The command in this process."""
    before = Path.cwd()
    os.chdir(cwd or before)
    try:
        result = CliRunner().invoke(main, list(arguments), prog_name="exhume")
    finally:
        os.chdir(before)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def exhume_process(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "exhume", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False)
