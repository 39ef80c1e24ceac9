"""Settings: small data get as many steps as they need; what a user gives is what is done."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.finetuning import FinetuningSettings


@pytest.mark.parametrize(
    ("examples", "batch_size", "epochs", "evaluation_epochs", "patience"),
    [
        (1, 4, 600, 50, 12),
        (80, 4, 30, 3, 10),
        (200, 8, 24, 2, 12),
        (500, 16, 20, 2, 10),
        (1600, 32, 20, 1, 12),
        (3840, 32, 20, 1, 5),
        (100_000, 32, 20, 1, 5),
    ],
)
def test_defaults_depend_on_the_number_of_examples(examples, batch_size, epochs, evaluation_epochs, patience):
    settings = FinetuningSettings().for_examples(examples)
    assert (settings.batch_size, settings.epochs, settings.evaluation_epochs) == (batch_size, epochs, evaluation_epochs)
    assert settings.patience == patience
    assert settings.learning_rate == (0.002 if examples < 640 else 0.001)


@given(st.integers(1, 10**6), st.integers(1, 8))
def test_every_size_has_enough_steps_and_is_evaluated(examples, processes):
    settings = FinetuningSettings().for_examples(examples, processes)
    steps = math.ceil(examples / (settings.batch_size * processes))
    assert steps * settings.epochs >= 600
    assert steps * settings.evaluation_epochs * settings.patience >= 600
    assert settings.epochs >= 20
    assert settings.evaluation_epochs <= settings.epochs
    assert settings.for_examples(examples, processes) == settings


def test_given_values_are_kept():
    given_values = {"learning_rate": 0.5, "batch_size": 64, "epochs": 2, "evaluation_epochs": 1, "patience": 1}
    assert FinetuningSettings(**given_values).for_examples(10) == FinetuningSettings(**given_values)
    settings = FinetuningSettings(epochs=2).for_examples(10)
    assert (settings.evaluation_epochs, settings.patience) == (1, 5)


@pytest.mark.parametrize("name", ["batch_size", "epochs", "evaluation_epochs", "patience", "learning_rate"])
def test_zero_is_refused(name):
    with pytest.raises(ValueError, match=name):
        FinetuningSettings(**{name: 0})
