"""
Reads text with word senses, in three formats:

- `semcor`: word, lemma, tag, sense keys and synset in columns separated by tabs, one word per line, blank lines between
  sentences, `# document = NAME` before each document;
- `xml`: the unified evaluation framework of Raganato et al. (2017), with the senses in a second file;
- `plain`: a sentence, the position of a word in it and its sense, separated by tabs, one occurrence per line.
"""

import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple, cast
from xml.etree import ElementTree
from xml.parsers.expat import ErrorString

from ..data.tables import numbered_lines
from ..data.text_sources import source_name, split_words
from ..errors import TextError, counted

SenseFormat = Literal["semcor", "xml", "plain"]

NO_SENSE, CONTINUED = "-", "^"  # in the sense column: none; the word belongs to the multi-word before it
SENSE_KEY = re.compile(r"(?P<lemma>.+)%(?P<pos>[1-5]):")  # WordNet's, as bank%1:17:01::
KEY_POS = {"1": "noun", "2": "verb", "3": "adjective", "4": "adverb", "5": "adjective"}
TAG_POS = {"NN": "noun", "VB": "verb", "MD": "verb", "JJ": "adjective", "RB": "adverb"}  # the start of Penn tags
UNIVERSAL_POS = {"NOUN": "noun", "VERB": "verb", "ADJ": "adjective", "ADV": "adverb"}
SHORT_POS = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}
DOCUMENT = re.compile(r"#\s*document\s*=\s*(?P<name>.*\S)\s*")
DATA, KEYS = ".data.xml", ".gold.key.txt"  # endings of the two files of the XML format
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")
SEMCOR_COLUMNS = "word, lemma, tag, sense keys and synset, separated by tabs,"
PLAIN_COLUMNS = "a sentence, a position and a sense, separated by tabs,"


class SenseInstance(NamedTuple):
    """
    A word, or several, with a sense.

    Attributes:
        start, end: The first word in the sentence, and the word after the last.
        lemma: The lemma in lower case. It determines the candidate senses, together with the part of speech.
        pos: "noun", "verb", "adjective", "adverb", another name from the data, or an empty string.
        senses: One or more correct senses.
    """

    start: int
    end: int
    lemma: str
    pos: str
    senses: tuple[str, ...]


class SenseSentence(NamedTuple):
    """
    A sentence and its words with senses.

    Attributes:
        words: The words that the model reads; multi-word expressions are split.
        instances: The words with senses, in the order of the file.
        document: The name of the document; `None` if the format has no documents.
    """

    words: list[str]
    instances: list[SenseInstance]
    document: str | None = None


def read_senses(source: str, *, keys: str | None = None, kind: SenseFormat | None = None) -> list[SenseSentence]:
    """
    Reads the sentences of a file.

    Args:
        source: A file, plain or compressed.
        keys: The file with the senses of an XML file. Default: `X.gold.key.txt` beside `X.data.xml`.
        kind: The format. Default: detected from the first line.
    """
    if not os.path.isfile(source):
        raise TextError(f"No such file: {source}.")
    kind = kind or _kind(source)
    if keys is not None and kind != "xml":
        raise TextError(f"{source} is not an XML file, so its senses are not in {keys}: leave the keys out.")
    if kind == "xml":
        sentences = list(_read_xml(source, keys or _keys_beside(source)))
    elif kind == "semcor":
        sentences = list(_read_semcor(source))
    else:
        sentences = list(_read_plain(source))
    if not any(sentence.instances for sentence in sentences):
        raise TextError(f"{source}: no word has a sense.")
    return sentences


