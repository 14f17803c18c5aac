"""`exhume compare`: several attacks on one victim."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exhume.attacks import ATTACKS
from support.command_line import exhume

CONTRACT = {
    "rho_signed", "rho", "chance", "n_true", "n_found", "covered", "certified", "status", "loss", "span_residual",
    "passes", "seconds", "peak_rss_mb",
}  # fmt: skip


def test_compare_puts_attacks_side_by_side(tmp_path: Path) -> None:
    victim = ["--victim", "two-layer", "--data", "digits", "--n", "3", "--ratio", "6", "--know-n"]
    quick = ["--attacks", "subspace,kkt,kkt-multiclass", "--max-steps", "100", "--step-size", "auto"]
    done = exhume("compare", *victim, *quick, "--out", str(tmp_path / "page"), "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [row["attack"] for row in told["attacks"]] == ["subspace", "kkt"]
    assert all(row.keys() >= CONTRACT | {"needs", "train_loss", "feature_drift"} for row in told["attacks"])
    assert "one output per class" in told["refused"]["kkt-multiclass"]
    page = (tmp_path / "page" / "index.html").read_text()
    assert "2 attacks on one victim" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    shown = exhume("compare", *victim, *quick, "--quiet")
    assert "chance" in shown.stdout
    assert "had to know" in shown.stdout
    listed = exhume("compare", "--list", "--json")
    assert set(json.loads(listed.stdout)) >= {"gauss-newton", "ntk"}
    assert exhume("compare", *victim, "--attacks", "kkd").returncode == 2
    assert exhume("trial", *victim, "--attack", "ntk", "--step-size", "fast").returncode == 2


def test_the_list_names_every_attack_and_what_it_needs() -> None:
    listed = json.loads(exhume("compare", "--list", "--json").stdout)
    assert listed == {name: {"about": attack.about, "needs": attack.needs} for name, attack in ATTACKS.items()}
    told = exhume("compare", "--list").stdout
    assert all(attack.needs in told for attack in ATTACKS.values())


def test_every_attack_is_announced_as_it_ends() -> None:
    done = exhume("compare", "--data", "sphere", "--d", "20", "--n", "4", "--ratio", "6", "--attacks", " gauss-newton , kkt")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("gauss-newton    error ")
    assert "kkt was not run:" in done.stdout
    assert "4 of 4" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--checkpoint", "c"], "a comparison has no checkpoint"),
        (["--attacks", "kkt"], "no attack can take this victim: "),
        (["--attacks", "kkd"], "Did you mean 'kkt'"),
        (["--out", "/proc/nowhere"], "cannot write"),
    ],
)
def test_misuse_is_one_line_with_the_remedy(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = exhume("compare", "--data", "sphere", "--d", "10", "--n", "3", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
