"""A run's records outlive a kill, and those of steps that are made again are dropped."""

from unittest.mock import Mock

import pytest

from elmo_hf.pretraining.history import History
from elmo_hf.publishing import read_history


@pytest.fixture
def history(tmp_path):
    return History(tmp_path / "history.jsonl", Mock(is_main_process=True))


def tear(history: History, characters: int):
    """Cuts the end of the file off, as a kill in the middle of writing does."""
    content = history.path.read_bytes()
    history.path.write_bytes(content[: len(content) - characters])


def test_records_are_appended_and_read_back(history):
    history.add(1, {"loss": 2.5, "name": "猫\u2028"})
    history.add(2, {"loss": 2.0})
    History(history.path, history.accelerator).add(3, {})
    assert read_history(history.path) == [
        {"step": 1, "loss": 2.5, "name": "猫\u2028"},
        {"step": 2, "loss": 2.0},
        {"step": 3},
    ]
    assert len(history.path.read_text("utf-8").splitlines()) == 3


def test_trackers_get_the_numbers_too(history):
    history.add(7, {"loss": 2.5})
    history.accelerator.log.assert_called_once_with({"loss": 2.5}, step=7)


@pytest.mark.parametrize("characters", range(2, len('{"step": 2, "loss": 1.0}\n') + 1))
def test_a_torn_last_line_is_no_record(history, characters):
    for step in range(3):
        history.add(step, {"loss": 1.0})
    tear(history, characters)
    assert [record["step"] for record in read_history(history.path)] == [0, 1]


@pytest.mark.parametrize("characters", [0, 1, 2, 5, 20])
def test_after_a_torn_line_records_go_on_in_a_line_of_their_own(history, characters):
    """Even where all that was torn off is the line's end."""
    history.add(1, {"loss": 2.5})
    history.add(2, {"loss": 2.0})
    tear(history, characters)
    whole = read_history(history.path)
    assert [record["step"] for record in whole] == ([1, 2] if characters < 2 else [1])
    history.forget_after(2)
    history.add(3, {"loss": 1.5})
    assert read_history(history.path) == [*whole, {"step": 3, "loss": 1.5}]


def test_records_of_steps_that_are_made_again_are_dropped(history):
    for step in (10, 20, 20, 30, 40):
        history.add(step, {})
    history.forget_after(20)
    assert [record["step"] for record in read_history(history.path)] == [10, 20, 20]
    assert [path.name for path in history.path.parent.iterdir()] == ["history.jsonl"]
    history.forget_after(0)
    assert read_history(history.path) == []


def test_without_records_there_is_nothing_to_forget(history):
    history.forget_after(5)
    assert not history.path.exists()


def test_another_process_leaves_the_file_alone(history):
    history.add(10, {})
    History(history.path, Mock(is_main_process=False)).forget_after(5)
    assert [record["step"] for record in read_history(history.path)] == [10]
