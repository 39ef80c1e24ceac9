"""Context-independent vectors of the words in the vocabulary."""

from typing import cast

import torch
from torch.nn import functional as F

from ..modeling.modeling_elmo import ElmoForPreTraining
from ..modeling.softmax_elmo import ElmoAdaptiveSoftmax
from ..modeling.tokenization_elmo import ElmoTokenizer

WORDS_AT_ONCE = 4096  # words encoded in one call


@torch.inference_mode()
def softmax_vectors(model: ElmoForPreTraining) -> torch.Tensor:
    """
    The weights of the softmax, one unit vector per word, `(vocab_size, output_size)`.

    Adding a vector to all words does not change their probabilities, so the mean is subtracted. Each group of an
    adaptive softmax has a softmax of its own, so its own mean is subtracted. All words are then comparable.
    """
    softmax, vectors = model.softmax, model.softmax.word_vectors().float()
    bounds = softmax.bounds if isinstance(softmax, ElmoAdaptiveSoftmax) else [len(vectors)]
    sizes = [stop - start for start, stop in zip([0, *bounds], bounds, strict=False)]
    return F.normalize(torch.cat([group - group.mean(dim=0) for group in vectors.split(sizes)]), dim=-1)


@torch.inference_mode()
def encoder_vectors(model: ElmoForPreTraining, tokenizer: ElmoTokenizer) -> torch.Tensor:
    """The layer-0 vectors of all words, of length 1, `(vocab_size, output_size)`."""
    words = cast(list[str], tokenizer.convert_ids_to_tokens(list(range(model.config.vocab_size))))
    parts = [words[start : start + WORDS_AT_ONCE] for start in range(0, len(words), WORDS_AT_ONCE)]
    return torch.cat([encode_words(model, tokenizer, part) for part in parts])


@torch.inference_mode()
def encode_words(model: ElmoForPreTraining, tokenizer: ElmoTokenizer, words: list[str]) -> torch.Tensor:
    """The layer-0 vectors of words, known or unknown, of length 1, `(words, output_size)`."""
    spelled = tokenizer(words, is_split_into_words=True, add_special_tokens=False, return_tensors="pt").to(model.device)
    ids, char_ids = spelled["input_ids"][0], spelled["char_ids"][0]
    config = model.config
    encode = model.elmo.token_encoder
    vectors = encode(char_ids if config.uses_characters else None, ids if config.uses_words else None)
    return F.normalize(vectors.float(), dim=-1)


__all__ = ["encode_words", "encoder_vectors", "softmax_vectors"]
