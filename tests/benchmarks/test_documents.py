"""A document in pieces has the vectors of the whole."""

import numpy as np
import pytest
import torch

from benchmarks.documents import embed_document
from benchmarks.texts import character_ids
from tests.models import tiny_model

WORDS = ["the", "harbour", "was", "empty", "when", "we", "came", "down", "to", "it"]


@pytest.mark.parametrize(("count", "piece"), [(0, 1), (7, 3), (10, 1), (10, 20)])
def test_pieces_equal_the_whole(count, piece, tmp_path):
    model = tiny_model()
    embed_document(model, WORDS[:count], tmp_path, piece)
    whole = torch.from_numpy(character_ids([WORDS[:count]], boundaries=True))
    for direction in ("forward", "backward"):
        with torch.no_grad():
            expected = model(char_ids=whole, directions=direction).last_hidden_state[0].numpy()
        vectors = np.fromfile(tmp_path / f"{direction}.bin", dtype=np.float32).reshape(count + 2, -1)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
