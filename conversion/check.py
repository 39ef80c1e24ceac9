"""Figures of a converted model that a person can compare with those of the original."""

import os
from collections.abc import Iterator

import torch

from elmo_hf.modeling.modeling_elmo import ElmoModel
from elmo_hf.modeling.tokenization_elmo import ElmoTokenizer


def layer_norms(folder: str | os.PathLike, sentences: list[str], words: int = 8) -> Iterator[tuple[str, list[float]]]:
    """
    The length of the first words' vectors in every layer, token layer first.

    Args:
        folder: A converted model.
        sentences: Texts, which the model's tokenizer cuts into words.
        words: Words per sentence, boundaries not counted.

    Yields:
        A word and its `num_hidden_layers + 1` norms, in fp32 and from a zero state.
    """
    tokenizer = ElmoTokenizer.from_pretrained(folder)
    model = ElmoModel.from_pretrained(folder, dtype=torch.float32, use_safetensors=True).eval()
    for sentence in sentences:
        batch = tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            layers = torch.stack(model(**batch, output_hidden_states=True).hidden_states)  # (layers, 1, words, size)
        norms = layers[:, 0, 1:-1].norm(dim=-1).T  # (words, layers)
        spelled = tokenizer.convert_char_ids_to_tokens(batch["char_ids"][0, 1:-1])
        yield from zip(spelled[:words], norms[:words].tolist(), strict=True)


__all__ = ["layer_norms"]
