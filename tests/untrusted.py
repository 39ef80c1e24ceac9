"""Folders and files as somebody makes them who means harm, or whom the network has cut short."""

import json
import pickle
from pathlib import Path

from hypothesis import strategies as st

from elmo_hf import ElmoTokenizer
from tests.models import tiny_model

# What may stand anywhere in a JSON file.
ANYTHING = [None, True, 0, -1, 1.5, 10**12, 10**400, float("inf"), float("nan"), "", "x", "../x", [], [1], {}, {"a": 1}]


def save_tiny_folder(folder: Path) -> Path:
    """A model of a handful of cells, and its tokenizer."""
    tokenizer = ElmoTokenizer().train_new_from_iterator(["the cat sat on the mat ."], vocab_size=20)
    tiny_model(vocab_size=tokenizer.vocab_size).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def evil_pickle(marker: Path) -> bytes:
    """A pickle that makes a file when it is read."""

    class Evil:
        def __reduce__(self):
            return open, (str(marker), "w")

    return pickle.dumps(Evil())


def header_of(weights: bytes) -> tuple[dict, bytes]:
    """The header of a safetensors file, and what follows."""
    end = 8 + int.from_bytes(weights[:8], "little")
    return json.loads(weights[8:end]), weights[end:]


def with_header(header: dict, data: bytes) -> bytes:
    """A safetensors file with any header."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def damaged_bytes(content: bytes, end: int | None = None) -> st.SearchStrategy[bytes]:
    """The content cut, or with a few other bytes before `end`."""
    place = st.integers(0, (end or len(content)) - 1)

    def change(places: dict[int, int]) -> bytes:
        changed = bytearray(content)
        for where, byte in places.items():
            changed[where] = byte
        return bytes(changed)

    cut = place.map(lambda length: content[:length])
    return cut | st.dictionaries(place, st.integers(0, 255), min_size=1, max_size=3).map(change)


def damaged_json(document: dict) -> st.SearchStrategy[dict]:
    """The document with something else in one place, at any depth."""
    return st.tuples(st.sampled_from(json_places(document)), st.sampled_from(ANYTHING)).map(
        lambda change: replaced(document, *change)
    )


def json_places(document, path: tuple = ()) -> list[tuple]:
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [path] * bool(path) + [place for key, value in inner for place in json_places(value, (*path, key))]


def replaced(document, path: tuple, value):
    if not path:
        return value
    copied = document.copy()
    copied[path[0]] = replaced(document[path[0]], path[1:], value)
    return copied
