# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""The vectors of words that were met before: the character encoder sees each word once."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable

import torch

from .precision_elmo import packed_dtype, product_dtype
from .products_elmo import WeightState, weight_state


class WordCache:
    """
    Token vectors by the words' ids. When it is full, the words that were not used for longest make room.

    Args:
        capacity (`int`): Words to keep.
        size (`int`): Numbers in a vector.
    """

    def __init__(self, capacity: int, size: int):
        if capacity < 1:
            raise ValueError(f"A cache holds 1 word or more, asked for {capacity}.")
        self.capacity, self.size = capacity, size
        self._lock = threading.Lock()
        self.clear()

    def clear(self):
        """Forgets all words."""
        self._places: OrderedDict[bytes, int] = OrderedDict()  # the word used last comes last
        self._vectors = torch.empty(self.capacity, self.size)  # memory that is taken as it fills
        self._states: list[WeightState] = []

    def __len__(self) -> int:
        return len(self._places)

    def __deepcopy__(self, memo) -> "WordCache":
        return WordCache(self.capacity, self.size)

    def __reduce__(self):
        return WordCache, (self.capacity, self.size)

    @torch.compiler.disable  # what it does depends on the words it has
    def vectors(
        self,
        words: torch.Tensor,
        encode: Callable[[torch.Tensor], torch.Tensor],
        weights: Iterable[torch.Tensor],
    ) -> torch.Tensor:
        """
        Args:
            words: `(words, columns)`, integers; distinct.
            encode: Gives the vectors of some of them.
            weights: What the vectors are made with. When they have changed, the cache starts anew.

        Returns:
            `(words, size)`
        """
        keys = [row.tobytes() for row in words.to(torch.int32).numpy()]
        states = [weight_state(weight, product_dtype(weight), packed_dtype(weight)) for weight in weights]
        vectors = torch.empty(len(keys), self.size)
        with self._lock:
            if states != self._states:
                self.clear()
                self._states = states
            known = [number for number, key in enumerate(keys) if key in self._places]
            vectors[known] = self._vectors[[self._places[keys[number]] for number in known]]
            for number in known:
                self._places.move_to_end(keys[number])
        known = set(known)
        new = [number for number in range(len(keys)) if number not in known]
        if new:
            vectors[new] = encode(words[new]).float()
            with self._lock:
                if self._states == states:
                    self._keep([keys[number] for number in new[-self.capacity :]], vectors[new[-self.capacity :]])
        return vectors

    def _keep(self, keys: list[bytes], vectors: torch.Tensor):
        places = []
        for key in keys:
            place = self._places.pop(key, None)  # another thread may have been faster
            if place is None:
                place = len(self._places) if len(self._places) < self.capacity else self._places.popitem(last=False)[1]
            self._places[key] = place
            places.append(place)
        self._vectors[places] = vectors


__all__ = ["WordCache"]
