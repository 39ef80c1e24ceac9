"""The files that let sentence-transformers load a model's folder."""

import json
import os
from pathlib import Path

from ..errors import FolderError
from ..modeling.modeling_elmo import ElmoModel
from ..runtime.staging import write_atomically

SENTENCE_FILES = ("config_sentence_transformers.json", "sentence_bert_config.json", "modules.json")
"""The files that make a model's folder a model of sentence-transformers."""
TRANSFORMER = "sentence_transformers.base.modules.transformer.Transformer"
METHODS = {
    "mean": ElmoModel.mean_of_words.__name__,
    "max": ElmoModel.max_of_words.__name__,
    "sentence": ElmoModel.sentence_vectors.__name__,
}


def write_sentence_files(folder: str | os.PathLike, pooling: str = "mean"):
    """
    Makes `SentenceTransformer(folder)` give the vectors that [`ElmoEmbedder.embed`] gives with this pooling. The
    library's own pooling would include the boundaries, so its `Transformer` module calls the model's pooling method.
    No class of this package is involved that the user would have to trust.

    Args:
        folder: The folder of a saved model.
        pooling: `"mean"`, `"max"`, or `"sentence"` for a model that has it.
    """
    if pooling not in METHODS:
        raise ValueError(f"`pooling` must be one of {', '.join(map(repr, METHODS))}, found {pooling!r:.60}.")
    folder = Path(folder)
    if not (folder / "config.json").exists():
        raise FolderError(f"{folder} holds no config.json: save a model there first.")
    contents = [
        {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine"},
        {
            "transformer_task": "feature-extraction",
            "modality_config": {"text": {"method": METHODS[pooling], "method_output_name": None}},
            "module_output_name": "sentence_embedding",
        },
        [{"idx": 0, "name": "0", "path": "", "type": TRANSFORMER}],  # written last: it marks the folder as complete
    ]
    for name, content in zip(SENTENCE_FILES, contents, strict=True):
        write_atomically(folder / name, json.dumps(content, indent=2) + "\n")


__all__ = ["SENTENCE_FILES", "write_sentence_files"]
