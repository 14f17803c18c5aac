"""`exhume activation`: what an activation gives away."""

from __future__ import annotations

import json

import pytest

from exhume.features import ACTIVATIONS
from support.command_line import exhume


def test_activations_speak_json() -> None:
    reading = json.loads(exhume("activation", "relu", "--json").stdout)
    assert reading["coefficients"][1] == pytest.approx(0.5)
    assert (reading["name"], reading["formula"]) == ("relu", "max(z, 0)")


def test_all_activations_are_listed_with_their_formulas() -> None:
    listed = json.loads(exhume("activation", "--json").stdout)
    assert listed == {name: one.formula for name, one in ACTIVATIONS.items()}
    assert "max(z, 0) + tanh(z)" in exhume("activation").stdout


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("tanh", ["mu_0 +0.000000", "mu_2 +0.000000", "scale identifiable? yes"]),  # odd: no even coefficient
        ("relu", ["mu_1 +0.500000", "mu_3 +0.000000", "scale identifiable? no"]),  # its odd part is z / 2
        ("abs", ["mu_0 +0.797885", "mu_1 +0.000000", "sign identifiable? no"]),  # E|z| = sqrt(2 / pi)
    ],
)
def test_a_person_reads_coefficients_and_what_they_imply(name: str, lines: list[str]) -> None:
    told = [" ".join(line.split()) for line in exhume("activation", name).stdout.splitlines()]
    for line in lines:
        assert any(one.startswith(line) or one.startswith(line.replace("+0.000000", "-0.000000")) for one in told), (line, told)
