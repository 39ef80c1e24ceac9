"""The context of a word in a text: the words before and after it."""

from typing import NamedTuple

from ..data.marked_words import read_marked
from ..data.sentences import Sentence, checked
from ..errors import TextError, counted
from ..modeling.encoding_elmo import without_surrogates
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..modeling.word_splitting_elmo import segmenter_errors


class Context(NamedTuple):
    """
    The words of a text around a position.

    Args:
        before: The words before the position.
        inside: The word at the position. There may be several, or none, if the user marked as many.
        after: The words after the position.
    """

    before: list[str]
    inside: list[str]
    after: list[str]


def find_context(text: Sentence, position: int | tuple[int, int] | None, tokenizer: ElmoTokenizer) -> Context:
    """
    Splits a text into the words before, at and after a position.

    Args:
        text: A text with a `**marked**` word, or a text or a list of words together with a position.
        position: The index of the word in a list of words, from 0; or its start and end in a text.
        tokenizer: Splits the text into words.
    """
    if not isinstance(text, str):
        words = list(next(checked([text])))
        if not isinstance(position, int) or not 0 <= position < len(words):
            raise TextError(
                f"Of {counted(len(words), 'word')} the position must be 0 to {len(words) - 1}, found {position!r}."
            )
        return Context(words[:position], [words[position]], words[position + 1 :])
    if position is None:
        return _around(*read_marked(text), tokenizer)
    if not isinstance(position, tuple) or len(position) != 2 or not 0 <= position[0] <= position[1] <= len(text):
        raise TextError(
            f"The position in a text of {counted(len(text), 'character')} is (start, end), found {position!r}."
        )
    return _around(text, *position, tokenizer)


def _around(text: str, start: int, end: int, tokenizer: ElmoTokenizer) -> Context:
    with segmenter_errors():
        spans = [span for _, span in tokenizer._raw_pre_tokenizer().pre_tokenize_str(without_surrogates(text))]
    context = Context([], [], [])
    for first, last in spans:
        word = text[first:last]
        if last <= start:
            context.before.append(word)
        elif first >= end:
            context.after.append(word)
        elif start <= first and last <= end:
            context.inside.append(word)
        else:
            raise TextError(f"{text[start:end]!r:.60} is only a part of the word {word!r:.60}: mark all of it.")
    return context


__all__ = ["Context", "find_context"]
