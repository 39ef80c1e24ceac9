import gc

import pytest

from elmo_hf.runtime.memory import garbage_of_before_stays


class Loop:
    """Garbage that only Python's search for it finds."""

    def __init__(self, found: list[str], name: str):
        self.me, self._found, self._name = self, found, name

    def __del__(self):
        self._found.append(self._name)


@pytest.fixture(autouse=True)
def nothing_frozen():
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_only_new_garbage_is_looked_for_within_and_all_of_it_behind():
    found = []
    Loop(found, "old")
    with garbage_of_before_stays():
        Loop(found, "new")
        gc.collect()
        assert found == ["new"]
    gc.collect()
    assert found == ["new", "old"]


def test_what_somebody_else_has_frozen_stays_so():
    gc.freeze()
    with garbage_of_before_stays():
        pass
    assert gc.get_freeze_count()


def test_it_ends_with_an_error_too():
    with pytest.raises(KeyError), garbage_of_before_stays():
        raise KeyError
    assert not gc.get_freeze_count()
