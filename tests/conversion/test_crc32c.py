"""The checksum in NumPy is CRC-32C, at every length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.conversion import crc32c as module
from elmo_hf.conversion.crc32c import crc32c, masked_crc32c
from tests.conversion import tf_checkpoint_writer as plain


def test_the_published_values():
    """RFC 3720, B.4, and the check value of the catalogues."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"") == 0


@given(st.binary(max_size=300))
def test_it_is_the_sum_of_one_bit_at_a_time(data):
    assert crc32c(data) == plain.crc32c(data)
    assert masked_crc32c(data) == plain.masked(data)


@pytest.mark.parametrize("length", [63, 64, 65, 127, 128, 129, 400, 511, 513, 1024, 4000])
def test_more_than_one_round_of_lanes(length, monkeypatch):
    monkeypatch.setattr(module, "LANES", 4)
    monkeypatch.setattr(module, "MAX_WORDS_PER_LANE", 8)
    data = np.random.default_rng(length).integers(0, 256, length, dtype=np.uint8)
    assert crc32c(data) == plain.crc32c(data.tobytes())
