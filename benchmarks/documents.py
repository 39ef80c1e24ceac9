"""
A document of any length, embedded in pieces: the words forward from the first piece to the last and backward from the
last to the first, each direction with its own state, into files. Equal to one call on the whole document, in memory
that does not grow with it.

As a worker this module embeds documents with the model that comes with the package.
"""

import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

import elmo_hf
from benchmarks.peers import peak_memory, serve
from benchmarks.texts import character_ids, read_words
from elmo_hf import ElmoModel

WORDS_PER_PIECE = 512


@torch.inference_mode()
def embed_document(model: ElmoModel, words: list[str], folder: Path, piece: int = WORDS_PER_PIECE):
    """
    Writes `forward.bin` and `backward.bin`, the mixed vectors of all words and of the boundaries, `(words + 2, size)`
    in fp32 each.
    """
    bounds = list(itertools.pairwise([*range(0, len(words), piece), len(words)])) or [(0, 0)]
    for direction, order in (("forward", bounds), ("backward", bounds[::-1])):
        state = None
        with open(folder / f"{direction}.bin", "wb") as file:
            for begin, end in order:
                # The document's boundaries are in its first and last piece.
                char_ids = character_ids([words[begin:end]], boundaries=True)
                first, last = begin > 0, char_ids.shape[1] - (end < len(words))
                output = model(
                    char_ids=torch.from_numpy(char_ids[:, first:last]),
                    directions=direction,
                    initial_state=state,
                    output_states=True,
                )
                state, vectors = output.states, output.last_hidden_state[0].float().numpy()
                file.seek((begin + first) * vectors[0].nbytes)
                vectors.tofile(file)


class Documents:
    """The worker's commands."""

    def load(self) -> dict[str, Any]:
        """The model that comes with the package."""
        logging.disable_progress_bar()
        self.model = ElmoModel.from_pretrained(elmo_hf.default_model()).eval()
        return peak_memory()

    def embed(self, words: int) -> dict[str, Any]:
        """Seconds and largest resident size for a document of so many words."""
        text = read_words(words)
        peak_memory()
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            embed_document(self.model, text, Path(folder))
            return {"seconds": time.perf_counter() - begin, **peak_memory()}


if __name__ == "__main__":
    documents = Documents()
    serve({"load": documents.load, "embed": documents.embed})
