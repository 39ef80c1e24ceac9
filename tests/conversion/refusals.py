"""What the tests of all converters share: a refusal leaves nothing behind, and any file may be damaged."""

import pytest
from hypothesis import strategies as st

from elmo_hf.conversion import ConversionError


def assert_refused(folder, convert, match: str):
    """`convert(out)` fails with a message, and the folder around `out` looks as before."""
    before = sorted(folder.rglob("*"))
    with pytest.raises(ConversionError, match=match):
        convert(folder / "new" / "out")
    assert sorted(folder.rglob("*")) == before


@st.composite
def damages(draw):
    """Functions that cut bytes short, or overwrite some of them."""
    places = draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=8))
    byte = draw(st.none() | st.integers(0, 255))

    def damage(data: bytes) -> bytes:
        if byte is None:
            return data[: int(places[0] * len(data))]
        damaged = bytearray(data)
        for place in places:
            damaged[int(place * len(data))] = byte
        return bytes(damaged)

    return damage


def make_file(path, content: bytes | str | None):
    """A file with this content; `"folder"`: a folder instead; `None`: nothing."""
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    return path
