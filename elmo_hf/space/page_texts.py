"""The texts of the page by language: what is searched for neighbours, and the examples of each tab."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..demo.senses import EXAMPLES, read_text

# Written for this project, with the licence of its code: one sentence per line.
CHINESE_TEXT = Path(__file__).with_name("chinese.txt")
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


def _english() -> PageTexts:
    text = read_text()
    corpus = [line for senses in text.values() for sentences in senses.values() for line in sentences]
    senses = [("bat", [line for lines in text["bat"].values() for line in lines[:3]])]
    senses += [(word, [line for lines in by_sense.values() for line in lines]) for word, by_sense in EXAMPLES.items()]
    marked = [
        lines[0].replace(word, f"**{word}**", 1) for word, by_sense in EXAMPLES.items() for lines in by_sense.values()
    ]
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
    return PageTexts(corpus, senses, marked, sentences, tagged)


def _chinese() -> PageTexts:
    corpus = CHINESE_TEXT.read_text(encoding="utf-8").splitlines()
    senses = [
        ("苹果", ["他吃了一个又红又甜的苹果。", "果园里的苹果熟了。", "苹果发布了新的手机。", "苹果的股票下跌了。"]),
        ("杜鹃", ["杜鹃在山里叫个不停。", "一只杜鹃飞到树上。", "阳台上的杜鹃开花了。", "她给杜鹃浇水。"]),
    ]
    marked = [
        "他吃了一个又红又甜的**苹果**。",
        "**苹果**发布了新的手机。",
        "一只**杜鹃**飞到树上。",
        "她给**杜鹃**浇水。",
    ]
    sentences = ["他在一家公司开发新的**软件**。", "今天的天气非常好。"]
    tagged = ["小明在北京大学学习中文。", "苹果公司在上海开设了新的商店。"]
    return PageTexts(corpus, senses, marked, sentences, tagged)


__all__ = ["PageTexts", "language_of", "texts_of"]
