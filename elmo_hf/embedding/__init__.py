"""Text in, contextual vectors out: from a sentence to a corpus."""

from .batches import BATCH_TOKENS
from .embedder import ElmoEmbedder
from .index import ElmoIndex, Neighbour
from .occurrences import Occurrence, TokenizedSentence

__all__ = ["BATCH_TOKENS", "ElmoEmbedder", "ElmoIndex", "Neighbour", "Occurrence", "TokenizedSentence"]
