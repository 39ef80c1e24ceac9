"""Loads the model that comes with the package, and shows what its vectors tell about words with several meanings."""

import time
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging

from .. import ElmoModel, default_model
from .senses import SENSES, mark, nearest, read_sentences, similarity_table


def print_similarities(model: ElmoModel, tokenizer: PreTrainedTokenizerBase):
    """How alike a word's vectors are in sentences of the same and of different senses."""
    print("\nONE WORD, TWO MEANINGS")
    print("Cosine of the word's vectors in two sentences. Layer 0 sees the word alone, the others its sentence too.")
    for word, senses in SENSES.items():
        print()
        for sense, sentences in senses.items():
            for number, sentence in enumerate(sentences, start=1):
                print(f"{sense + f' {number}':<12}{mark(sentence, word)}")
        print(f"\n{similarity_table(model, tokenizer, word, senses)}")


def print_neighbours(model: ElmoModel, tokenizer: PreTrainedTokenizerBase, text: list[str]):
    """Where in a text a word is most like the same word in another sentence."""
    print("\nNEAREST NEIGHBOURS")
    print(f"For a word in a sentence: its most similar uses in a text of {len(text)} sentences (top layer).")
    for word, senses in SENSES.items():
        for sentences in senses.values():
            print(f"\n{mark(sentences[0], word)}")
            for neighbour in nearest(model, tokenizer, word, sentences[0], text, count=3):
                print(f"  {neighbour.similarity:.2f}  {mark(neighbour.sentence, word)}")


def main():
    """The demo."""
    logging.disable_progress_bar()
    start = time.perf_counter()
    folder = default_model()
    model: ElmoModel = AutoModel.from_pretrained(folder)
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)  # ty: ignore[invalid-assignment]
    print(f"{Path(folder).name}: an English ELMo of {model.num_parameters():,} parameters, loaded offline with")
    print("AutoModel.from_pretrained(elmo_hf.default_model()).")
    with torch.no_grad():
        print_similarities(model, tokenizer)
        print_neighbours(model, tokenizer, read_sentences())
    print(f"\n{time.perf_counter() - start:.1f} seconds in all.")


if __name__ == "__main__":
    main()
