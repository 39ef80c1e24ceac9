import gc

import pytest

from elmo_hf.runtime.memory import freeze_existing_objects


class Loop:
    """Garbage that only Python's search for it finds."""

    def __init__(self, freed: list[str], name: str):
        self.me, self._freed, self._name = self, freed, name

    def __del__(self):
        self._freed.append(self._name)


@pytest.fixture(autouse=True)
def nothing_frozen():
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_only_new_garbage_is_looked_for_within_and_all_of_it_behind():
    freed = []
    Loop(freed, "old")
    with freeze_existing_objects():
        Loop(freed, "new")
        gc.collect()
        assert freed == ["new"]
    gc.collect()
    assert freed == ["new", "old"]


def test_what_somebody_else_has_frozen_stays_so():
    gc.freeze()
    with freeze_existing_objects():
        pass
    assert gc.get_freeze_count()


def test_it_ends_with_an_error_too():
    with pytest.raises(KeyError), freeze_existing_objects():
        raise KeyError
    assert not gc.get_freeze_count()
