"""Text in, contextual vectors out: from a sentence to a corpus."""

from .batches import BATCH_TOKENS
from .embedder import ElmoEmbedder
from .occurrences import Occurrence, TokenizedSentence
from .sentence_files import SENTENCE_FILES, write_sentence_files

__all__ = [
    "BATCH_TOKENS",
    "SENTENCE_FILES",
    "ElmoEmbedder",
    "Occurrence",
    "TokenizedSentence",
    "write_sentence_files",
]
