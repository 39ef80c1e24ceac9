"""Text in, contextual vectors out: from a sentence to a corpus."""

from .batches import BATCH_TOKENS
from .corpus import CorpusSummary, embed_corpus
from .embedder import ElmoEmbedder

__all__ = ["BATCH_TOKENS", "CorpusSummary", "ElmoEmbedder", "embed_corpus"]
