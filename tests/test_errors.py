"""Errors that name what was got and what is near it."""

from __future__ import annotations

import pytest

from exhume.errors import ExhumeError, unknown_name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tanhh", "unknown activation 'tanhh'. Did you mean 'tanh'? Known: erf, relu, tanh."),
        ("quadric", "unknown activation 'quadric'. Known: erf, relu, tanh."),
        ("", "unknown activation ''. Known: erf, relu, tanh."),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest_one(name: str, message: str) -> None:
    error = unknown_name("activation", name, {"tanh": 1, "relu": 2, "erf": 3})
    assert isinstance(error, ExhumeError)
    assert str(error) == message


def test_one_near_name_is_enough() -> None:
    assert str(unknown_name("attack", "gradient", ["gradient-b", "gradient-a"])).count("Did you mean") == 1
    assert "Did you mean 'gradient-b'" in str(unknown_name("attack", "gradientb", ["gradient-b", "gradient-a"]))
