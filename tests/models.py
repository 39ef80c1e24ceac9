"""Small models for tests, and the reference that belongs to each."""

import json

import numpy as np
import torch
from hypothesis import strategies as st

from elmo_hf import ElmoConfig, ElmoModel
from elmo_hf.conversion.bilm_hdf5 import bilm_views
from elmo_hf.modeling.modeling_elmo import DIRECTIONS
from tests.reference import ReferenceBiLm

TINY = {
    "vocab_size": 20,
    "char_embedding_size": 3,
    "char_filters": [[1, 4], [2, 3], [3, 5]],
    "num_highway_layers": 1,
    "cell_size": 7,
    "projection_size": 4,
    "dropout": 0.0,
}


def tiny_model(seed: int = 0, scale: float = 1.0, **fields) -> ElmoModel:
    """A model of a handful of cells in evaluation mode; `scale` makes its weights larger, so that clipping matters."""
    torch.manual_seed(seed)
    model = ElmoModel(ElmoConfig(**(TINY | fields))).eval()
    with torch.no_grad():
        for layer in model.layers:
            layer.bias.normal_(std=0.5)
            for weight in (layer.input_weight, layer.recurrent_weight, layer.projection_weight):
                if weight is not None:
                    weight.mul_(scale)
    return model


def reference_of(model: ElmoModel) -> ReferenceBiLm:
    """The obvious implementation over the same weights, through the original's array layout."""
    config = model.config
    return ReferenceBiLm(
        arrays={name: torch.cat(views).double().numpy() for name, views in bilm_views(model).items()},
        num_layers=config.num_hidden_layers,
        cell_clip=config.cell_clip,
        projection_clip=config.projection_clip,
        skip_connections=config.skip_connections,
        activation=config.char_activation,
        forget_bias=config.forget_bias,
        directions=tuple(DIRECTIONS[config.directions]),
    )


def random_words(generator: np.random.Generator, rows: int, words: int, slots: int = 50) -> torch.Tensor:
    """Character rows `(rows, words, slots)` of random words; some words repeat, as in text."""
    spelled = np.full((rows, words, slots), 261)
    spelled[..., 0] = 259
    lengths = generator.integers(0, slots - 2, (rows, words), endpoint=True)
    for row in range(rows):
        for word in range(words):
            length = lengths[row, word]
            spelled[row, word, 1 : length + 1] = generator.integers(1, 256, length, endpoint=True)
            spelled[row, word, length + 1] = 260
            if word and generator.random() < 0.3:
                spelled[row, word] = spelled[row, word - 1]
    return torch.from_numpy(spelled)


# Every switch of the model, small.
configurations = st.fixed_dictionaries(
    {
        "num_hidden_layers": st.integers(1, 3),
        "cell_size": st.integers(4, 6),
        "projection_size": st.sampled_from([None, 2, 4]),
        "cell_clip": st.sampled_from([None, 0.3, 3.0]),
        "projection_clip": st.sampled_from([None, 0.2, 3.0]),
        "skip_connections": st.booleans(),
        "directions": st.sampled_from(["both", "forward", "backward"]),
        "char_filters": st.lists(st.tuples(st.integers(1, 6), st.integers(1, 4)).map(list), min_size=1, max_size=3),
        "char_activation": st.sampled_from(["relu", "tanh"]),
        "num_highway_layers": st.integers(0, 2),
        "token_inputs": st.sampled_from(["characters", "words", "both"]),
        "max_characters_per_token": st.integers(6, 12),
        "forget_bias": st.sampled_from([0.0, 1.0]),
    }
)


def edit_config(folder, **fields):
    """Changes fields of a saved model's config."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
