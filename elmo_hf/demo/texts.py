"""The sentences of the demo by language, word and sense. Written for this project, with the licence of its code."""

from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent


class DemoTexts(NamedTuple):
    """
    The sentences of a language.

    Attributes:
        senses: Word → its senses, in the order of the paragraphs of the text.
        examples: Word → sense → sentences that are compared with each other. None of them is in the text.
        drawn: The word of the picture.
        text: The file of the text: a paragraph per sense, a sentence per line.
    """

    senses: dict[str, list[str]]
    examples: dict[str, dict[str, list[str]]]
    drawn: str
    text: Path

    def read(self) -> dict[str, dict[str, list[str]]]:
        """The text: word → sense → sentences."""
        paragraphs = [part.splitlines() for part in self.text.read_text(encoding="utf-8").split("\n\n")]
        places = [(word, sense) for word, senses in self.senses.items() for sense in senses]
        text: dict[str, dict[str, list[str]]] = {word: {} for word in self.senses}
        for (word, sense), sentences in zip(places, paragraphs, strict=True):
            text[word][sense] = sentences
        return text

    def sentences(self) -> list[str]:
        """All sentences of the text."""
        return [sentence for senses in self.read().values() for part in senses.values() for sentence in part]


ENGLISH = DemoTexts(
    senses={
        "bank": ["river", "money"],
        "bat": ["animal", "club"],
        "spring": ["season", "metal"],
        "match": ["game", "fire"],
        "palm": ["tree", "hand"],
    },
    examples={
        "bank": {
            "river": [
                "They sat on the bank and watched the boats on the river.",
                "The stream had washed away part of the bank near the old mill.",
            ],
            "money": [
                "The bank refused to lend the company any more money.",
                "She opened an account at the bank with her first wages.",
            ],
        },
        "spring": {
            "season": [
                "In early spring the roses in our garden bloom.",
                "Every spring the birds sing in the apple trees.",
            ],
            "metal": [
                "The mechanic found a rusty spring inside the machine.",
                "There is a strong metal spring under the lid.",
            ],
        },
        "match": {
            "game": [
                "Our team won the match by two goals to one.",
                "The referee stopped the match because of the rain.",
            ],
            "fire": [
                "He struck a match and lit the lamp.",
                "She held the burning match to the candle.",
            ],
        },
    },
    drawn="palm",  # the word that the model tells apart best
    text=FOLDER / "text_en.txt",
)

CHINESE = DemoTexts(
    senses={
        "苹果": ["fruit", "company"],
        "杜鹃": ["bird", "flower"],
        "病毒": ["disease", "computer"],
        "包袱": ["bundle", "burden"],
        "火箭": ["space", "team"],
    },
    examples={
        "苹果": {
            "fruit": ["他吃了一个又红又甜的苹果。", "篮子里有几个青色的苹果。"],
            "company": ["苹果的新手机卖得很好。", "苹果的股价下跌了。"],
        },
        "杜鹃": {
            "bird": ["杜鹃在山里叫个不停。", "一只杜鹃飞到树上。"],
            "flower": ["阳台上的杜鹃开花了。", "她在门前种了许多杜鹃。"],
        },
        "病毒": {
            "disease": ["医生正在治疗感染病毒的儿童。", "这种病毒在鸟类中传播。"],
            "computer": ["电子邮件里的病毒偷走了他的密码。", "这个程序会清除计算机中的病毒。"],
        },
    },
    drawn="苹果",
    text=FOLDER / "text_zh.txt",
)

TEXTS = {"en": ENGLISH, "zh": CHINESE}
"""The sentences by language."""

__all__ = ["TEXTS", "DemoTexts"]
