"""Estimates the sentence pooling of a model ([`ElmoSentencePooling`]) from text."""

import copy
from collections.abc import Sequence

import numpy as np
import torch

from ..data.sentences import Sentence, checked, encoded
from ..errors import ModelError, TextError, counted
from ..modeling.configuration_elmo import ElmoConfig
from ..modeling.modeling_elmo import ElmoModel
from ..modeling.pooling_elmo import ElmoSentencePooling
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.progress import Progress, ProgressReport
from .request import EmbeddingRequest

SMOOTHING = 1e-2  # of smooth inverse frequency: a word of this relative frequency has a weight of 1/2
MIN_VARIANCE = 1e-4  # of a direction that is kept, relative to the largest variance
SENTENCES_PER_DIMENSION = 5


def word_weights(ids: Sequence[np.ndarray], vocab_size: int, unknown_id: int | None) -> torch.Tensor:
    """
    Smooth inverse frequencies, `SMOOTHING / (SMOOTHING + frequency)`.

    Args:
        ids: The word ids of each sentence.
        vocab_size: The number of words.
        unknown_id: The id that all unknown words share. It has the weight of a word that does not occur: each unknown
            word is rare, however many they are.

    Returns:
        `(vocab_size,)`, between 0 and 1.
    """
    all_ids = np.concatenate(ids)
    counts = np.bincount(all_ids[all_ids < vocab_size], minlength=vocab_size)
    if unknown_id is not None and unknown_id < vocab_size:
        counts[unknown_id] = 0
    frequencies = counts / max(len(all_ids), 1)
    return torch.from_numpy(SMOOTHING / (SMOOTHING + frequencies)).float()


def whitening(averages: np.ndarray, size: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """
    The mean, and the map to uncorrelated directions of equal variance. Those of the largest variance come first, those
    of almost none are left out: the token layer has each vector twice, once per direction of reading.

    Args:
        averages: `(sentences, dimensions)`
        size: The maximum number of directions. Default: all.

    Returns:
        `(dimensions,)` and `(dimensions, directions)`
    """
    mean = averages.mean(axis=0, dtype=np.float64)
    centred = averages - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    largest = [place for place in range(len(variances))[::-1][:size] if variances[place] > MIN_VARIANCE * variances[-1]]
    variances, directions = variances[largest], directions[:, largest]
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), range(len(largest))])  # the solver's are arbitrary
    return torch.from_numpy(mean).float(), torch.from_numpy(directions * signs / np.sqrt(variances)).float()


@torch.no_grad()
def fit_sentence_pooling(
    model: ElmoModel,
    tokenizer: ElmoTokenizer,
    sentences: Sequence[Sentence],
    layers: Sequence[int],
    size: int | None,
    progress: Progress = None,
):
    """As [`ElmoEmbedder.fit_sentence_pooling`]. The model is changed at the end: an error leaves it as it was."""
    sentences, layers = list(checked(sentences)), list(layers)
    if size is not None and (type(size) is not int or size < 1):
        raise ValueError(f"`size` must be 1 or more, found {size!r:.60}.")
    if not layers or any(
        type(layer) is not int or not 0 <= layer <= model.config.num_hidden_layers for layer in layers
    ):
        raise ValueError(f"`layers` must be numbers from 0 to {model.config.num_hidden_layers}, found {layers!r:.60}.")
    dimensions = len(layers) * model.config.hidden_size
    ids = [source.tokens(1, len(source) - 1).input_ids for source in encoded(sentences, tokenizer)]
    with_words = sum(len(line) > 0 for line in ids)
    if with_words < SENTENCES_PER_DIMENSION * dimensions:
        raise TextError(
            f"The sentence pooling of {counted(dimensions, 'dimension')} needs "
            f"{SENTENCES_PER_DIMENSION * dimensions:,} sentences or more with words to be estimated from, found "
            f"{with_words:,}."
        )
    fitted = ElmoSentencePooling(_config_with(model.config, layers, dimensions))
    fitted.word_weights.copy_(word_weights(ids, model.config.vocab_size, tokenizer.unk_token_id))
    before, config = model.sentence_pooling, model.config
    try:  # the averages are the sentence vectors of a pooling that neither centres nor projects
        model.sentence_pooling = fitted.to(model.device)
        model.config = _config_with(config, layers, dimensions)
        request = EmbeddingRequest(model, tokenizer, "mix", "sentence")
        averages = request.collect(request.vectors(iter(sentences), ProgressReport(progress, sentences)))
    finally:
        model.sentence_pooling, model.config = before, config
    if not np.isfinite(averages).all():
        raise ModelError("The vectors of some sentences are not finite: check the model's weights.")
    fitted.mean, fitted.projection = whitening(averages[np.abs(averages).sum(axis=1) > 0], size)
    config.sentence_layers, config.sentence_size = fitted.layers, fitted.projection.shape[1]
    model.sentence_pooling = fitted.to(model.device, model.dtype)


def _config_with(config: ElmoConfig, layers: Sequence[int], size: int) -> ElmoConfig:
    """A copy of the config with this sentence pooling, checked."""
    config = copy.deepcopy(config)
    config.sentence_layers, config.sentence_size = list(layers), size
    config.validate()
    return config


__all__ = ["fit_sentence_pooling", "whitening", "word_weights"]
