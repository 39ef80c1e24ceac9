"""ELMo, deep contextualised word representations, as a Hugging Face model. Importing it registers the Auto classes."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from ._version import __version__
from .classification_elmo import (
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTaskModel,
    ElmoTokenClassifierOutput,
)
from .configuration_elmo import ElmoConfig
from .default_model import default_model
from .embedding import ElmoEmbedder, ElmoIndex, Neighbour, Occurrence
from .language_model import ElmoLanguageModel, score
from .layer_cache_elmo import ElmoLayerCache
from .mixer_elmo import ElmoMixer
from .modeling_elmo import ElmoModel, ElmoModelOutput, ElmoPreTrainedModel, ElmoStates
from .modeling_pretraining_elmo import ElmoForPreTraining, ElmoForPreTrainingOutput
from .quantization_elmo import ElmoInt8Config
from .tokenization_elmo import ElmoTokenizer

AutoConfig.register("elmo", ElmoConfig, exist_ok=True)
AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
AutoModelForPreTraining.register(ElmoConfig, ElmoForPreTraining, exist_ok=True)
AutoModelForSequenceClassification.register(ElmoConfig, ElmoForSequenceClassification, exist_ok=True)
AutoModelForTokenClassification.register(ElmoConfig, ElmoForTokenClassification, exist_ok=True)
AutoTokenizer.register(ElmoConfig, fast_tokenizer_class=ElmoTokenizer, exist_ok=True)
# What `save_pretrained` copies and names in `auto_map`, for `trust_remote_code` where this package is not installed.
ElmoConfig.register_for_auto_class()
ElmoModel.register_for_auto_class("AutoModel")
ElmoForPreTraining.register_for_auto_class("AutoModelForPreTraining")
ElmoForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
ElmoForTokenClassification.register_for_auto_class("AutoModelForTokenClassification")
ElmoTokenizer.register_for_auto_class()

__all__ = [
    "ElmoConfig",
    "ElmoEmbedder",
    "ElmoForPreTraining",
    "ElmoForPreTrainingOutput",
    "ElmoForSequenceClassification",
    "ElmoForTokenClassification",
    "ElmoIndex",
    "ElmoInt8Config",
    "ElmoLanguageModel",
    "ElmoLayerCache",
    "ElmoMixer",
    "ElmoModel",
    "ElmoModelOutput",
    "ElmoPreTrainedModel",
    "ElmoStates",
    "ElmoTaskModel",
    "ElmoTokenClassifierOutput",
    "ElmoTokenizer",
    "Neighbour",
    "Occurrence",
    "__version__",
    "default_model",
    "score",
]
