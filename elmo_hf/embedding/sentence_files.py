"""What makes a model's folder one of sentence-transformers."""

import json
import os
from pathlib import Path

from ..errors import FolderError
from ..modeling.modeling_elmo import ElmoModel
from ..runtime.staging import write_atomically

SENTENCE_FILES = ("config_sentence_transformers.json", "sentence_bert_config.json", "modules.json")
TRANSFORMER = "sentence_transformers.base.modules.transformer.Transformer"
METHODS = {"mean": ElmoModel.mean_of_words.__name__, "max": ElmoModel.max_of_words.__name__}


def write_sentence_files(folder: str | os.PathLike, pooling: str = "mean"):
    """
    Lets `SentenceTransformer(folder)` give the vectors that [`ElmoEmbedder.embed`] gives with this pooling; by itself
    the library would pool the boundaries too. Its own `Transformer` calls the model's method that pools, so that there
    is no class of ours that it would have to be told to trust.

    Args:
        folder: A saved model's.
        pooling: `"mean"` or `"max"`.
    """
    if pooling not in METHODS:
        raise ValueError(f"`pooling` must be {' or '.join(map(repr, METHODS))}, found {pooling!r:.60}.")
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
        [{"idx": 0, "name": "0", "path": "", "type": TRANSFORMER}],  # the last: from then on it is one of the library's
    ]
    for name, content in zip(SENTENCE_FILES, contents, strict=True):
        write_atomically(folder / name, json.dumps(content, indent=2) + "\n")


__all__ = ["SENTENCE_FILES", "write_sentence_files"]
