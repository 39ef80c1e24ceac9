"""The models that come with the package."""

import os
from importlib import resources

from ..errors import ModelError, did_you_mean

MODELS = {"en": "elmo-english-compact"}
"""The names of the models by language."""


def default_model(language: str = "en") -> str:
    """
    The folder of a model that comes with this package; works offline.

    ```python
    >>> from transformers import AutoModel
    >>> import elmo_hf

    >>> model = AutoModel.from_pretrained(elmo_hf.default_model())
    ```

    Args:
        language: `"en"`.
    """
    if language not in MODELS:
        raise ModelError(
            f"No model of the language {language!r} comes with this package{did_you_mean(language, MODELS)}: there is "
            f"{', '.join(MODELS)}."
        )
    return str(resources.files("elmo_hf.model_cards") / MODELS[language])


def find_model(name: str) -> str:
    """The folder or name to load for a name on the command line. The models of this package can be named too."""
    language = next((language for language, model in MODELS.items() if model == name), None)
    return name if language is None or os.path.exists(name) else default_model(language)


__all__ = ["MODELS", "default_model", "find_model"]
