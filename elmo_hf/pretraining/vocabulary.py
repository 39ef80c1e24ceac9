"""The vocabulary of a language model, counted from its text."""

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
        words: By id: `<S>`, `</S>` and `<UNK>`, then by falling frequency.
        tokens: How many words the text has.
        covered: How many of them are in `words`.
    """

    words: list[str]
    tokens: int
    covered: int


def count_words(sentences: Iterable[str], tokenizer: ElmoTokenizer, *, pretokenized: bool) -> Counter[str]:
    """
    How often each word occurs.

    Args:
        sentences: The text.
        tokenizer: Cuts sentences into words.
        pretokenized: Whether words are what blanks separate, rather than what the tokenizer makes of a sentence.
    """
    with segmenter_errors():
        return Counter(chain.from_iterable(map(_splitter(tokenizer, pretokenized), sentences)))


def count_steps(corpus: Corpus, tokenizer: ElmoTokenizer, *, pretokenized: bool, progress: bool = True) -> int:
    """How many predictions a language model makes in each direction: all words, and one boundary a sentence."""
    split = _splitter(tokenizer, pretokenized)
    sentences = _with_progress(corpus) if progress else corpus.sentences()
    with segmenter_errors():
        return sum(len(split(sentence)) + 1 for sentence in sentences)


def _splitter(tokenizer: ElmoTokenizer, pretokenized: bool) -> Callable[[str], list[str]]:
    if pretokenized:
        return split_words
    # Not `tokenize()`, which leaves lone surrogates as they are: no vocabulary file could hold them.
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
    The most frequent words of a corpus, ties by the alphabet. The memory it takes grows with the distinct words only.

    Args:
        corpus: The text.
        tokenizer: Cuts sentences into words, and has the special ones.
        size: Words at most, `<S>`, `</S>` and `<UNK>` included.
        min_count: Rarer words are left out.
        pretokenized: Whether words are what blanks separate, rather than what the tokenizer makes of a sentence.
        progress: Whether to show a progress bar.
    """
    specials = [tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token]
    frequent_words(Counter(), specials, size)  # refuses a size now rather than after the counting
    sentences = _with_progress(corpus) if progress else corpus.sentences()
    counts = count_words(sentences, tokenizer, pretokenized=pretokenized)
    if (most := max(counts.values())) < min_count:
        raise TextError(f"No word occurs {min_count} times, and the most frequent one {most}: choose a lower count.")
    # As for the tokenizer's own vocabularies: a mark in the text is no word.
    words = frequent_words(counts, [*specials, tokenizer.pad_token], size + 1, min_count)
    words.remove(tokenizer.pad_token)
    return Vocabulary(words, counts.total(), sum(counts[word] for word in words[len(specials) :]))


def _with_progress(corpus: Corpus) -> Iterator[str]:
    """The sentences of a corpus, and a bar over its bytes where standard error is a terminal."""
    number, start = 0, monotonic()
    with tqdm(total=corpus.size or None, desc="counting words", unit="B", unit_scale=True, disable=None) as bar:

        def report(size: int):
            speed = number / max(monotonic() - start, 1e-9)
            bar.set_postfix_str(f"{speed:,.0f} sentences/s", refresh=False)
            bar.update(size)

        for number, sentence in enumerate(corpus.sentences(report=report), start=1):  # noqa: B007
            yield sentence


__all__ = ["Vocabulary", "build_vocabulary", "count_steps", "count_words"]
