"""
Pretraining a biLM: text, streams, loop, evaluation.

`Run` is the whole of it, with its folder; `Pretrainer` the loop; `perplexity` the measure.
"""

from .checkpoints import CheckpointError
from .evaluation import Perplexity, perplexity, protocol
from .models import SIZES, ModelError, build_config, extended, load_language_model, starting_point
from .run import Run, RunError, RunText
from .settings import RECIPES, PretrainingSettings
from .streams import SentenceEncoder
from .text import Corpus, TextError
from .training import DivergenceError, Pretrainer
from .vocabulary import Vocabulary, build_vocabulary

__all__ = [
    "RECIPES",
    "SIZES",
    "CheckpointError",
    "Corpus",
    "DivergenceError",
    "ModelError",
    "Perplexity",
    "Pretrainer",
    "PretrainingSettings",
    "Run",
    "RunError",
    "RunText",
    "SentenceEncoder",
    "TextError",
    "Vocabulary",
    "build_config",
    "build_vocabulary",
    "extended",
    "load_language_model",
    "perplexity",
    "protocol",
    "starting_point",
]
