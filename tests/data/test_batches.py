"""Windows and batches: everything once, in budget, by length."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.data.batches import SHORT, WINDOW, batches, windows

ITEMS = st.lists(st.integers(2, 9).map(lambda size: "x" * size), max_size=40)


@given(ITEMS, st.integers(1, 50))
def test_windows_are_the_items_in_order_and_end_when_they_are_full(items, tokens):
    all_windows = list(windows(items, tokens))
    assert [item for window in all_windows for item in window] == items
    for window in all_windows[:-1]:
        assert sum(map(len, window)) >= WINDOW * (tokens - tokens // SHORT) - tokens // SHORT
    for window in all_windows:
        assert sum(map(len, window[:-1])) < WINDOW * tokens


@given(st.lists(st.integers(1, 50).map(lambda size: "x" * size), max_size=300))
def test_of_short_items_no_small_batch_is_left_over(items):
    *full, _ = [*windows(items, 50 * SHORT), []]
    for window in full:
        assert len(list(batches(window, 50 * SHORT))) <= WINDOW


def test_a_long_item_does_not_end_the_window_of_short_ones_before_it():
    items = ["x" * size for size in [20, 20, 20, 5000] * 50]
    assert max(map(len, windows(items, 4096))) > 12


@given(ITEMS, st.integers(1, 50))
def test_batches_have_every_item_once_sorted_by_length_and_no_more_tokens_than_allowed(items, tokens):
    all_batches = list(batches(items, tokens))
    places = [place for batch in all_batches for place in batch]
    assert sorted(places) == list(range(len(items)))
    assert [len(items[place]) for place in places] == sorted(map(len, items))
    for batch in all_batches:
        assert len(batch) == 1 or sum(len(items[place]) for place in batch) <= tokens
    for batch, following in pairwise(all_batches):
        assert sum(len(items[place]) for place in [*batch, following[0]]) > tokens
