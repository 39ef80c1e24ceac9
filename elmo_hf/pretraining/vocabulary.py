"""Builds the vocabulary of a language model from its text."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from time import monotonic
from typing import NamedTuple

from tqdm import tqdm

from ..errors import TextError
from ..modeling.encoding_elmo import without_surrogates
from ..modeling.tokenization_elmo import ElmoTokenizer
from ..modeling.tokenizer_files_elmo import frequent_words
from ..modeling.word_splitting_elmo import check_word_lengths, segmenter_errors
from .text import Corpus, split_words


class Vocabulary(NamedTuple):
    """
    The words of a language model.

    Args:
        words: The words in the order of their ids: `<S>`, `</S>`, `<UNK>`, then the others, the most frequent first.
        tokens: The number of words of the text.
        covered: The number of words of the text that are in the vocabulary.
    """

    words: list[str]
    tokens: int
    covered: int


def count_words(sentences: Iterable[str], tokenizer: ElmoTokenizer, *, pretokenized: bool) -> Counter[str]:
    """
    Counts the occurrences of each word.

    Args:
        sentences: The text.
        tokenizer: Splits sentences into words.
        pretokenized: Whether words are separated by blanks. Otherwise the tokenizer splits the sentences.
    """
    with segmenter_errors():
        return Counter(chain.from_iterable(map(_splitter(tokenizer, pretokenized), sentences)))


def count_steps(corpus: Corpus, tokenizer: ElmoTokenizer, *, pretokenized: bool, progress: bool = True) -> int:
    """The number of predictions per direction: one per word, and one per sentence for its boundary."""
    split = _splitter(tokenizer, pretokenized)
    sentences = _with_progress(corpus) if progress else corpus.sentences()
    with segmenter_errors():
        return sum(len(split(sentence)) + 1 for sentence in sentences)


def _splitter(tokenizer: ElmoTokenizer, pretokenized: bool) -> Callable[[str], list[str]]:
    if pretokenized:
        return split_words
    # Not `tokenize()`, which keeps lone surrogates: no vocabulary file can hold them.
    cut = tokenizer._raw_pre_tokenizer().pre_tokenize_str
    splitting, segmenter = tokenizer.splitting, tokenizer._rust_segmenter

    def split(sentence: str) -> list[str]:
        check_word_lengths("text", sentence, splitting, segmenter)
        return [word for word, _ in cut(without_surrogates(sentence))]

    return split


def build_vocabulary(
    corpus: Corpus,
    tokenizer: ElmoTokenizer,
    *,
    size: int,
    min_count: int = 1,
    pretokenized: bool = False,
    progress: bool = True,
) -> Vocabulary:
    """
    Builds a vocabulary of the most frequent words of a corpus; equally frequent words are in alphabetical order. Memory
    grows only with the number of distinct words.

    Args:
        corpus: The text.
        tokenizer: Splits sentences into words, and defines the special tokens.
        size: The maximum number of words, including `<S>`, `</S>` and `<UNK>`.
        min_count: The minimum number of occurrences of a word.
        pretokenized: Whether words are separated by blanks. Otherwise the tokenizer splits the sentences.
        progress: Whether to show a progress bar.
    """
    specials = [tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token]
    frequent_words(Counter(), specials, size)  # checks the size before the counting
    sentences = _with_progress(corpus) if progress else corpus.sentences()
    counts = count_words(sentences, tokenizer, pretokenized=pretokenized)
    if (most := max(counts.values())) < min_count:
        raise TextError(f"No word occurs {min_count} times, and the most frequent one {most}: choose a lower count.")
    # As in the tokenizer's own vocabularies: a special token in the text is not a word.
    words = frequent_words(counts, [*specials, tokenizer.pad_token], size + 1, min_count)
    words.remove(tokenizer.pad_token)
    return Vocabulary(words, counts.total(), sum(counts[word] for word in words[len(specials) :]))


def _with_progress(corpus: Corpus) -> Iterator[str]:
    """Yields the sentences of a corpus, with a progress bar over its bytes if standard error is a terminal."""
    num_sentences, start = 0, monotonic()
    with tqdm(total=corpus.size or None, desc="counting words", unit="B", unit_scale=True, disable=None) as bar:

        def report(size: int):
            speed = num_sentences / max(monotonic() - start, 1e-9)
            bar.set_postfix_str(f"{speed:,.0f} sentences/s", refresh=False)
            bar.update(size)

        for num_sentences, sentence in enumerate(corpus.sentences(report=report), start=1):  # noqa: B007
            yield sentence


__all__ = ["Vocabulary", "build_vocabulary", "count_steps", "count_words"]
