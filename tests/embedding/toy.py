"""A small embedder, and what it must give: each sentence alone, through the model itself."""

import numpy as np
import torch

from elmo_hf import ElmoModel, ElmoTokenizer
from elmo_hf.embedding import ElmoEmbedder
from tests.models import tiny_model

WORDS = ["the", "bank", "river", "n't", "Zürich", "宝玉", "a", "", "<S>", ".", "supercalifragilistic"]
TOKENIZER = ElmoTokenizer(["<S>", "</S>", "<UNK>", *(word for word in WORDS[:7])])


def toy_embedder(**fields) -> ElmoEmbedder:
    return ElmoEmbedder(tiny_model(**fields), TOKENIZER)


def layers_alone(model: ElmoModel, sentence) -> np.ndarray:
    """All layers of one sentence with its boundaries, `(layers, tokens, hidden_size)`, and their mix as a last one."""
    batch = TOKENIZER(sentence, is_split_into_words=not isinstance(sentence, str), return_tensors="pt")
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
    return torch.cat([*output.hidden_states, output.last_hidden_state]).float().numpy()
