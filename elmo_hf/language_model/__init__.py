"""ELMo as a language model: probabilities of texts, words that fit a context, and similar words."""

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
