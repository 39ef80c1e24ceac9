"""ELMo as a language model: probabilities of texts, words that fit a context, and similar words."""

from .answers import Candidate, Perplexity, StaticNeighbour, Substitute, TextScore
from .loading import load_language_model
from .model import ElmoLanguageModel, score
from .surprisal import FrequencyEstimate, WordSurprisal, word_surprisals

__all__ = [
    "Candidate",
    "ElmoLanguageModel",
    "FrequencyEstimate",
    "Perplexity",
    "StaticNeighbour",
    "Substitute",
    "TextScore",
    "WordSurprisal",
    "load_language_model",
    "score",
    "word_surprisals",
]
