"""The examples as they stand; test_typed_script.py runs every_verb.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py") if path.name != "every_verb.py"))
def test_examples_run_as_they_stand(example: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / example)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout
