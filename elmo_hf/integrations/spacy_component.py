"""What the components for spaCy share: the model, batches of documents, and storage with the pipeline."""

import os
import tempfile
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import srsly
import torch
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Token

from ..data.batches import BATCH_TOKENS
from ..errors import ModelError, did_you_mean
from ..runtime.precisions import Precision
from ..runtime.staging import move_files

GROUP_TOKENS = 4 * BATCH_TOKENS  # documents of this many tokens are annotated at a time


class ElmoComponent(Pipe):
    """
    A component with a model.

    Args:
        name: The name of the component in the pipeline.
        model: A folder, or a name on the Hub. `None`: the component's default, if it has one.
        device: The device of the model. `None`: the CPU.
        precision: The precision of the weights, `"fp32"`, `"bf16"` or `"int8"`. `None`: that of the saved weights.
        save_weights: Whether the weights are stored with the pipeline. Otherwise only the name of the model is. Since
            stored weights take the place of the named model, that one is loaded when it is first used.
    """

    def __init__(self, name: str, *, model: Any, device: Any, precision: Any, save_weights: Any):
        self.name = name
        self._options = {"model": model, "device": device, "precision": precision, "save_weights": save_weights}
        if not (model is None or isinstance(model, str)):
            raise ModelError(f"`model` of {name} must be a folder or a name on the Hub, found {model!r:.60}.")
        if not (precision is None or precision in get_args(Precision)):
            known = ", ".join(get_args(Precision))
            suggestion = did_you_mean(str(precision), get_args(Precision))
            raise ModelError(f"`precision` of {name} must be one of {known}, found {precision!r:.60}{suggestion}.")
        if not isinstance(save_weights, bool):
            raise ModelError(f"`save_weights` of {name} must be true or false, found {save_weights!r:.60}.")
        self._model, self._device, self._precision = model, device, precision
        self._save_weights, self._process = save_weights, os.getpid()
        self._loaded: Any = None if save_weights else self._load(model)

    # ---- what a component does

    @abstractmethod
    def _load(self, model: str | None) -> Any:
        """Loads what the component needs; raises a [`ModelError`] if the model does not suit it."""

    @abstractmethod
    def _save(self, folder: Path):
        """Saves the model and its tokenizer, for `_load`."""

    @abstractmethod
    def _annotate(self, docs: Sequence[Doc]):
        """Writes the model's answers into the documents."""

    @property
    def loaded(self) -> Any:
        """What the component has loaded; this loads it if that has not been done yet."""
        if self._loaded is None:
            self._loaded = self._load(self._model)
        return self._loaded

    # ---- documents

    def __call__(self, doc: Doc) -> Doc:
        """Annotates one document."""
        self._check_process()
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """
        Annotates documents, in order and lazily. Documents of 16,384 tokens in total are annotated together, so that
        memory does not grow with the batch size.

        Args:
            stream: The documents.
            batch_size: The maximum number of documents that are annotated together.
        """
        self._check_process()
        handle_error = self.get_error_handler()
        for docs in groups(stream, batch_size):
            try:
                self._annotate(docs)
            except Exception as error:
                handle_error(self.name, self, docs, error)
            else:
                yield from docs

    def _check_process(self):
        """A forked process lacks the threads of its parent, and OpenMP would wait for them forever."""
        if os.getpid() != self._process:
            torch.set_num_threads(1)
            self._process = os.getpid()

    # ---- storage

    def to_disk(self, path: str | os.PathLike, *, exclude: Iterable[str] = ()):
        """Writes the model's folder if the pipeline is stored with the weights; otherwise nothing."""
        if not self._save_weights:
            return
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as stage:
            self._save(Path(stage))
            path.mkdir(exist_ok=True)
            move_files(Path(stage), path)

    def from_disk(self, path: str | os.PathLike, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Loads the weights that [`~ElmoComponent.to_disk`] has written."""
        if self._save_weights:
            self._loaded = self._load(os.fspath(path))
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The files of the model's folder if the pipeline is stored with the weights; otherwise nothing."""
        if not self._save_weights:
            return b""
        with tempfile.TemporaryDirectory() as folder:
            self._save(Path(folder))
            # Its code is that of this package.
            files = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.suffix != ".py"}
        return srsly.msgpack_dumps(files)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """Loads the weights that [`~ElmoComponent.to_bytes`] has written."""
        if not self._save_weights:
            return self
        files = srsly.msgpack_loads(data) if data else {}
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                if name in ("", "..") or Path(name).name != name:
                    raise ModelError(f"The stored component {self.name} has a file outside its folder: {name!r:.60}.")
                Path(folder, name).write_bytes(content)
            self._loaded = self._load(folder)
        return self

    def _settings(self) -> dict[str, Any]:
        """The arguments that make a component like this one."""
        return {"name": self.name, **self._options}

    def __reduce__(self):
        # For processes that are spawned. Without stored weights the other process loads the model by its name.
        return _restored, (type(self), self._settings(), self.to_bytes())


def _restored(kind: type[ElmoComponent], settings: dict[str, Any], data: bytes) -> ElmoComponent:
    return kind(**settings).from_bytes(data)


def groups(docs: Iterable[Doc], max_docs: int) -> Iterator[list[Doc]]:
    """Yields the documents in order, as many at a time as have `GROUP_TOKENS` tokens in total, or a longer one."""
    group: list[Doc] = []
    size = 0
    for doc in docs:
        if group and (len(group) >= max_docs or size + len(doc) > GROUP_TOKENS):
            yield group
            group, size = [], 0
        group.append(doc)
        size += len(doc)
    if group:
        yield group


def sentences(doc: Doc) -> Iterator[list[Token]]:
    """
    Yields the words of each sentence: the tokens that are not whitespace. A document without sentence boundaries is one
    sentence. Sentences without words are left out.
    """
    for sentence in doc.sents if doc.has_annotation("SENT_START") else [doc]:
        if words := [token for token in sentence if not token.is_space]:
            yield words


__all__ = ["GROUP_TOKENS", "ElmoComponent", "groups", "sentences"]
