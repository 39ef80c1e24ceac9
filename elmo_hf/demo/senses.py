"""One word in several sentences: how alike its vectors are, layer by layer, and where in the text they are nearest."""

import re
from itertools import combinations
from typing import NamedTuple

import torch
from torch.nn.functional import normalize
from transformers import PreTrainedTokenizerBase

from .. import ElmoModel

# Word → sense → sentences that are not in the text. The word never ends them: in so small a model a full stop beside it
# outweighs the sense. The text's other two ambiguous words come apart less clearly: match does a little, bank hardly.
NEW_SENTENCES = {
    "bat": {
        "animal": [
            "A bat with brown wings flew through the dark cave.",
            "In the night a bat hunts moths over our garden.",
        ],
        "sport": [
            "The captain swung his bat at the ball.",
            "My sister took her wooden bat to the game.",
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
    "palm": {
        "tree": [
            "A monkey sat in the shade of a palm beside the sea.",
            "The sailors slept under a tall palm on the island.",
        ],
        "hand": [
            "She hid the ring in her palm and laughed.",
            "He washed his palm and his fingers.",
        ],
    },
}


class Neighbour(NamedTuple):
    """A sentence of the text, and how alike the word's vectors are there and here."""

    similarity: float
    sentence: str


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
    """The cosines of all pairs of the word's occurrences in every layer: pairs of one sense, then of two."""
    labels = [(sense, f"{sense} {number}") for sense in senses for number in range(1, len(senses[sense]) + 1)]
    sentences = [sentence for group in senses.values() for sentence in group]
    vectors = vectors_of_word(model, tokenizer, word, sentences)
    cosines = vectors @ vectors.mT  # (layers + 2, sentences, sentences)

    columns = [f"layer {layer}" for layer in range(len(cosines) - 1)] + ["mix"]
    lines = [" " * 24 + "".join(f"{column:>9}" for column in columns)]
    pairs = list(combinations(range(len(sentences)), 2))
    for title, same in (("same sense", True), ("different senses", False)):
        chosen = [(a, b) for a, b in pairs if (labels[a][0] == labels[b][0]) is same]
        rows = [(f"  {labels[a][1]}, {labels[b][1]}", cosines[:, a, b]) for a, b in chosen]
        mean = torch.stack([row for _, row in rows]).mean(dim=0)
        for label, values in [(f"{title}, mean", mean), *rows]:
            lines.append(f"{label:<24}" + "".join(f"{value:9.2f}" for value in values.tolist()))
    return "\n".join(lines)
