"""The law before any attack: counting in closed form, and the measured rates."""

from __future__ import annotations

import pytest

from exhume.errors import ExhumeError
from exhume.prediction.expectation import expect


@pytest.mark.parametrize(
    ("p", "outcome", "rate", "words"),
    [
        (19, "impossible", None, "p < n: the model cannot even fit its labels"),
        (2199, "impossible", None, "2199 equations cannot pin down 2000 unknowns"),
        (2200, "possible", None, "below the lowest that was measured"),
        (2499, "possible", None, "below the lowest that was measured"),
        (2500, "unlikely", 0.0, "in 0% of the runs measured"),
        (3000, "likely", 0.8, "in 80% of the runs measured"),
        (3499, "likely", 0.8, "in 80% of the runs measured"),
        (3500, "expected", 1.0, "in 100% of the runs measured"),
        (80_000, "expected", 1.0, "in 100% of the runs measured"),
    ],
)
def test_the_outcome_follows_the_count_and_then_the_rate_measured_just_below(
    p: int, outcome: str, rate: float | None, words: str
) -> None:
    """The paper's sphere: d = 100, n = 20, so that d n = 2000 unknowns and a margin of 1.1 asks for 2200 equations."""
    told = expect(p, 100, 20)
    assert told.outcome == outcome
    assert told.measured_rate == rate
    assert words in told.sentence
    assert told.interpolates == (p >= 20)
    assert told.determined == (p >= 2200)
    assert told.ratio == pytest.approx(p / 2000)
    assert (told.equations, told.unknowns) == (p, 2000)


def test_memory_and_time_are_counted_over_the_features_that_an_attack_uses() -> None:
    for p, used in ((4000, 4000), (100_000, 7500)):  # 3.75 d n are enough
        told = expect(p, 100, 20)
        assert told.memory_gb == pytest.approx(4 * p * 100 / 1e9)
        assert told.gemm_gflops > 0.1
        assert told.seconds == pytest.approx(1500 * 2 * used * 100 * 20 / (told.gemm_gflops * 1e9))


@pytest.mark.parametrize(
    ("act", "sign", "scale"),
    [
        ("relu", "the odd part is exactly linear", "directions only"),
        ("tanh", "hidden: phi(-z) = -phi(z)", "not homogeneous"),
        ("abs", "hidden: phi(-z) = phi(z)", "directions only"),
        ("cosine", "both parities", "not homogeneous"),
    ],
)
def test_signs_and_norms_follow_from_the_activation(act: str, sign: str, scale: str) -> None:
    told = expect(4000, 100, 20, act)
    assert told.activation == act
    assert sign in told.sign
    assert told.sign.startswith("hidden") == sign.startswith("hidden")
    assert scale in told.scale


@pytest.mark.parametrize(("p", "d", "n", "name"), [(0, 1, 1, "p"), (1, 0, 1, "d"), (1, 1, -2, "n")])
def test_sizes_below_one_are_refused(p: int, d: int, n: int, name: str) -> None:
    with pytest.raises(ExhumeError, match=f"^{name} must be at least 1, got {min(p, d, n)}"):
        expect(p, d, n)
