"""Loads a model and compares its vectors of words with several meanings."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from transformers.utils import logging

from ..embedding import ElmoEmbedder
from ..errors import ModelError
from ..index import ElmoIndex
from ..runtime.default_model import default_model
from ..runtime.extras import missing
from .picture import draw_uses, find_font
from .senses import Uses, find_uses, layer_names, mark, nearest_sense, similarities
from .texts import TEXTS

PICTURE = Path("demo.png")
LANGUAGES = {"en": "an English", "zh": "a Chinese"}


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
    print_table(layer_names(next(iter(text.values()))), rows)


def draw(uses: Uses):
    """Draws the uses of a word as points."""
    print("\nPICTURE")
    word = uses.occurrences[0].word
    if find_font(word) is None:
        print(f"None: no font on this machine has the characters of “{word}” (Debian's fonts-noto-cjk has them).")
        return
    draw_uses(uses, PICTURE)
    print(f"{PICTURE.resolve()}: “{word}” in {len(uses.senses)} sentences")


def run(model: str | None, language: str):
    """
    Runs the demo.

    Args:
        model: A folder or a name on the Hub. Default: the model of the language that comes with this package.
        language: A key of `TEXTS`.
    """
    start = time.perf_counter()
    if no_picture := missing("picture"):
        print(f"There will be no picture. {no_picture}\n")
    embedder = ElmoEmbedder.from_pretrained(default_model(language) if model is None else model)
    name, size = Path(embedder.model.name_or_path).name, embedder.model.num_parameters()
    print(
        f"{name}: {LANGUAGES[language]} ELMo of {size:,} parameters, loaded offline with\n"
        "ElmoEmbedder.from_pretrained()."
    )
    texts = TEXTS[language]
    text = texts.read()
    examples = {word: find_uses(embedder, word, senses) for word, senses in texts.examples.items()}
    print_similarities(examples)
    print_neighbours(embedder, examples, texts.sentences())
    uses_in_text = {word: find_uses(embedder, word, senses) for word, senses in text.items()}
    print_nearest_senses(uses_in_text)
    if not no_picture:
        draw(uses_in_text[texts.drawn])
    print(f"\n{time.perf_counter() - start:.1f} seconds in all.")


def main():
    """Reads the options and runs the demo."""
    parser = argparse.ArgumentParser(prog="python -m elmo_hf.demo", description=__doc__)
    parser.add_argument("--language", choices=TEXTS, default="en", help="language of the sentences (default: en)")
    parser.add_argument("--model", help="a model folder or a name on the Hub (default: the language's own model)")
    options = parser.parse_args()
    logging.disable_progress_bar()
    try:
        run(options.model, options.language)
    except ModelError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
