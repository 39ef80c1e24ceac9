"""Predicts semantic roles, lazily, and finds the predicates: marked in the text, or by a tagger."""

import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from ..data.roles import RoleSentence
from ..data.text_sources import split_words
from ..errors import ModelError, TextError, did_you_mean
from ..modeling.modeling_heads_elmo import ElmoForTokenClassification
from ..modeling.modeling_roles_elmo import ElmoForSemanticRoles
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..runtime.threads import cpu_slots
from .prediction import in_batches, predict_tags, refuse_training
from .tasks import mark_predicates

MARKED = re.compile(r"\*\*(.+?)\*\*")
EXAMPLE = '"She **sat** down and **read** a book."'
VERB = re.compile(r"VERB|V|B-V|VB.?")  # verbs as UD, PropBank and the Penn Treebank tag them


def read_marked_predicates(text: str, tokenizer: ElmoTokenizer | None) -> RoleSentence:
    """
    Splits a sentence in which predicates are marked, as in `She **sat** down and **read** a book.`

    Args:
        text: The sentence. Without marks it has no predicates.
        tokenizer: Splits the text; `None` if its words are separated by blanks.
    """
    words: list[str] = []
    predicates: list[int] = []
    for place, part in enumerate(MARKED.split(text)):
        parts = split_words(part) if tokenizer is None else tokenizer.tokenize(part)
        if place % 2:
            if len(parts) != 1:
                raise TextError(f"{part!r:.60} is marked in {text!r:.200}: mark single words, as in {EXAMPLE}.")
            predicates.append(len(words))
        words += parts
    return RoleSentence(words, predicates)


def predicate_labels(tagger: ElmoForTokenClassification, tags: Collection[str] = ()) -> set[str]:
    """
    The labels of a tagger that mean a predicate.

    Args:
        tags: The labels, if known. Default: those of verbs (`VERB`, `V`, `B-V`, or `VB` and a letter).
    """
    names = tagger.config.label_names
    for name in tags:
        if name not in names:
            raise ModelError(f"The tagger has no tag {name!r}{did_you_mean(name, names)}: it has {', '.join(names)}.")
    labels = set(tags) or {name for name in names if VERB.fullmatch(name)}
    if not labels:
        raise ModelError(
            f"None of the tagger's tags is known to mean a verb ({', '.join(names)}): name some with --predicate-tag."
        )
    return labels


def mark_found_predicates(
    tagger: ElmoForTokenClassification,
    tokenizer: ElmoTokenizer,
    sentences: Iterable[RoleSentence],
    labels: Collection[str] = (),
    batch_size: int = 32,
) -> Iterator[RoleSentence]:
    """
    Yields the sentences with the predicates that a tagger finds, in order. Sentences that have predicates keep them.

    Args:
        tagger, tokenizer: The tagger and its tokenizer.
        labels: The tags of predicates, see [`predicate_labels`].
    """
    labels = predicate_labels(tagger, labels)
    waiting, read = itertools.tee(sentences)
    tagged = predict_tags(tagger, tokenizer, (sentence.words for sentence in read), batch_size)
    for sentence, (_, tags) in zip(waiting, tagged, strict=True):
        predicates = [place for place, tag in enumerate(tags or ()) if tag in labels]
        yield sentence if sentence.predicates else sentence._replace(predicates=predicates)


def predict_roles(
    model: ElmoForSemanticRoles,
    tokenizer: ElmoTokenizer,
    sentences: Iterable[RoleSentence],
    batch_size: int = 32,
) -> Iterator[RoleSentence]:
    """Yields the sentences with the roles of their predicates, in order."""
    names = model.config.label_names

    def answer(batch: list[RoleSentence]) -> list[RoleSentence]:
        rows = [(sentence.words, predicate) for sentence in batch for predicate in sentence.predicates]
        starts = range(0, len(rows), batch_size)
        tags = chain.from_iterable(tags_of(rows[start : start + batch_size]) for start in starts)
        return [sentence._replace(tags=[next(tags) for _ in sentence.predicates]) for sentence in batch]

    def tags_of(rows: list[tuple[list[str], int]]) -> list[list[str]]:
        inputs = tokenizer(
            [words for words, _ in rows],
            is_split_into_words=True,
            padding=True,
            padding_side="right",
            return_tensors="pt",
        )
        inputs["predicate_mask"] = mark_predicates(inputs, [predicate for _, predicate in rows])
        with cpu_slots(model.device):
            labels = model(**inputs.to(model.device)).logits.argmax(dim=-1).tolist()
        return [
            [names[label] for label in row[1 : len(words) + 1]] for (words, _), row in zip(rows, labels, strict=True)
        ]

    def length(sentence: RoleSentence) -> int:
        return len(sentence.words) if sentence.predicates else 0

    refuse_training(model)
    return in_batches(sentences, answer, length, batch_size, lambda sentence: sentence._replace(tags=[]))


__all__ = ["mark_found_predicates", "predicate_labels", "predict_roles", "read_marked_predicates"]
