"""Small pipelines for spaCy."""

import spacy
from spacy.language import Language
from spacy.tokens import Doc

TEXT = "The bank was closed.  He sat on the bank of the river.\n\nDon't swim!"


def blank(component: str, sentences: bool = True, **config) -> Language:
    """An English pipeline without trained parts, with one component of this package."""
    nlp = spacy.blank("en")
    if sentences:
        nlp.add_pipe("sentencizer")
    nlp.add_pipe(component, config=config)
    return nlp


def words_of(doc: Doc) -> list[list[str]]:
    """The words of each sentence."""
    return [[token.text for token in sentence if not token.is_space] for sentence in doc.sents]


def rows_of(doc: Doc) -> list[list[int]]:
    """The places of the words of each sentence."""
    return [[token.i for token in sentence if not token.is_space] for sentence in doc.sents]
