"""The language model's own answers: how likely a text is, which words fit where, and which are alike."""

from .answers import Candidate, Perplexity, StaticNeighbour, Substitute, TextScore
from .loading import load_language_model
from .model import ElmoLanguageModel, score

__all__ = [
    "Candidate",
    "ElmoLanguageModel",
    "Perplexity",
    "StaticNeighbour",
    "Substitute",
    "TextScore",
    "load_language_model",
    "score",
]
