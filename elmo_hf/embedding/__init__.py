"""Text in, contextual vectors out: from a sentence to a corpus."""

from .batches import BATCH_TOKENS
from .corpus import CorpusSummary, embed_corpus
from .embedder import ElmoEmbedder
from .index import ElmoIndex, Neighbour
from .occurrences import Occurrence, TokenizedSentence
from .sentence_files import SENTENCE_FILES, write_sentence_files

__all__ = [
    "BATCH_TOKENS",
    "SENTENCE_FILES",
    "CorpusSummary",
    "ElmoEmbedder",
    "ElmoIndex",
    "Neighbour",
    "Occurrence",
    "TokenizedSentence",
    "embed_corpus",
    "write_sentence_files",
]