def _kind(source: str) -> SenseFormat:
    for line_number, line in numbered_lines(source):
        if line.lstrip().startswith("<"):
            return "xml"
        if not line.strip() or DOCUMENT.match(line):
            continue
        fields = line.split("\t")
        if len(fields) >= 3 and (fields[1].strip().isdigit() or _is_header(fields)):
            looks_like_key = len(fields) > 3 and (fields[3] in (NO_SENSE, CONTINUED) or "%" in fields[3])
            return "semcor" if looks_like_key else "plain"
        if len(fields) in (4, 5):
            return "semcor"
        raise TextError(
            f"{source_name(source)}, line {line_number}: none of the three formats: {SEMCOR_COLUMNS} or "
            f"{PLAIN_COLUMNS} or XML should be here, found {line!r:.60}."
        )
    raise TextError(f"{source} is empty.")


# ---- documents


class Split(NamedTuple):
    """The sentences for training and for the test."""

    train: list[SenseSentence]
    test: list[SenseSentence]


def split_by_document(sentences: Sequence[SenseSentence], test_share: float, seed: int = 0) -> Split:
    """
    Splits a text by documents: some are chosen at random for the test, all others are for training. Sentences stay in
    order.

    Args:
        test_share: The share of documents for the test, above 0 and below 1. Both sides get at least one document.
        seed: The seed of the choice.
    """
    if not 0 < test_share < 1:
        raise ValueError(f"The share of the test must be above 0 and below 1, found {test_share}.")
    documents = list(dict.fromkeys(sentence.document for sentence in sentences))
    if None in documents:
        raise TextError("The text has no documents to split by: name a file for training and another for the test.")
    if len(documents) < 2:
        raise TextError(f"The text is one document, {documents[0]!r}: it cannot be split by documents.")
    count = min(max(round(test_share * len(documents)), 1), len(documents) - 1)
    chosen = set(random.Random(seed).sample(sorted(cast(list[str], documents)), count))
    train, test = (
        [sentence for sentence in sentences if (sentence.document in chosen) is is_test] for is_test in (False, True)
    )
    return Split(train, test)


# ---- columns


def _read_semcor(source: str) -> Iterator[SenseSentence]:
    document: str | None = None
    rows: list[tuple[str, list[str]]] = []
    for line_number, line in chain(numbered_lines(source), [(0, "")]):
        is_comment = line.startswith("#") and "\t" not in line  # with tabs it is the word "#"
        if line.strip() and not is_comment:
            fields = line.split("\t")
            where = f"{source_name(source)}, line {line_number}"
            if len(fields) not in (4, 5):
                raise TextError(f"{where}: {SEMCOR_COLUMNS} should be here, found {line!r:.60}.")
            rows.append((where, fields))
            continue
        if rows:
            yield _semcor_sentence(rows, document)
            rows = []
        if match := DOCUMENT.fullmatch(line):
            document = match["name"]


def _semcor_sentence(rows: list[tuple[str, list[str]]], document: str | None) -> SenseSentence:
    words: list[str] = []
    instances: list[SenseInstance] = []
    is_open = False  # whether the last word belongs to the last instance
    for where, (word, lemma, tag, keys, *_) in rows:
        if not word.strip():
            raise TextError(f"{where}: a word should be in the first column, found nothing.")
        start = len(words)
        words += split_multi_word(word)
        if keys == CONTINUED:
            if not is_open:
                raise TextError(f"{where}: {CONTINUED} continues a word with a sense, and there is none before it.")
            instances[-1] = instances[-1]._replace(end=len(words))
        elif keys == NO_SENSE:
            is_open = False
        else:
            senses = _sense_keys(where, keys)
            pos = TAG_POS.get(tag[:2]) or _of_key(senses[0])[1]
            name = lemma.lower() if lemma not in ("", "_") else _of_key(senses[0])[0]
            instances.append(SenseInstance(start, len(words), name or word.lower(), pos, senses))
            is_open = True
    return SenseSentence(words, instances, document)


def split_multi_word(word: str) -> list[str]:
    """Splits a multi-word expression at `_` and blanks. A word that consists only of these is not split."""
    return [part for part in re.split(r"[_\s]+", word) if part] or [word]


