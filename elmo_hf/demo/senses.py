"""One word in several sentences: how alike its vectors are, layer by layer, and where in a text they are nearest."""

import re
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn.functional import normalize
from transformers import PreTrainedTokenizerBase

from .. import ElmoModel

TEXT = Path(__file__).with_name("text.txt")

# Word → sense → sentences. None of them is in the text.
SENSES = {
    "bank": {
        "river": [
            "They sat on the bank and watched the boats on the river.",
            "The stream had washed away part of the bank near the old mill.",
        ],
        "money": [
            "The bank refused to lend the company any more money.",
            "She opened an account at the bank with her first wages.",
        ],
    },
    "spring": {
        "season": [
            "In early spring the roses in our garden bloom.",
            "Every spring the birds sing in the apple trees.",
        ],
        "metal": [
            "The mechanic found a rusty spring inside the machine.",
            "There is a strong metal spring under the lid.",
        ],
    },
    "match": {
        "game": [
            "Our team won the match by two goals to one.",
            "The referee stopped the match because of the rain.",
        ],
        "fire": [
            "He struck a match and lit the lamp.",
            "She held the burning match to the candle.",
        ],
    },
}


class Neighbour(NamedTuple):
    """A sentence of the text, and how alike the word's vectors are there and here."""

    similarity: float
    sentence: str


def read_sentences() -> list[str]:
    """The demo's text, one sentence a line."""
    return TEXT.read_text(encoding="utf-8").splitlines()


def contains(sentence: str, word: str) -> bool:
    """Whether the sentence has exactly this word."""
    return re.search(rf"\b{word}\b", sentence) is not None


def mark(sentence: str, word: str) -> str:
    """The sentence with the word in brackets."""
    return re.sub(rf"\b{word}\b", f"[{word}]", sentence)


@torch.no_grad()
def vectors_of_word(
    model: ElmoModel, tokenizer: PreTrainedTokenizerBase, word: str, sentences: list[str]
) -> torch.Tensor:
    """
    The word's unit vectors where it first stands in each sentence, so that their products are cosines.

    Returns:
        `(layers + 2, sentences, hidden_size)`: the token layer, the recurrent layers, their mix.
    """
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    output = model(**batch, output_hidden_states=True)
    layers = torch.stack([*output.hidden_states, output.last_hidden_state])  # (layers + 2, sentences, words, size)
    places = torch.tensor([batch.tokens(row).index(word) for row in range(len(sentences))])
    return normalize(layers[:, torch.arange(len(sentences)), places], dim=-1)


def nearest(
    model: ElmoModel, tokenizer: PreTrainedTokenizerBase, word: str, sentence: str, text: list[str], count: int
) -> list[Neighbour]:
    """The word's occurrences in the text whose top-layer vectors are most like its vector in the sentence."""
    occurrences = [other for other in text if contains(other, word)]
    top = vectors_of_word(model, tokenizer, word, [sentence, *occurrences])[-2]  # (1 + occurrences, size)
    cosines = top[1:] @ top[0]  # (occurrences,)
    return [Neighbour(cosines[row].item(), occurrences[row]) for row in cosines.topk(count).indices.tolist()]


def similarity_table(
    model: ElmoModel, tokenizer: PreTrainedTokenizerBase, word: str, senses: dict[str, list[str]]
) -> str:
    """The mean cosine of the word's vectors in every layer: pairs of sentences of one sense, then of two."""
    sense_of = [sense for sense, sentences in senses.items() for _ in sentences]
    sentences = [sentence for group in senses.values() for sentence in group]
    vectors = vectors_of_word(model, tokenizer, word, sentences)
    cosines = vectors @ vectors.mT  # (layers + 2, sentences, sentences)

    columns = [f"layer {layer}" for layer in range(len(cosines) - 1)] + ["mix"]
    lines = [" " * 24 + "".join(f"{column:>9}" for column in columns)]
    for title, same in (("same meaning", True), ("different meanings", False)):
        pairs = [(a, b) for a, b in combinations(range(len(sentences)), 2) if (sense_of[a] == sense_of[b]) is same]
        mean = torch.stack([cosines[:, a, b] for a, b in pairs]).mean(dim=0)
        lines.append(f"{title:<24}" + "".join(f"{value:9.2f}" for value in mean.tolist()))
    return "\n".join(lines)
