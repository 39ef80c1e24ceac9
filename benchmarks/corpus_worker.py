"""A side of `benchmarks.corpus`, run as a worker in its environment: text in, a file of vectors out."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import worker
from benchmarks.peers import peak_memory, serve

BATCH = 64  # sentences, in order of arrival: AllenNLP's default, and what the TensorFlow graph has room for


class Ours(worker.Ours):
    """`elmo_hf.embedding.embed_corpus`, which is `elmo-hf embed`."""

    def load(self, folder: Path) -> dict[str, Any]:
        from elmo_hf import ElmoEmbedder, ElmoTokenizer

        facts = super().load(folder)
        self.embedder = ElmoEmbedder(self.model, ElmoTokenizer.from_pretrained(folder))
        return facts

    def embed(self, text: str, out: str):
        """All layers of all words, in AllenNLP's layout."""
        from elmo_hf.corpus import embed_corpus

        embed_corpus([text], out, embedder=self.embedder, layers="all", pretokenized=True, progress=False)


class AllenNLP(worker.AllenNLP):
    """Batches of sentences through `batch_to_ids` and `Elmo`, as the archived library's users did."""

    def embed(self, text: str, out: str):
        """All layers of all words, in AllenNLP's layout."""
        from simple_elmo_pytorch.models.elmo import batch_to_ids

        def batches():
            for sentences in _batches(text):
                ids = batch_to_ids(sentences).numpy()
                yield sentences, np.stack(self.layers(worker.Batch(ids, ids, ids)), axis=1)

        _write(out, batches())


class TensorFlow(worker.TensorFlow):
    """Batches of sentences through simple_elmo's batcher and one session."""

    def embed(self, text: str, out: str):
        """All layers of all words, in AllenNLP's layout."""

        def batches():
            for sentences in _batches(text):
                ids = self.model.batcher.batch_sentences(sentences)
                yield sentences, self.run(worker.Batch(ids, ids, ids))[1]

        _write(out, batches())


def _batches(text: str) -> Iterator[list[list[str]]]:
    with open(text, encoding="utf-8") as file:
        batch = []
        for line in file:
            batch.append(line.split())
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch


def _write(out: str, batches: Iterator[tuple[list[list[str]], np.ndarray]]):
    """Layers `(batch, layers, words, size)` as AllenNLP's `elmo` command wrote them."""
    import h5py

    with h5py.File(out, "w") as file:
        sentence_index = 0
        for sentences, layers in batches:
            for words, vectors in zip(sentences, layers, strict=True):
                file.create_dataset(str(sentence_index), data=vectors[:, : len(words)])
                sentence_index += 1


class Commands:
    """What the worker answers."""

    def __init__(self, side: Any):
        self.side = side

    def load(self, folder: str) -> dict[str, Any]:
        """Imports, builds the model, and tells what it runs on."""
        self.side.imports()
        return self.side.load(Path(folder))

    def embed(self, text: str, out: str) -> dict[str, Any]:
        """Seconds from the text's file to that of the vectors."""
        begin = time.perf_counter()
        self.side.embed(text, out)
        return {"seconds": time.perf_counter() - begin}

    def products(self, text: str, out: str) -> dict[str, Any]:
        """The share of that time that is inside matrix products. On PyTorch only."""
        from benchmarks.timed_products import TimedProducts

        with TimedProducts() as products:
            whole = self.embed(text, out)["seconds"]
        return {"share": products.seconds / whole}


if __name__ == "__main__":
    side = {"ours": Ours, "allennlp": AllenNLP, "tensorflow": TensorFlow}[sys.argv[1]](**json.loads(sys.argv[2]))
    commands = Commands(side)
    serve({answer.__name__: answer for answer in (commands.load, commands.embed, commands.products, peak_memory)})
