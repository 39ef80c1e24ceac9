"""
Registers ELMo with transformers' Auto classes: immediately if they are imported already, otherwise when they are.

`import elmo_hf` should not import transformers and torch, which takes seconds. So it installs an import hook instead: a
finder in `sys.meta_path` that finds nothing itself. For modules of transformers and of this package it asks the other
finders, and wraps the loader, to be told when the module has been executed.

The registration needs complete modules, and transformers' modules import each other. It therefore waits until no import
of such a module is in progress, in this thread or in another one; until then `from_pretrained` of the Auto classes
waits too. It is idempotent, and the hook stays: if a module is reloaded, the new classes are registered. No lock is
held: imports hold locks of their own, each thread in another order.
"""

import sys
import threading
import time
from collections.abc import Sequence
from functools import wraps
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PACKAGE = __name__.partition(".")[0]
AUTO_MODULES = tuple(f"transformers.models.auto.{kind}_auto" for kind in ("configuration", "modeling", "tokenization"))
ELMO_MODULES = tuple(
    f"{PACKAGE}.modeling.{name}_elmo"
    for name in ("configuration", "modeling", "modeling_heads", "modeling_question_answering", "tokenization")
)
# The modules of the classes that are registered, and of the Auto classes.
WATCHED = frozenset(AUTO_MODULES + ELMO_MODULES)
# The Auto classes that read a folder's files. The other ones use the first of them.
READERS = {AUTO_MODULES[0]: "AutoConfig", AUTO_MODULES[2]: "AutoTokenizer"}
PATIENCE = 60  # seconds that an Auto class waits for the imports of another thread


class _ThreadState(threading.local):
    """
    Attributes:
        depth: Imports of modules of transformers and of this package that are in progress in this thread.
        names: Modules that are being looked for in this thread.
    """

    def __init__(self):
        self.depth = 0
        self.names: set[str] = set()


_thread = _ThreadState()
_executions = 0  # of watched modules
_registered = 0  # what `_executions` was at the last registration
_waiting: list[tuple[Any, classmethod, classmethod]] = []  # Auto classes, the method that waits, the original method


def install_import_hook():
    """Registers ELMo as soon as possible: now, or when the Auto classes are imported. Later calls change nothing."""
    if not any(_is_registering_finder(finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, RegisteringFinder())
    if any(name in sys.modules for name in AUTO_MODULES):
        _count_execution()
        register_if_due()


def register_if_due(executed: str | None = None):
    """
    Registers ELMo if a watched module has been executed since the last registration, unless imports are in progress:
    the last of them registers.

    Args:
        executed: The module whose execution has just ended.
    """
    if _thread.depth or not _is_due() or _are_imports_in_progress(executed):
        return
    _thread.depth += 1  # the imports of the registration do not register
    try:
        _register()
    except Exception as error:
        if isinstance(error, (ImportError, AttributeError)) and _are_imports_in_progress(executed):
            return  # another thread has begun to import what the registration needs
        raise ImportError(f"elmo_hf cannot register ELMo with transformers' Auto classes: {error}") from error
    finally:
        _thread.depth -= 1


def _register():
    global _registered
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import AutoConfig
    from transformers.models.auto.tokenization_auto import AutoTokenizer

    from .modeling.configuration_elmo import MODELS, ElmoConfig
    from .modeling.tokenization_elmo import ElmoTokenizer

    model_classes = {entry.auto_class: entry.model_class for entry in MODELS if entry.auto_class is not None}
    executions = _executions  # the imports above are done; what another thread reloads from here on is not covered
    AutoConfig.register("elmo", ElmoConfig, exist_ok=True)
    AutoTokenizer.register(ElmoConfig, fast_tokenizer_class=ElmoTokenizer, exist_ok=True)
    # `register_for_auto_class` makes `save_pretrained` copy the code and name it in `auto_map`, for `trust_remote_code`
    # without this package.
    ElmoConfig.register_for_auto_class()
    ElmoTokenizer.register_for_auto_class()
    for auto_class, model_class in model_classes.items():
        getattr(modeling_auto, auto_class).register(ElmoConfig, model_class, exist_ok=True)
        model_class.register_for_auto_class(auto_class)
    _registered = executions
    _let_go_on()


def _count_execution():
    global _executions
    _executions += 1


def _is_due() -> bool:
    return _registered != _executions


def _are_imports_in_progress(executed: str | None = None) -> bool:
    """
    Whether an import that the registration depends on is in progress, in any thread.

    Args:
        executed: Left out: this module is complete, though its import has not ended yet.
    """
    complete = (PACKAGE, executed)
    modules = [module for name, module in sys.modules.copy().items() if _is_hooked(name) and name not in complete]
    return any(getattr(getattr(module, "__spec__", None), "_initializing", False) for module in modules)


def _wait_for_registration():
    """Waits for other threads to finish their imports, and with them the registration."""
    end = time.monotonic() + PATIENCE
    while _is_due() and not _thread.depth and _are_imports_in_progress() and time.monotonic() < end:
        time.sleep(0.01)
    register_if_due()


def _let_wait(auto_class: Any):
    """Makes `from_pretrained` of an Auto class wait for the registration: another thread may call it before that."""
    method = auto_class.__dict__["from_pretrained"]

    @wraps(method.__func__)
    def from_pretrained(cls, *args, **kwargs):
        _wait_for_registration()
        return method.__get__(None, cls)(*args, **kwargs)

    waiting = classmethod(from_pretrained)
    auto_class.from_pretrained = waiting
    _waiting.append((auto_class, waiting, method))


def _let_go_on():
    """Restores the methods of the Auto classes that waited."""
    while _waiting:
        auto_class, waiting, method = _waiting.pop()
        if auto_class.__dict__.get("from_pretrained") is waiting:
            auto_class.from_pretrained = method


# ---- the import hook


def _is_hooked(name: str) -> bool:
    """Whether a module belongs to transformers or to this package. (This module is complete when the hook exists.)"""
    return name.partition(".")[0] in ("transformers", PACKAGE) and name != __name__


class RegisteringFinder:
    """Wraps the loaders of modules of transformers and of this package, whatever finds them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders have for a module, with a loader that reports its execution."""
        if not _is_hooked(name) or name in _thread.names:  # another finder may ask this one again
            return None
        _thread.names.add(name)
        try:
            for finder in list(sys.meta_path):
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec = None if find is None else find(name, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module") and not isinstance(spec.loader, ReportingLoader):
                        spec.loader = ReportingLoader(spec.loader)
                    return spec
        finally:
            _thread.names.discard(name)
        return None


class ReportingLoader:
    """
    Stands in for a module's loader until the module is executed.

    Args:
        loader: The loader; the module has it again before it is executed.
    """

    def __init__(self, loader: Any):
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType):
        """Executes the module, and registers ELMo if that is due."""
        name = module.__name__
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        _thread.depth += 1
        try:
            self._loader.exec_module(module)
        finally:
            _thread.depth -= 1
        if name in WATCHED:
            _count_execution()
            if name in READERS:
                _let_wait(getattr(module, READERS[name]))
        register_if_due(name)


def _is_registering_finder(finder: Any) -> bool:
    """Whether it is the hook, of this module or of what it was before a reload."""
    kind = type(finder)
    return (kind.__module__, kind.__qualname__) == (RegisteringFinder.__module__, RegisteringFinder.__qualname__)


__all__ = ["install_import_hook", "register_if_due"]
