"""Text in, contextual vectors out: from a sentence to a corpus."""

from .batches import BATCH_TOKENS
from .corpus import CorpusSummary, embed_corpus
from .embedder import ElmoEmbedder
from .index import ElmoIndex, Neighbour
from .occurrences import Occurrence, TokenizedSentence

__all__ = [
    "BATCH_TOKENS",
    "CorpusSummary",
    "ElmoEmbedder",
    "ElmoIndex",
    "Neighbour",
    "Occurrence",
    "TokenizedSentence",
    "embed_corpus",
]