def _sense_keys(where: str, keys: str) -> tuple[str, ...]:
    """The sense keys of a column. `year%1:28:02::;1:28:01::` holds two keys of one lemma."""
    senses: list[str] = []
    for key in keys.split(";"):
        if "%" not in key and senses:
            key = f"{senses[0].partition('%')[0]}%{key}"
        if not SENSE_KEY.match(key):
            raise TextError(
                f"{where}: a sense key such as bank%1:17:01:: or {NO_SENSE} should be in the fourth column, found "
                f"{keys!r:.60}."
            )
        senses.append(key)
    return tuple(dict.fromkeys(senses))


def _of_key(sense: str) -> tuple[str, str]:
    """The lemma and the part of speech of a sense key; empty strings if a sense is not a key."""
    match = SENSE_KEY.match(sense)
    return (match["lemma"].lower(), KEY_POS[match["pos"]]) if match else ("", "")


# ---- XML


def _keys_beside(source: str) -> str:
    name, compressed = source, ""
    for ending in COMPRESSED:
        if source.endswith(ending):
            name, compressed = source.removesuffix(ending), ending
    stem = name.removesuffix(DATA) if name.endswith(DATA) else os.path.splitext(name)[0]
    for path in (stem + KEYS, stem + KEYS + compressed):
        if os.path.isfile(path):
            return path
    raise TextError(f"{source}: the senses of an XML file are in another one, and there is no {stem + KEYS}: name it.")


def _read_keys(path: str) -> dict[str, tuple[str, ...]]:
    """The senses of each instance. A line has the id of an instance and one or more senses, separated by blanks."""
    senses: dict[str, tuple[str, ...]] = {}
    for line_number, line in numbered_lines(path):
        fields = line.split()
        if len(fields) == 1:
            raise TextError(
                f"{path}, line {line_number}: an instance and its senses should be here, found {line!r:.60}."
            )
        if fields:
            if fields[0] in senses:
                raise TextError(f"{path}, line {line_number}: the instance {fields[0]!r:.60} has its senses twice.")
            senses[fields[0]] = tuple(fields[1:])
    return senses


def _read_xml(source: str, keys: str) -> Iterator[SenseSentence]:
    if not os.path.isfile(keys):
        raise TextError(f"No such file: {keys}.")
    senses = _read_keys(keys)
    parser = ElementTree.XMLPullParser(events=("start", "end"))
    document: str | None = None
    line_number = 0
    lines: dict[ElementTree.Element, int] = {}  # where the elements of the sentence begin
    try:
        for line_number, line in numbered_lines(source):
            parser.feed(line + "\n")
            for event, element in cast(Iterator[tuple[str, ElementTree.Element]], parser.read_events()):
                if event == "start":
                    lines[element] = line_number
                    if element.tag == "text":
                        document = element.get("id") or ""
                elif element.tag == "sentence":
                    places = [f"{source_name(source)}, line {lines[part]}" for part in element]
                    yield _xml_sentence(element, senses, document, places, keys)
                    element.clear()
                    lines.clear()
        parser.close()
    except ElementTree.ParseError as error:
        # Without the parser's own place, which may be a line further.
        problem = ErrorString(error.code)
        raise TextError(f"{source_name(source)}, line {line_number}: not valid XML ({problem}).") from error


def _xml_sentence(
    element: ElementTree.Element,
    senses: Mapping[str, tuple[str, ...]],
    document: str | None,
    places: Sequence[str],
    keys: str,
) -> SenseSentence:
    """The sentence of an element. `places` are the file and line of each of its parts, for messages."""
    words: list[str] = []
    instances: list[SenseInstance] = []
    for where, part in zip(places, element, strict=True):
        if part.tag not in ("wf", "instance"):
            raise TextError(f"{where}: a sentence has elements wf and instance, found {part.tag!r:.60}.")
        text = (part.text or "").strip()
        if not text:
            raise TextError(f"{where}: an element {part.tag} without a word.")
        start = len(words)
        words += split_multi_word(text)
        if part.tag == "instance":
            name = part.get("id")
            if name is None:
                raise TextError(f"{where}: the instance {text!r:.60} has no id.")
            if name not in senses:
                raise TextError(f"{where}: the instance {name} has no sense in {keys}.")
            lemma, pos = part.get("lemma") or "", part.get("pos") or ""
            own = _of_key(senses[name][0])
            pos = UNIVERSAL_POS.get(pos.upper(), pos.lower()) or own[1]
            instances.append(SenseInstance(start, len(words), (lemma or own[0] or text).lower(), pos, senses[name]))
    return SenseSentence(words, instances, document)


