"""Loads the included model and compares its vectors of words with several meanings."""

import tempfile
import time
from pathlib import Path

from transformers.utils import logging

from ..embedding import ElmoEmbedder
from ..index import ElmoIndex
from ..runtime.extras import missing
from .picture import draw_uses
from .senses import EXAMPLES, Uses, find_uses, layer_names, mark, nearest_sense, read_text, similarities

PICTURE, DRAWN = Path("demo.png"), "palm"  # the word that the model tells apart best


def print_table(names: list[str], rows: dict[str, list[float]]):
    """Prints numbers with the names of columns and rows."""
    print(" " * 24 + "".join(f"{name:>9}" for name in names))
    for title, values in rows.items():
        print(f"{title:<24}" + "".join(f"{value:9.2f}" for value in values))


def print_similarities(examples: dict[str, Uses]):
    """Prints the similarity of a word's vectors in sentences of the same and of different senses."""
    print("\nONE WORD, TWO MEANINGS")
    print("Cosine of the word's vectors in two sentences. Layer 0 sees the word alone, the others its sentence too.")
    for uses in examples.values():
        print()
        for index, (sense, use) in enumerate(zip(uses.senses, uses.occurrences, strict=True)):
            print(f"{sense + f' {uses.senses[:index].count(sense) + 1}':<12}{mark(use)}")
        print()
        print_table(layer_names(uses), similarities(uses))


def print_neighbours(embedder: ElmoEmbedder, examples: dict[str, Uses], sentences: list[str]):
    """Prints the uses of a word in the text that are most similar to its use in another sentence."""
    print("\nNEAREST NEIGHBOURS")
    print(f"For a word in a sentence: its most similar uses in a text of {len(sentences)} sentences.")
    with tempfile.TemporaryDirectory() as folder:
        index = ElmoIndex.build(embedder, sentences, folder, words=list(examples))
        for uses in examples.values():
            for sense in dict.fromkeys(uses.senses):
                use = uses.occurrences[uses.senses.index(sense)]
                print(f"\n{mark(use)}")
                for similarity, neighbour in embedder.neighbors(mark(use, "**", "**"), index, k=3, same_word=True):
                    print(f"  {similarity:.2f}  {mark(neighbour)}")


def print_nearest_senses(text: dict[str, Uses]):
    """Prints how often the nearest use has the same meaning."""
    print("\nMEANINGS TOLD APART")
    print("How often the most similar other use of the word in the text has the same meaning; by chance it is half.\n")
    rows = {f"{word}, {len(uses.senses)} uses": nearest_sense(uses).tolist() for word, uses in text.items()}
    print_table(layer_names(text[DRAWN]), rows)


def draw(uses: Uses):
    """Draws the uses of a word as points."""
    print("\nPICTURE")
    draw_uses(uses, PICTURE)
    print(f"{PICTURE.resolve()}: “{DRAWN}” in {len(uses.senses)} sentences")


def main():
    """Runs the demo."""
    logging.disable_progress_bar()
    start = time.perf_counter()
    if no_picture := missing("picture"):
        print(f"There will be no picture. {no_picture}\n")
    embedder = ElmoEmbedder.from_pretrained()
    name, size = Path(embedder.model.name_or_path).name, embedder.model.num_parameters()
    print(f"{name}: an English ELMo of {size:,} parameters, loaded offline with\nElmoEmbedder.from_pretrained().")
    examples = {word: find_uses(embedder, word, senses) for word, senses in EXAMPLES.items()}
    text = read_text()
    print_similarities(examples)
    print_neighbours(
        embedder, examples, [line for senses in text.values() for part in senses.values() for line in part]
    )
    uses_in_text = {word: find_uses(embedder, word, senses) for word, senses in text.items()}
    print_nearest_senses(uses_in_text)
    if not no_picture:
        draw(uses_in_text[DRAWN])
    print(f"\n{time.perf_counter() - start:.1f} seconds in all.")


if __name__ == "__main__":
    main()
