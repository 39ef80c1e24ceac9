"""
ELMo, deep contextualised word representations, as a Hugging Face model.

The import is cheap: public names are imported when they are used. The Auto classes of transformers know ELMo as soon as
they are imported themselves, before or after this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .registration import install_import_hook, register_if_due

if TYPE_CHECKING:
    from .corpus import embed_corpus
    from .embedding import ElmoEmbedder, Occurrence
    from .index import ElmoIndex, Neighbour
    from .language_model import ElmoLanguageModel, score
    from .modeling.configuration_elmo import ElmoConfig
    from .modeling.layer_cache_elmo import ElmoLayerCache
    from .modeling.modeling_coreference_elmo import ElmoCoreferenceOutput, ElmoForCoreference
    from .modeling.modeling_elmo import (
        ElmoForPreTraining,
        ElmoForPreTrainingOutput,
        ElmoMixer,
        ElmoModel,
        ElmoModelOutput,
        ElmoStates,
    )
    from .modeling.modeling_heads_elmo import (
        ElmoForSequenceClassification,
        ElmoForTokenClassification,
        ElmoTaskModel,
        ElmoTokenClassifierOutput,
    )
    from .modeling.modeling_question_answering_elmo import ElmoForQuestionAnswering
    from .modeling.modeling_roles_elmo import ElmoForSemanticRoles
    from .modeling.pretrained_elmo import ElmoPreTrainedModel
    from .modeling.quantization_elmo import ElmoInt8Config
    from .modeling.tokenization_elmo import ElmoTokenizer
    from .runtime.default_model import default_model

# The modules of the public names; the imports above, which are for type checkers, say the same.
_MODULES = {
    "corpus": ["embed_corpus"],
    "embedding": ["ElmoEmbedder", "Occurrence"],
    "index": ["ElmoIndex", "Neighbour"],
    "language_model": ["ElmoLanguageModel", "score"],
    "modeling.configuration_elmo": ["ElmoConfig"],
    "modeling.layer_cache_elmo": ["ElmoLayerCache"],
    "modeling.modeling_coreference_elmo": ["ElmoCoreferenceOutput", "ElmoForCoreference"],
    "modeling.modeling_elmo": [
        "ElmoForPreTraining",
        "ElmoForPreTrainingOutput",
        "ElmoMixer",
        "ElmoModel",
        "ElmoModelOutput",
        "ElmoStates",
    ],
    "modeling.modeling_heads_elmo": [
        "ElmoForSequenceClassification",
        "ElmoForTokenClassification",
        "ElmoTaskModel",
        "ElmoTokenClassifierOutput",
    ],
    "modeling.modeling_question_answering_elmo": ["ElmoForQuestionAnswering"],
    "modeling.modeling_roles_elmo": ["ElmoForSemanticRoles"],
    "modeling.pretrained_elmo": ["ElmoPreTrainedModel"],
    "modeling.quantization_elmo": ["ElmoInt8Config"],
    "modeling.tokenization_elmo": ["ElmoTokenizer"],
    "runtime.default_model": ["default_model"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_SUBPACKAGES = {
    "analysis",
    "cli",
    "conversion",
    "corpus",
    "data",
    "demo",
    "embedding",
    "errors",
    "export",
    "finetuning",
    "index",
    "integrations",
    "language_model",
    "model_cards",
    "modeling",
    "pretraining",
    "publishing",
    "runtime",
    "serving",
    "space",
}

__all__ = [
    "ElmoConfig",
    "ElmoCoreferenceOutput",
    "ElmoEmbedder",
    "ElmoForCoreference",
    "ElmoForPreTraining",
    "ElmoForPreTrainingOutput",
    "ElmoForQuestionAnswering",
    "ElmoForSemanticRoles",
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
    "embed_corpus",
    "score",
]


def __getattr__(name: str) -> Any:
    """Imports a public name, or a subpackage, when it is first used."""
    if name in _MODULE_OF:
        value = getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)
        register_if_due()  # if an import was in progress when the Auto classes were imported
        globals()[name] = value
        return value
    if name in _SUBPACKAGES:
        return import_module(f".{name}", __name__)
    if name.startswith("ElmoFor"):  # a head that is only in the registry
        for entry in import_module(".modeling.configuration_elmo", __name__).HEADS:
            if entry.name == name:
                return entry.model_class
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBPACKAGES})


install_import_hook()