# ---- one occurrence per line


def _is_header(fields: Sequence[str]) -> bool:
    return fields[1].strip().lower() == "position"


def _read_plain(source: str) -> Iterator[SenseSentence]:
    """Yields the sentences. Adjacent lines with the same sentence become one sentence."""
    text, words = None, []  # the sentence of the last line, and its words before multi-words are split
    sentence = SenseSentence([], [])
    for line_number, line in numbered_lines(source):
        if not line.strip():
            continue
        where = f"{source_name(source)}, line {line_number}"
        fields = [field.strip() for field in line.split("\t")]
        if line_number == 1 and len(fields) >= 3 and _is_header(fields):
            continue
        if not 3 <= len(fields) <= 5 or not fields[2]:
            raise TextError(f"{where}: {PLAIN_COLUMNS} should be here, found {line!r:.60}.")
        if text != fields[0]:
            if text is not None:
                yield sentence
            text, words = fields[0], split_words(fields[0])
            sentence = SenseSentence([part for word in words for part in split_multi_word(word)], [])
        sentence.instances.append(_plain_instance(where, fields, words))
    if text is not None:
        yield sentence


def _plain_instance(where: str, fields: Sequence[str], words: Sequence[str]) -> SenseInstance:
    position, sense = fields[1], fields[2]
    if not (position.isascii() and position.isdigit()):
        raise TextError(
            f"{where}: the position of a word, a number counted from 0, should be here, found {position!r}."
        )
    place = int(position)
    if place >= len(words):
        raise TextError(f"{where}: position {place} in a sentence of {counted(len(words), 'word')}, counted from 0.")
    lemma, pos = _of_key(sense)
    if len(fields) > 3 and fields[3]:
        lemma = fields[3].lower()
    if len(fields) > 4 and fields[4]:
        pos = UNIVERSAL_POS.get(fields[4].upper()) or SHORT_POS.get(fields[4].lower()) or fields[4].lower()
    start = sum(len(split_multi_word(word)) for word in words[:place])
    end = start + len(split_multi_word(words[place]))
    return SenseInstance(start, end, lemma or words[place].lower(), pos, (sense,))


# ---- WordNet's order of senses


def read_first_senses(path: str) -> dict[tuple[str, str], str]:
    """
    The first sense of each lemma and part of speech, from WordNet's file `index.sense`: sense key, synset, number of
    the sense, and a count, separated by blanks.
    """
    first_senses: dict[tuple[str, str], str] = {}
    if not os.path.isfile(path):
        raise TextError(f"No such file: {path}.")
    for line_number, line in numbered_lines(path):
        fields = line.split()
        if not fields:
            continue
        if len(fields) < 3 or not SENSE_KEY.match(fields[0]) or not fields[2].isdigit():
            raise TextError(
                f"{path}, line {line_number}: a sense key, its synset and its number should be here, as in WordNet's "
                f"index.sense, found {line!r:.60}."
            )
        if fields[2] == "1":
            first_senses.setdefault(_of_key(fields[0]), fields[0])
    if not first_senses:
        raise TextError(f"{path} holds no first sense: it should be WordNet's index.sense.")
    return first_senses


__all__ = [
    "SenseFormat",
    "SenseInstance",
    "SenseSentence",
    "Split",
    "read_first_senses",
    "read_senses",
    "split_by_document",
    "split_multi_word",
]
