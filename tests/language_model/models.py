"""Small language models with words of their own."""

import torch

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoLanguageModel, ElmoTokenizer
from tests.models import TINY

MARKS = ["<S>", "</S>", "<UNK>"]
WORDS = ["the", "cat", "sat", "on", "a", "mat", "."]
VOCABULARY = [*MARKS, *WORDS]
SLOTS = 8


def tiny_language_model(seed: int = 0, **fields) -> ElmoLanguageModel:
    """In fp64, with weights so large that what is read matters."""
    torch.manual_seed(seed)
    slots = fields.get("max_characters_per_token", SLOTS)
    sizes = TINY | {"vocab_size": len(VOCABULARY), "max_characters_per_token": slots, "softmax_cutoffs": [4, 7]}
    sizes |= {"softmax_tail_ratio": 2, "softmax_samples": 4}
    model = ElmoForPreTraining(ElmoConfig(**(sizes | fields))).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
            elif "layers" in name or "softmax" in name:
                parameter.mul_(3)
    return ElmoLanguageModel(model, ElmoTokenizer(vocab=VOCABULARY, max_characters_per_token=slots))
