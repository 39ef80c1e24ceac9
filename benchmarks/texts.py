"""What the benchmarks read: distinct sentences, running text of any length, and both as character ids."""

import itertools
import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import SHARED
from elmo_hf.modeling.spelling_elmo import ByteSpelling

ENGLISH = SHARED / "corpora" / "english"
HELDOUT = ENGLISH / "heldout.txt.xz"

# Follow the sentences of AllenNLP's own tests, where those are at hand.
SENTENCES = """
The harbour was empty when we came down to it , for the fleet had sailed before dawn . Nobody answered . In the second
year of the survey , the party crossed the river at three places , measured its depth after every storm , and sent
home forty-one sheets of drawings , most of which were lost when the warehouse burned . She kept the letters in a tin
box under the stairs . What would you have done ? The committee meets on the first Tuesday of each month , except in
August , and its minutes are open to any member who asks for them in writing . A good map is an argument about what
matters . The old man , without looking up from his work , told them for the second time that " the mill " was not for
sale , and that he would not change his mind because the weather had . Rain fell all week . The bridge , which had
been closed to carts since the flood , was opened again in the spring of 1884 , although the engineers still disagreed
about the state of its northern pier . Copper conducts heat far better than iron does . He did n't know whether to
laugh or to leave . Between the orchard and the road there ran a low wall of grey stone , so overgrown with ivy that
visitors often took it for a hedge , and it was there that the children hid whatever they did not wish to carry home .
Prices rose by 4.2 per cent , the largest increase in nine years . If the lamp goes out , wait for me . Most of the
birds that winter on these marshes arrive in late October , feed on the exposed mud at low tide , and leave within a
few days of the first warm wind from the south . The judge thanked the witnesses and adjourned until ten o'clock . Her
first novel sold poorly ; her second , written in six weeks to pay the rent , has never been out of print . Stop here
! It is easy to forget how recently the streets of our cities were dark at night , and how much of what we now call
evening was spent in bed . The recipe calls for two cups of flour , a pinch of salt , butter the size of an egg , and
patience . We were wrong . After the war he returned to teaching , bought a small house near the station , and for
thirty years walked the same two miles to school and back , greeting the same dogs . Students who miss the examination
because of illness may sit it again in September without paying a second fee . The glacier has retreated by almost a
kilometre since it was first photographed . Then the engine coughed , caught , and settled into a steady roar that
made further conversation impossible . A language with no word for " blue " is not a language whose speakers cannot
see the sky . They sold the cow . According to the report , which runs to more than 600 pages and took four years to
write , the accident could have been prevented by any one of eleven people , none of whom believed that it was his job
. My sister plays the cello , badly but with conviction . Light from the nearest star takes a little over four years
to reach us . When the museum finally unpacked the crates , it found that the labels had been eaten by mice , and that
nobody alive could say which of the bones belonged to which of the animals . The vote was unanimous . Take the second
turning on the left , go past the chapel and the blacksmith 's yard , and you will see the sea .
"""


def read_sentences(path: Path | None) -> list[list[str]]:
    """The distinct sentences of a file (one a line, words separated by spaces), or of the default text, as words."""
    if path is not None:
        texts = path.read_text(encoding="utf-8").splitlines()
    else:
        fixture = SHARED / "fixtures" / "allennlp" / "sentences.json"
        texts = list(itertools.chain(*json.loads(fixture.read_text(encoding="utf-8")))) if fixture.exists() else []
        texts += re.split(r"(?<=\s[.?!])\s+", SENTENCES.strip())
    return [text.split() for text in dict.fromkeys(texts) if text.strip()]


def read_corpus(count: int) -> tuple[list[list[str]], str]:
    """
    The first sentences of a real text as words, and where they are from: `corpora/english/heldout.txt.xz` under
    `$ELMO_HF_SHARED` or `../shared`; where that is missing, the default text. Repeated if it is too short.
    """
    return list(itertools.islice(itertools.cycle(_corpus()), count)), HELDOUT.name if HELDOUT.exists() else __name__


def read_words(count: int) -> list[str]:
    """A document of so many words, the sentences of [`read_corpus`] one after the other."""
    return list(itertools.islice(itertools.chain.from_iterable(itertools.cycle(_corpus())), count))


def _corpus() -> Iterator[list[str]]:
    if not HELDOUT.exists():
        yield from read_sentences(None)
        return
    with lzma.open(HELDOUT, "rt", encoding="utf-8") as file:
        for line in file:
            if words := line.split():
                yield words


def character_ids(sentences: list[list[str]], boundaries: bool) -> np.ndarray:
    """`(sentences, words, 50)`, with or without `<S>` and `</S>`; zero where a sentence has ended."""
    spelling = ByteSpelling()
    rows = [spelling.rows(words, 50) for words in sentences]
    if boundaries:
        first, last = spelling.boundary(spelling.begin_sentence, 50), spelling.boundary(spelling.end_sentence, 50)
        rows = [np.vstack([first, sentence, last]) for sentence in rows]
    ids = np.zeros((len(rows), max(map(len, rows)), rows[0].shape[1]), dtype=np.int64)
    for place, sentence in zip(ids, rows, strict=True):
        place[: len(sentence)] = sentence
    return ids
