"""Windows and batches: everything once, in budget, by length."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.embedding.batches import WINDOW, batches, windows

ITEMS = st.lists(st.integers(2, 9).map(lambda size: "x" * size), max_size=40)


@given(ITEMS, st.integers(1, 50))
def test_windows_are_the_items_in_order_and_no_more_than_a_few_batches(items, tokens):
    found = list(windows(items, tokens))
    assert [item for window in found for item in window] == items
    for window in found:
        assert len(window) == 1 or len(list(batches(window, tokens))) <= WINDOW


def test_windows_are_full():
    items = ["x" * (5 + number % 7) for number in range(1000)]
    *full, _ = windows(items, 400)
    assert all(sum(map(len, window)) > 0.95 * WINDOW * 400 for window in full)
    assert [len(list(batches(window, 400))) for window in full] == [WINDOW] * len(full)


@given(ITEMS, st.integers(1, 50))
def test_batches_have_every_item_once_sorted_by_length_and_no_more_tokens_than_allowed(items, tokens):
    found = list(batches(items, tokens))
    places = [place for batch in found for place in batch]
    assert sorted(places) == list(range(len(items)))
    assert [len(items[place]) for place in places] == sorted(map(len, items))
    for batch in found:
        assert len(batch) == 1 or sum(len(items[place]) for place in batch) <= tokens
    for batch, following in pairwise(found):
        assert sum(len(items[place]) for place in [*batch, following[0]]) > tokens
