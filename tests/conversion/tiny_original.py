"""A published model of a handful of cells: its files, and the folder that describes it."""

import json
from pathlib import Path

import torch

from elmo_hf import ElmoTokenizer
from elmo_hf.conversion import write_bilm_hdf5
from elmo_hf.conversion.bilm_hdf5 import count_parameters
from tests.models import tiny_model

CARD = "---\nlicense: other\n---\n\n# A tiny model\n"
SENTENCES = {"I saw a cat": ["I", "cat"], "uberx": ["uberx"]}


def layer_0_values(model) -> list[list]:
    """Sentence, word and the first component of its vector in layer 0."""
    values = []
    for sentence, words in SENTENCES.items():
        batch = ElmoTokenizer()([sentence.split()], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            layer = model(**batch, output_hidden_states=True).hidden_states[0][0, 1:-1, 0]
        values += [[sentence, word, float(layer[sentence.split().index(word)])] for word in words]
    return values


class TinyOriginal:
    """
    The model, published.

    Attributes:
        model: In fp32.
        options, weights: Its files.
        registry: A folder of published models with this one, `elmo-tiny`, in it.
    """

    def __init__(self, folder: Path):
        self.model = tiny_model()
        self.options, self.weights = folder / "tiny_options.json", folder / "tiny_weights.hdf5"
        write_bilm_hdf5(self.model, self.options, self.weights)
        self.registry = folder / "registry"
        described = self.registry / "elmo-tiny"
        described.mkdir(parents=True)
        self.model.config.save_pretrained(described)
        (described / "README.md").write_text(CARD)
        self.facts = {
            "names": ["2x7_4_12cnn_1xhighway"],
            "files": {
                "weights": {"url": "https://example.org/a/tiny_weights.hdf5", "size": None, "sha256": None},
                "options": {"url": "https://example.org/a/tiny_options.json", "size": None, "sha256": None},
                "vocab": {"url": "https://example.org/a/vocab.txt", "size": None, "sha256": None},
            },
            "parameters": count_parameters(self.model),
            "presumed": [],
            "layer_0": {"source": "its makers", "tolerance": 1e-4, "values": layer_0_values(self.model)},
        }
        self.describe()

    def describe(self):
        """Writes the facts, as they are now."""
        (self.registry / "elmo-tiny" / "original.json").write_text(json.dumps(self.facts))

    def serve(self, server):
        """Puts the files below `server.url/mirror`."""
        for path in (self.options, self.weights):
            server.files[f"mirror/{path.name}"] = path.read_bytes()
        server.files["mirror/vocab.txt"] = b"<S>\n</S>\n<UNK>\nthe\n"
        return f"{server.url}/mirror"
