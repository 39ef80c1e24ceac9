"""The ways in which a model computes the same values: a fixture that runs a test with each of them."""

import pytest

from elmo_hf.modeling import lstm_elmo


@pytest.fixture(params=["fast", "packed", "plain"])
def engine(request, monkeypatch) -> str:
    """
    `fast`: what a user gets; `packed`: packed weights even for few sequences, as in large layers; `plain`: the plain
    loop, by the environment variable.
    """
    if request.param == "packed":
        monkeypatch.setattr(lstm_elmo, "LARGE_MATRIX", 0)
    if request.param == "plain":
        monkeypatch.setenv("ELMO_HF_ENGINE", "plain")
    return request.param


__all__ = ["engine"]
