"""The components `elmo_ner` and `elmo_tagger`: a tagger of this package writes entities or tags."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.scorer import Scorer, get_ner_prf
from spacy.tokens import Doc, Span, Token
from spacy.training import Example

from ..data.batches import BATCH_TOKENS
from ..data.tag_spans import OUTSIDE, are_span_tags, split_tag, tag_spans
from ..errors import ModelError
from ..finetuning import load_head, predict_tags
from ..modeling.modeling_heads_elmo import ElmoForTokenClassification
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.model_loading import find_device
from ..runtime.named_models import locate_model
from .spacy_component import ElmoComponent, sentences

UNIVERSAL_TAGS = {
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ"),
    *("SYM", "VERB", "X"),
}
PIECE_WORDS = BATCH_TOKENS  # a longer sentence is tagged in pieces of this many words
DEFAULTS = {"model": None, "device": None, "precision": None, "save_weights": False}


class LoadedTagger(NamedTuple):
    """
    A tagger and its tokenizer.

    Attributes:
        model ([`ElmoForTokenClassification`])
        tokenizer ([`ElmoTokenizer`])
    """

    model: ElmoForTokenClassification
    tokenizer: ElmoTokenizer


class TaggerComponent(ElmoComponent):
    """
    Tags the words of each sentence with a tagger. The words are spaCy's tokens without whitespace, the sentences are
    spaCy's; a document without sentence boundaries is one sentence.

    Args:
        name, model, device, precision, save_weights: As in [`ElmoComponent`]. The model is a tagger, as `elmo-hf
            finetune tagging` trains it; there is no default.
    """

    def __init__(self, name: str, **options: Any):
        super().__init__(name, **DEFAULTS | options)

    def _load(self, model: str | None) -> LoadedTagger:
        if model is None:
            raise ModelError(
                f'{self.name} needs a tagger: add_pipe("{self.name}", config={{"model": FOLDER}}). `elmo-hf finetune '
                "tagging` trains one."
            )
        model, _ = locate_model(model)
        head, tokenizer = load_head(model, device=str(find_device(self._device)), precision=self._precision)
        if not isinstance(head, ElmoForTokenClassification):
            raise ModelError(f"{model} holds {type(head).__name__}, and {self.name} needs ElmoForTokenClassification.")
        self._check_labels(model, head.config.label_names)
        return LoadedTagger(head, tokenizer)

    def _check_labels(self, model: str, labels: Sequence[str]):
        """Raises an error for a tagger whose labels the component cannot write."""

    def _save(self, folder: Path):
        for part in self.loaded:
            part.save_pretrained(folder)

    @property
    def _label_names(self) -> list[str]:
        """The labels of the tagger; none before it is loaded, since spaCy asks for them before it loads weights."""
        return [] if self._loaded is None else self.loaded.model.config.label_names

    def _tagged(self, docs: Sequence[Doc]) -> Iterator[tuple[Doc, list[tuple[list[Token], list[str]]]]]:
        """Yields each document with its sentences: their words, and one tag per word."""
        words_of_docs = [list(sentences(doc)) for doc in docs]
        all_sentences = list(chain.from_iterable(words_of_docs))
        pieces = [
            [token.text for token in tokens[start : start + PIECE_WORDS]]
            for tokens in all_sentences
            for start in range(0, len(tokens), PIECE_WORDS)
        ]
        tags = iter(self._tags(pieces))
        for doc, sentences_of_doc in zip(docs, words_of_docs, strict=True):
            yield (
                doc,
                [
                    (tokens, [tag for _ in range(0, len(tokens), PIECE_WORDS) for tag in next(tags)])
                    for tokens in sentences_of_doc
                ],
            )

    def _tags(self, pieces: Sequence[list[str]]) -> list[list[str]]:
        """The tags of each piece, in order. Pieces of similar length share a batch."""
        tags: list[list[str]] = [[] for _ in pieces]
        for places in _padded_batches(pieces):
            batch = [pieces[place] for place in places]
            for place, tagged in zip(places, predict_tags(*self.loaded, batch, len(batch)), strict=True):
                tags[place] = tagged.tags or []
        return tags


class ElmoEntities(TaggerComponent):
    """
    Writes `doc.ents`. The tagger's labels are in BIO, BIOES or BILOU. Entities that the document has already stay, and
    new ones that overlap them are left out.

    Args:
        name, model, device, precision, save_weights: As in [`ElmoComponent`]. The model is a tagger, as `elmo-hf
            finetune tagging` trains it; there is no default.
    """

    def _check_labels(self, model: str, labels: Sequence[str]):
        if not are_span_tags(labels):
            wrong = next((label for label in labels if label != OUTSIDE and not split_tag(label)[0]), OUTSIDE)
            raise ModelError(
                f"{model} has no labels in BIO, BIOES or BILOU, which {self.name} needs, but {wrong!r:.60}: "
                "elmo_tagger writes tags of words."
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of entities."""
        return tuple(sorted({split_tag(label)[1] for label in self._label_names} - {""}))

    def _annotate(self, docs: Sequence[Doc]):
        for doc, tagged in list(self._tagged(docs)):
            taken = {token.i for entity in doc.ents for token in entity}
            entities = [
                Span(doc, words[start].i, words[stop - 1].i + 1, label=label)
                for words, tags in tagged
                for start, stop, label in tag_spans(tags)
            ]
            doc.set_ents([*doc.ents, *(span for span in entities if taken.isdisjoint(range(span.start, span.end)))])

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Precision, recall and F1 of the entities, for `nlp.evaluate`."""
        return get_ner_prf(examples)


class ElmoTags(TaggerComponent):
    """
    Writes `token.pos_` if all labels of the tagger are universal part-of-speech tags, otherwise `token.tag_`. A
    whitespace token gets what spaCy's own models give it, `SPACE` or `_SP`.

    Args:
        name, model, device, precision, save_weights: As in [`ElmoComponent`]. The model is a tagger, as `elmo-hf
            finetune tagging` trains it; there is no default.
    """

    def _check_labels(self, model: str, labels: Sequence[str]):
        if are_span_tags(labels):
            raise ModelError(f"{model} has labels of spans, such as {labels[-1]!r:.60}: elmo_ner writes entities.")

    @property
    def labels(self) -> tuple[str, ...]:
        """The tags."""
        return tuple(self._label_names)

    @property
    def attribute(self) -> str:
        """The attribute of a token that is written, `"pos"` or `"tag"`."""
        return "pos" if UNIVERSAL_TAGS.issuperset(self.loaded.model.config.label_names) else "tag"

    def _annotate(self, docs: Sequence[Doc]):
        name, whitespace = f"{self.attribute}_", "SPACE" if self.attribute == "pos" else "_SP"
        for doc, tagged in list(self._tagged(docs)):
            for token in doc:
                if token.is_space:
                    setattr(token, name, whitespace)
            for words, tags in tagged:
                for token, tag in zip(words, tags, strict=True):
                    setattr(token, name, tag)

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """The accuracy of the tags, for `nlp.evaluate`."""
        return Scorer.score_token_attr(examples, self.attribute)


def _padded_batches(items: Sequence[list[str]]) -> Iterator[list[int]]:
    """Yields the indices of items of similar length. Padded, a batch has at most `BATCH_TOKENS` words, or one item."""
    batch: list[int] = []
    for place in sorted(range(len(items)), key=lambda place: len(items[place])):
        if batch and (len(batch) + 1) * len(items[place]) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


@Language.factory(
    "elmo_ner",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config=DEFAULTS,
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_elmo_ner(nlp: Language, name: str, model: Any, device: Any, precision: Any, save_weights: Any) -> ElmoEntities:
    """Makes the component `elmo_ner`. The arguments are checked by the component, whose errors are one line."""
    return ElmoEntities(name, model=model, device=device, precision=precision, save_weights=save_weights)


@Language.factory("elmo_tagger", assigns=["token.tag", "token.pos"], default_config=DEFAULTS)
def make_elmo_tagger(nlp: Language, name: str, model: Any, device: Any, precision: Any, save_weights: Any) -> ElmoTags:
    """Makes the component `elmo_tagger`. The arguments are checked by the component, whose errors are one line."""
    return ElmoTags(name, model=model, device=device, precision=precision, save_weights=save_weights)


__all__ = ["ElmoEntities", "ElmoTags", "TaggerComponent", "make_elmo_ner", "make_elmo_tagger"]
