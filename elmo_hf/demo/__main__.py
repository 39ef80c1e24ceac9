"""Trains, saves, loads again, shows."""

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging

from .. import ElmoModel, ElmoTokenizer
from .senses import NEW_SENTENCES, mark, nearest, similarity_table
from .training import Losses, build_model, evaluate, read_sentences, train

EPOCHS = 50


def train_and_save(text: list[str], folder: Path):
    """Trains tokenizer and model on the text, saying what they are and what they learned, and saves both."""
    torch.manual_seed(0)
    tokenizer = ElmoTokenizer().train_new_from_iterator(text, vocab_size=5000)
    model, softmax = build_model(tokenizer.vocab_size)
    print(f"A tiny ELMo of {model.num_parameters():,} parameters, trained from scratch on {len(text)} short sentences.")
    print("Enough to see what contextual vectors are, too little to use them.\n")
    start = evaluate(model, softmax, tokenizer, text)
    train(model, softmax, tokenizer, text, EPOCHS)
    print_losses(start, evaluate(model, softmax, tokenizer, text))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def print_losses(start: Losses, end: Losses):
    """How well each direction guesses the next word, before and after training."""
    print("\nLoss per word on the training text     start    end")
    for direction in Losses._fields:
        before, after = getattr(start, direction).item(), getattr(end, direction).item()
        print(f"  {direction:<34}{before:8.2f}{after:7.2f}")


def print_similarities(model: ElmoModel, tokenizer: PreTrainedTokenizerBase):
    """How alike a word's vectors are in sentences that the model has not read."""
    print("\nTHE SAME WORD IN NEW SENTENCES")
    print("Cosine of its vectors, two sentences at a time. Layer 0 sees the word alone, the others its sentence too.")
    print("Shown are three of the text's five ambiguous words; for match and bank so small a model does less well.")
    for word, senses in NEW_SENTENCES.items():
        print()
        for sense, sentences in senses.items():
            for number, sentence in enumerate(sentences, start=1):
                print(f"{sense + f' {number}':<10}{mark(sentence, word)}")
        print(f"\n{similarity_table(model, tokenizer, word, senses)}")


def print_neighbours(model: ElmoModel, tokenizer: PreTrainedTokenizerBase, text: list[str]):
    """Where in the text a word is most like the same word in a new sentence."""
    print("\nITS NEAREST RELATIVES IN THE TRAINING TEXT (top layer)")
    for word, senses in NEW_SENTENCES.items():
        for sentences in senses.values():
            print(f"\n{mark(sentences[0], word)}")
            for neighbour in nearest(model, tokenizer, word, sentences[0], text, count=3):
                print(f"  {neighbour.similarity:.2f}  {mark(neighbour.sentence, word)}")


def main():
    parser = argparse.ArgumentParser(prog="python -m elmo_hf.demo", description="Contextual vectors in a minute.")
    parser.add_argument("--out", type=Path, default=Path(".demo/model"), help="folder to save the model in")
    folder = parser.parse_args().out

    logging.disable_progress_bar()  # of saving and loading; the training's stays
    torch.set_num_threads(1)  # matrices this small are no faster with more

    text = read_sentences()
    train_and_save(text, folder)
    model: ElmoModel = AutoModel.from_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    print(f"\nSaved to {folder}, and loaded from there with AutoModel and AutoTokenizer for all that follows.")
    print_similarities(model, tokenizer)
    print_neighbours(model, tokenizer, text)


if __name__ == "__main__":
    main()
