"""
Pretraining of a biLM.

[`Run`] manages a run and its folder, [`Pretrainer`] is the training loop, and [`perplexity`] evaluates a model.
"""

from .evaluation import Perplexity, perplexity, protocol
from .models import SIZES, build_config, extended, load_language_model, starting_point
from .run import Run, RunText
from .settings import RECIPES, PretrainingSettings
from .streams import SentenceEncoder
from .text import Corpus
from .training import Pretrainer
from .vocabulary import Vocabulary, build_vocabulary

__all__ = [
    "RECIPES",
    "SIZES",
    "Corpus",
    "Perplexity",
    "Pretrainer",
    "PretrainingSettings",
    "Run",
    "RunText",
    "SentenceEncoder",
    "Vocabulary",
    "build_config",
    "build_vocabulary",
    "extended",
    "load_language_model",
    "perplexity",
    "protocol",
    "starting_point",
]
