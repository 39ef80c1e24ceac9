"""A model as the page uses it: its embedder, language model, taggers, and the text that is searched for neighbours."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data.marked_words import read_marked
from ..data.occurrences import Occurrence
from ..embedding import ElmoEmbedder
from ..errors import ModelError, TextError
from ..finetuning import load_head
from ..index import ElmoIndex
from ..index.index_files import word_key
from ..language_model import ElmoLanguageModel
from ..modeling.modeling_heads_elmo import ElmoForTokenClassification
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.model_loading import Precision, find_device, loading_errors, precision_options
from ..runtime.named_models import find_named_model
from ..runtime.run_records import shown_name
from .page_texts import PageTexts, language_of, texts_of
from .stored_heads import load_stored_head, read_head, stored_heads_of


@dataclass
class PageTagger:
    """
    A tagger and its tokenizer.

    Attributes:
        title: Its name on the page.
        note: Where it comes from.
    """

    title: str
    note: str
    model: Any
    tokenizer: ElmoTokenizer

    def mixes(self) -> dict[str, list[float]]:
        """The share of each layer, the token layer first, by the place of the mix: "input" or "output"."""
        mixers = {"input": self.model.input_mixer, "output": self.model.output_mixer}
        return {place: mixer.layer_weights().tolist() for place, mixer in mixers.items() if mixer is not None}


class CorpusWords:
    """
    All words of the corpus with the vectors of every layer.

    Attributes:
        occurrences: The words; their vectors are empty.
        layers (`np.ndarray` of shape `(layers, words, hidden_size)`): The vectors.
        keys (`np.ndarray` of shape `(words,)`): The [`word_key`] of each word.
    """

    def __init__(self, embedder: ElmoEmbedder, sentences: Sequence[str]):
        self.occurrences = [
            Occurrence(word, np.empty(0), sentence.text, start, end, sentence_index, position)
            for sentence_index, sentence in enumerate(embedder.tokenize(sentences))
            for position, (word, (start, end)) in enumerate(zip(sentence.words, sentence.offsets, strict=True))
        ]
        self.layers = np.concatenate(embedder.embed(sentences, "all"), axis=1)
        self.keys = np.array([word_key(use.word) for use in self.occurrences], np.uint64)


class PageModel:
    """
    What the tabs use.

    Args:
        name: The name of the model on the page.
        embedder: The embedder.
        language_model: Shares the embedder's biLM; `None` for a model without softmax.
        taggers: The taggers.

    Attributes:
        language: "en" or "zh", by the vocabulary.
        texts: The texts of the language.
        words: All words of the corpus.
        index: The index of the corpus, in a temporary folder.
    """

    def __init__(
        self,
        name: str,
        embedder: ElmoEmbedder,
        language_model: ElmoLanguageModel | None,
        taggers: Sequence[PageTagger] = (),
    ):
        self.name, self.embedder, self.language_model, self.taggers = name, embedder, language_model, list(taggers)
        self.language = language_of(embedder.tokenizer.get_vocab())
        self.texts: PageTexts = texts_of(self.language)
        self.words = CorpusWords(embedder, self.texts.corpus)
        self._folder = tempfile.TemporaryDirectory(prefix="elmo-hf-page-")  # removed with this object
        layers = "average" if embedder.model.mixer is None else "mix"
        self.index = ElmoIndex.build(embedder, self.texts.corpus, Path(self._folder.name) / "index", layers=layers)

    @classmethod
    def load(
        cls, name: str | None = None, *, device: str | None = None, precision: Precision | None = None
    ) -> "PageModel":
        """
        Loads a model, and the taggers that are stored for it.

        Args:
            name: A folder or a name on the Hub. Default: the model that comes with the package.
            device, precision: As in [`load_model`].
        """
        source = find_named_model(name)
        place, options = find_device(device), precision_options(os.fspath(source), precision)
        try:
            language_model = ElmoLanguageModel.from_pretrained(source, device=place, **options)
            embedder = ElmoEmbedder(language_model.model.elmo, language_model.tokenizer)
        except ModelError:  # a model without softmax; what is wrong otherwise is said again
            language_model, embedder = None, ElmoEmbedder.from_pretrained(source, device=place, **options)
        taggers = []
        for folder in stored_heads_of(Path(source)):
            head = read_head(folder)
            results = ", ".join(f"{metric.replace('f1', 'F1')} {value:.1%}" for metric, value in head.results.items())
            note = f"Trained on {head.data} ({head.license}). Test data: {results}."
            taggers.append(PageTagger(head.title, note, load_stored_head(folder, embedder.model), embedder.tokenizer))
        return cls(shown_name(os.fspath(source)), embedder, language_model, taggers)

    @property
    def layer_names(self) -> list[str]:
        """The names of the layers, the token layer first."""
        return [f"layer {layer}" for layer in range(self.embedder.num_layers)]

    def marked_use(self, text: str) -> Occurrence:
        """The marked word of a text with the vectors of all layers, `(layers, hidden_size)`."""
        sentence, start, end = read_marked(text)
        if not (word := sentence[start:end]).strip():
            raise TextError("There is no word between the marks: put ** on both sides of a word.")
        for use in self.embedder.words([sentence], word, layers="all"):
            if use.start == start:
                return use
        (tokenized,) = self.embedder.tokenize([sentence])
        near = [
            sentence[first:last] for first, last in tokenized.offsets if last > start and first < max(end, start + 1)
        ]
        raise TextError(f"{word!r:.100} is not one word: the tokenizer reads {' | '.join(near) or 'none'} there.")


def load_tagger(name: str, *, device: str | None = None, precision: Precision | None = None) -> PageTagger:
    """
    Loads a tagger with its own biLM.

    Args:
        name: A folder or a name on the Hub.
        device, precision: As in [`load_model`].
    """
    source = find_named_model(name)
    with loading_errors(source):
        model, tokenizer = load_head(source, device=device, precision=precision)
    if not isinstance(model, ElmoForTokenClassification):
        raise ModelError(f"{name} is not a tagger: `elmo-hf finetune tagging` makes one.")
    title = shown_name(os.fspath(source))
    return PageTagger(title, f"The tagger {title}.", model, tokenizer)


__all__ = ["CorpusWords", "PageModel", "PageTagger", "load_tagger"]
