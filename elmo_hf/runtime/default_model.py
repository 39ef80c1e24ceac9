"""The model that comes with the package."""

import os
from importlib import resources

NAME = "elmo-english-compact"


def default_model() -> str:
    """
    The folder of the English model that comes with this package; works offline.

    ```python
    >>> from transformers import AutoModel
    >>> import elmo_hf

    >>> model = AutoModel.from_pretrained(elmo_hf.default_model())
    ```"""
    return str(resources.files("elmo_hf.model_cards") / NAME)


def find_model(name: str) -> str:
    """The folder or name to load for a name on the command line. The model of this package can be named too."""
    return default_model() if name == NAME and not os.path.exists(name) else name


__all__ = ["default_model", "find_model"]
