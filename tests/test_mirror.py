"""Every module with logic has a test file of its own, at the same place in tests/ (or in tests/oracle/)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "exhume"


def has_logic(path: Path) -> bool:
    """Whether a module defines a function: records and tables of constants need no test of their own."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(tree))


MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if path.name not in ("__init__.py", "__main__.py") and has_logic(path)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_with_logic_has_a_test_file(path: Path) -> None:
    place = path.relative_to(SOURCE).with_name(f"test_{path.name}")
    assert (TESTS / place).is_file() or (TESTS / "oracle" / place).is_file(), f"expected tests/{place} or tests/oracle/{place}"


def test_no_test_file_mirrors_a_module_that_is_gone() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    for root in (TESTS, TESTS / "oracle"):
        for test in root.rglob("test_*.py"):
            place = test.relative_to(root)
            if place.parts[0] in rooms:
                module = SOURCE / place.with_name(place.name.removeprefix("test_"))
                assert module.is_file() or module.with_suffix("").is_dir(), f"{test} mirrors no module"
