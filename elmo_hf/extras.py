"""Libraries that come with an extra of the package, imported where they are used."""

import importlib
from types import ModuleType


def import_extra(name: str, extra: str, purpose: str) -> ModuleType:
    """
    Args:
        name: Of the module.
        extra: Of this package, that brings it.
        purpose: What needs it, as the beginning of a sentence.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f'{purpose} needs {package}: pip install "elmo-hf[{extra}]"') from error


__all__ = ["import_extra"]
