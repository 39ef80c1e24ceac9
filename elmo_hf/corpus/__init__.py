"""From files of text to files of vectors: in shards, resumable, in bounded memory."""

from .embed import CorpusSummary, embed_corpus

__all__ = ["CorpusSummary", "embed_corpus"]
