"""Hyper-parameters that cannot be used, for every option of every method and server optimiser: one sentence each."""

from __future__ import annotations

import pytest

import feddc
from feddc import specs
from feddc.algorithms import METHODS, SERVERS, make_method

OPTIONS = [
    *(f"{name}:{option}" for name, factory in METHODS.items() for option in specs.options(factory)),
    *(f"fedavg:server={name}:server_{option}" for name, kind in SERVERS.items() for option in specs.options(kind)),
]


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "many", ""])
@pytest.mark.parametrize("option", [each for each in OPTIONS if not each.endswith(":server")])
def test_a_bad_value_gets_a_sentence_that_names_it(option: str, value: str) -> None:
    with pytest.raises(feddc.ConfigError) as caught:
        make_method(f"{option}={value}")
    sentence = str(caught.value)
    assert option.rpartition(":")[2].removeprefix("server_") in sentence
    assert "must be" in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("name", METHODS)
def test_an_option_that_a_method_does_not_have_gets_a_sentence(name: str) -> None:
    with pytest.raises(feddc.ConfigError, match=f"unknown option of method '{name}'.*nonsense"):
        make_method(f"{name}:nonsense=1")
