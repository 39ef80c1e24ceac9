"""Embedding: contextual vectors of words, sentences and documents."""

from ..data.batches import BATCH_TOKENS
from ..data.occurrences import Occurrence, TokenizedSentence
from .embedder import ElmoEmbedder
from .sentence_files import SENTENCE_FILES, write_sentence_files

__all__ = [
    "BATCH_TOKENS",
    "SENTENCE_FILES",
    "ElmoEmbedder",
    "Occurrence",
    "TokenizedSentence",
    "write_sentence_files",
]
