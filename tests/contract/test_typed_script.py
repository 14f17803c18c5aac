"""A user's script against the installed package: it runs, and its types hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "every_verb.py"


def test_a_script_that_uses_every_verb_passes_mypy_strict(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.read_text())
    (tmp_path / "wrong.py").write_text("import exhume\nexhume.reconstruct(3)\nexhume.law('many', 2, 3)\nexhume.nothing\n")
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}

    def checked(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache" / "scripts"), name]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    passed = checked("script.py")
    assert passed.returncode == 0, passed.stdout
    failed = checked("wrong.py")  # the check can fail: names are not Any
    assert 'Argument 1 to "reconstruct"' in failed.stdout
    assert 'Argument 1 to "law"' in failed.stdout
    assert "nothing" in failed.stdout


def test_the_script_runs(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "sphere: 4 of 4" in done.stdout
    assert "6 of 6 training samples" in done.stdout
    assert (tmp_path / "exhume-audit" / "index.html").is_file()


def test_importing_exhume_does_not_import_torch() -> None:
    code = "import exhume, sys; print('torch' in sys.modules, exhume.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False 0.")
