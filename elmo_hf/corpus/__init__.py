"""Embeds a corpus into a file: in shards, resumable, in bounded memory."""

from .embed import CorpusSummary, embed_corpus

__all__ = ["CorpusSummary", "embed_corpus"]
