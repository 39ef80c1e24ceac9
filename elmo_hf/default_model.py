"""The model that comes with the package."""

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


__all__ = ["default_model"]
