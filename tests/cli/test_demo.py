from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, str]:
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "exhume", "demo", "--out", str(folder / "page"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    return row, Path(row["page"]).read_text()


def test_everything_is_rebuilt(demo: tuple[dict, str]) -> None:
    trials = demo[0]["trials"]
    assert [trial["covered"] for trial in trials] == [20, 30, 50]
    assert all(trial["certified"] and trial["worst_row"] < 1e-4 for trial in trials)


def test_the_page_needs_nothing_else(demo: tuple[dict, str]) -> None:
    html = demo[1]
    links = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert links
    assert all(link.startswith("data:image/") for link in links)
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "<script" not in html


def test_the_page_says_what_was_known_and_what_chance_is(demo: tuple[dict, str]) -> None:
    html = demo[1]
    for words in ("What the attacker knew", "chance", "The cliff is n", "mean radius", "All 30 training rows"):
        assert words in html
