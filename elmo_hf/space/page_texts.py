"""The texts of the page by language: what is searched for neighbours, and the examples of each tab."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..demo.texts import TEXTS, DemoTexts

CHINESE = re.compile("[一-鿿]")


class PageTexts(NamedTuple):
    """
    The texts of a language.

    Attributes:
        corpus: The sentences that are searched for neighbours.
        senses: Examples of a word and of sentences that contain it.
        marked: Examples of sentences with a marked word.
        sentences: Examples of sentences for the language model; one word may be marked.
        tagged: Examples of sentences to tag.
    """

    corpus: list[str]
    senses: list[tuple[str, list[str]]]
    marked: list[str]
    sentences: list[str]
    tagged: list[str]


def texts_of(language: str) -> PageTexts:
    """The texts of a language: "zh", or "en" for any other."""
    return _chinese() if language == "zh" else _english()


def language_of(vocabulary: Iterable[str]) -> str:
    """ "zh" if at least half of the words of a vocabulary have Chinese characters, otherwise "en"."""
    words = list(vocabulary)
    chinese = sum(CHINESE.search(word) is not None for word in words)
    return "zh" if words and chinese >= len(words) / 2 else "en"


def _senses(texts: DemoTexts) -> list[tuple[str, list[str]]]:
    """Words with sentences of each of their senses."""
    return [(word, [line for lines in senses.values() for line in lines]) for word, senses in texts.examples.items()]


def _marked(texts: DemoTexts) -> list[str]:
    """A sentence of each sense, with its word marked."""
    by_word = texts.examples.items()
    return [lines[0].replace(word, f"**{word}**", 1) for word, senses in by_word for lines in senses.values()]


def _english() -> PageTexts:
    texts = TEXTS["en"]
    senses = [("bat", [line for lines in texts.read()["bat"].values() for line in lines[:3]]), *_senses(texts)]
    sentences = [
        "He sat on the **bank** of the river.",
        "The president of the company said that profits **rose** last year.",
        "The cat sat on the",
        "Colorless green ideas sleep furiously.",
    ]
    tagged = [
        "Maria Sharapova flew from Moscow to New York on Monday to watch the new film by Steven Spielberg.",
        "The old man the boat, but they can fish in the river.",
        "I can't believe that Microsoft closed its office in Dublin!",
    ]
    return PageTexts(texts.sentences(), senses, _marked(texts), sentences, tagged)


def _chinese() -> PageTexts:
    texts = TEXTS["zh"]
    sentences = ["他在一家公司开发新的**软件**。", "今天的天气非常好。"]
    tagged = ["小明在北京大学学习中文。", "苹果公司在上海开设了新的商店。"]
    return PageTexts(texts.sentences(), _senses(texts), _marked(texts), sentences, tagged)


__all__ = ["PageTexts", "language_of", "texts_of"]
