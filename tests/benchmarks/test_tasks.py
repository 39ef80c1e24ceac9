"""The published numbers of tasks do not move with the defaults of the training."""

from benchmarks.tasks import SETTINGS
from elmo_hf.finetuning import FinetuningSettings


def test_every_setting_is_written_out():
    of_the_run = {"epochs", "seed"}  # of the task, and one after the other
    unused = {"bilm_learning_rate"}  # the biLM is frozen
    assert SETTINGS.keys() | of_the_run | unused == FinetuningSettings.__dataclass_fields__.keys()
    settings = FinetuningSettings(**SETTINGS, epochs=5)
    assert settings.for_examples(10) == settings.for_examples(100_000) == settings
