"""The engines that compute the same values: fixtures that run a test on each of them."""

import pytest

from elmo_hf.modeling import lstm_elmo


@pytest.fixture(params=["fast", "packed", "plain"])
def engine(request, monkeypatch) -> str:
    """
    For inference. `fast`: what a user gets; `packed`: packed weights even for few sequences, as in large layers;
    `plain`: the plain loop, by the environment variable.
    """
    if request.param == "packed":
        monkeypatch.setattr(lstm_elmo, "LARGE_MATRIX", 0)
    if request.param == "plain":
        monkeypatch.setenv("ELMO_HF_ENGINE", "plain")
    return request.param


@pytest.fixture(params=["by hand", "plain"])
def training_engine(request, monkeypatch) -> str:
    """For gradients. `by hand`: what a user gets; `plain`: autograd follows the plain loop."""
    if request.param == "plain":
        monkeypatch.setenv("ELMO_HF_ENGINE", "plain")
    return request.param
