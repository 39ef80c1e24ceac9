# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""
Splitting of raw text into words: `tokenizers` pre-tokenizers, which run in Rust and serialise into tokenizer.json.

"treebank" splits text like the English training corpus: `do n't`, `it 's`, `can not`, punctuation as separate words,
`U.S.` and `well-known` as one. "whitespace" splits only at white space, for text that is already tokenised. Nothing is
normalised, and every character that is not white space belongs to exactly one word, so that the span of a word is a
span of the original text.

The treebank rules are one regular expression, and every match is a word. Frequent alternatives come first; long
repetitions are possessive or bounded, so that the time is linear in the length of the text.
"""

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from tokenizers import NormalizedString, PreTokenizedString, Regex
from tokenizers.pre_tokenizers import PreTokenizer, Sequence, Split, WhitespaceSplit

from .tokenizer_files_elmo import rust_errors

SPLITTINGS = ("treebank", "whitespace")
SEGMENTERS = ("character", "run", "jieba")

# The regular expression library panics after 10 million steps of one match, and a match takes a few per character.
MAX_WORD_LENGTH = 1_000_000

Segmenter = Callable[[str], Iterable[str]]

# ---- Characters.

# Letters of scripts written without spaces; code points rather than \p{...} because Python's `re` reads them too.
SPACELESS = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003fffd"  # Han of the supplementary planes
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"  # kana
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0edf"  # Thai, Lao
    "\u1780-\u17d3\u17d7\u17dc-\u17e9\u1000-\u1049\u1050-\u109f\ua9e0-\ua9fe\uaa60-\uaa7f"  # Khmer, Myanmar
)
# Combining marks and invisible format characters stay with the character before them.
ATTACHED = r"[\p{M}\p{Cf}]"
# Symbols that the corpus leaves inside words (pounds, euros, degrees, times, plus-minus, (R)), unlike `$` and `%`.
SYMBOLS = r"[\p{Sc}&&[^$]]_\u00b0\u00d7\u00b1\u00ae\u2122\u00a9\u2032\u2033\u266d\u266f"
LETTER = rf"[\p{{L}}\p{{M}}\p{{N}}\p{{Cf}}{SYMBOLS}&&[^{SPACELESS}]]"
WORD_END = rf"(?!{LETTER})"
APOSTROPHE = r"['\u2019]"
MINUS = r"[-\u2212]"
# The en dash between letters or digits is a hyphen: `1990-95` is one word in the corpus.
HYPHEN = r"[-\u2010\u2011\u2013\u2212]"
CLOSING = r"[\"'\u201d\u2019\u00bb)\]}]"
OPENING = r"[\"'\u201c\u2018\u00ab(\[{]"

# ---- The most frequent words, matched without the rules below.

PLAIN = r'[A-Za-z]++(?=[ ,;?!")\]])'
MARK = rf'[,;:?!"()\[\]%$](?!{ATTACHED})|\.(?=[ \n"])'

# ---- Words split in two.

# The first halves of `can not`, `gon na`, `got ta`, `wan na`; the second half is an ordinary word.
FUSED = rf"(?:[Cc]an(?=not{WORD_END})|[GgWw](?:on|an)(?=na{WORD_END})|[Gg]ot(?=ta{WORD_END}))"
NOT = rf"[Nn]{APOSTROPHE}[Tt]{WORD_END}"
NEGATED = rf"{LETTER}+(?={NOT})"
ENDING = rf"{APOSTROPHE}(?:[sdmSDM]|ll|re|ve|LL|RE|VE){WORD_END}"
CLITIC = rf"{ENDING}(?:{HYPHEN}{LETTER}++)*+"  # `bull 's-eye`
# Words that begin with an apostrophe; before any other word it is an opening quotation mark.
ELISION = (
    rf"['\u2018\u2019](?:(?:em|un|ere|bout|cause|im|round|er|til|n|twould|twill|twere|[0-9]{{2}}s?){WORD_END}"
    rf"|t(?=(?:is|was){WORD_END}))"
)

# ---- Words that are not split.

# What joins two pieces: `o'clock`, `well-known`, `U.S.-based`, `3.5`, `1UP.com`, `me@home.net`, `1,000`, `10:30`.
JOINT = rf"(?:(?!{ENDING}){APOSTROPHE}|[.'\u2019]?{HYPHEN}|[.\u00b7@]|(?<=[0-9])[,:](?=[0-9]))(?={LETTER})"
# Also `-like` after a quotation, `.45`, `mid-` before `and`, and a period before a comma, which is not a full stop.
COMPOUND = rf"(?:{MINUS}|\.(?=[0-9]))?{LETTER}++(?:{JOINT}{LETTER}++)*+(?:-(?!-)|\.(?=[,;]))?"
ADDRESS = r"(?:https?://|ftp://|www\.)[\x21-\x7e&&[^<>\"]]*[A-Za-z0-9/]"

# ---- Abbreviations keep their period, but at the end of the text or of a paragraph it is a full stop.

TEXT_END = rf"{CLOSING}*+[^\S\n]*+(?:\n[^\S\n]*+\n|\s*+\z)"
# Inside the text it is a full stop before a word that rarely continues a sentence (`in the U.S. They`).
STARTERS = (
    "The|This|That|These|Those|There|Then|They|It|Its|I|He|His|She|Her|We|You|My|Our|Their|In|On|At|By|For|From|To"
    "|With|As|After|Before|During|Since|Until|When|While|Where|Although|Though|However|But|And|Or|So|If|Because"
    "|Also|Some|Many|Most|All|Both|Each|Another|Other|One|Two|Such|What|Who|Why|How|An?|Yet|Now|No|Not|Under"
)
SENTENCE_END = rf"(?:{TEXT_END}|{CLOSING}*+\s++{OPENING}?(?:{STARTERS})(?!\.|{HYPHEN}|{LETTER}))"
BEFORE_NAMES = (
    "Mr|Mrs|Ms|Dr|Drs|St|Ste|Sta|Mt|Ft|Adm|Gen|Gens|Col|Cmdr|Lt|Maj|Sgt|Cpl|Pvt|Capt|Brig|Rev|Hon|Prof|Pres|Sen"
    r"|Rep|Gov|Supt|Messrs|Mlle|Mme|MM|Fr|Bp|Abp|Thos|Geo|Wm|Chas|Jas|vs|cf|viz|esp|seq|e\.g|i\.e"
)
BEFORE_NUMBERS = (
    "Nos?|nos?|Vols?|vols?|pp|Op|op|Figs?|figs?|Chs?|chs?|ca|paras?|Rs|fl|lat|approx|Sec|Eqs?|Art"
    "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
)
AFTER_NAMES = (
    "Jr|Sr|Inc|Co|Corp|Ltd|Bros|Esq|Dept|Univ|Assn|Mfg|Ave|Blvd|etc|al|eds?|MSS?|var|spp?|ssp|tr|resp|abbr"
    "|ft|lbs?|oz|yds?|sq"
)
INITIALS = r"(?:\p{L}{1,2}\.)*\p{L}"  # `J.`, `U.S.`, `p.m.`, `Ph.D.`
ABBREVIATION = (
    r"(?=\p{L}{1,6}\.)"  # a cheap test before the long lists
    rf"(?:(?:{BEFORE_NAMES})\.(?!{TEXT_END})|(?:{BEFORE_NUMBERS})\.(?=\s?[0-9])"
    rf"|(?:{AFTER_NAMES}|{INITIALS})\.(?!{SENTENCE_END}))(?!\.|{HYPHEN}?{LETTER})"
)

# ---- Everything else.

DASH = r"-{2,}+|[\u2013\u2014\u2015]++"
ELLIPSIS = r"\.{3}"
PICTURE = rf"\p{{Extended_Pictographic}}[\x{{1F3FB}}-\x{{1F3FF}}{ATTACHED}]*+"  # with its skin tone
EMOJI = rf"[\x{{1F1E6}}-\x{{1F1FF}}]{{2}}{ATTACHED}*+|{PICTURE}(?:(?<=\u200d){PICTURE})*+"
SPACELESS_CHARACTER = rf"[{SPACELESS}]{ATTACHED}*+"
SPACELESS_RUN = rf"[{SPACELESS}][{SPACELESS}{ATTACHED}]*+"
ANYTHING = rf"\S{ATTACHED}*+"


def _treebank_split(spaceless: str) -> Split:
    """The treebank rules. `spaceless`: the expression for a word of a script without spaces."""
    frequent = [FUSED, PLAIN, MARK]
    words = [NEGATED, NOT, ABBREVIATION, ADDRESS, COMPOUND, CLITIC, ELISION]
    others = [DASH, ELLIPSIS, spaceless, EMOJI, ANYTHING]
    # Without this guard every alternative would be tried at every space.
    pattern = rf"(?!\s)(?:{'|'.join(frequent + words + others)})"
    return Split(Regex(pattern), behavior="removed", invert=True)


class _RunSegmenter:
    """Splits runs of scripts without spaces with a Python function: the only pre-tokenizer that is not in Rust."""

    _run_start = re.compile(f"[{SPACELESS}]")

    def __init__(self, name: str, segment: Segmenter) -> None:
        self._name = name
        self._segment = segment

    def pre_tokenize(self, text: PreTokenizedString) -> None:
        """Called by `tokenizers` with the text as the Rust rules have split it."""
        text.split(self._split_run)

    def _split_run(self, _: int, piece: NormalizedString) -> list[NormalizedString]:
        run = piece.normalized
        if not self._run_start.match(run):
            return [piece]
        words, position = [], 0
        for word in self._words(run):
            words.append(piece[position : position + len(word)])
            position += len(word)
        return words

    def _words(self, run: str) -> list[str]:
        """The segmenter's words. They are checked, since wrong ones would shift every offset after them."""
        try:
            words = [word for word in self._segment(run) if word]
            is_complete = "".join(words) == run
        except Exception as error:
            raise ValueError(f"segmenter {self._name!r} failed on {run!r}: {error!r}") from error
        if not is_complete:
            raise ValueError(f"segmenter {self._name!r} must return words that make up {run!r}, not {words!r}")
        return words


@contextmanager
def segmenter_errors() -> Generator[None, None, None]:
    """Restores the `ValueError` of a segmenter, which Rust wraps in a plain `Exception` with its text."""
    try:
        yield
    except Exception as error:
        _, prefix, message = str(error).partition("ValueError: segmenter ")
        if type(error) is not Exception or not prefix:
            raise
        raise ValueError(f"segmenter {message}") from None


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"unknown {name} {value!r}: choose one of {', '.join(choices)}")


def _load_jieba():
    try:
        import jieba
    except ImportError as error:
        raise ImportError('the segmenter "jieba" needs a package: pip install "elmo-hf[chinese]"') from error
    return jieba


def _split_with_jieba(run: str) -> Iterable[str]:
    """`jieba.cut`, in a function that can be pickled."""
    return _load_jieba().cut(run)


def resolve_segmenter(segmenter: str | Segmenter) -> Segmenter | None:
    """The function that splits a run into words; `None` for "character" and "run", which the Rust rules implement."""
    if callable(segmenter) and not isinstance(segmenter, str):
        return segmenter
    _check_choice("segmenter", segmenter, SEGMENTERS)
    if segmenter != "jieba":
        return None
    _load_jieba()
    return _split_with_jieba


def word_pre_tokenizer(splitting: str = "treebank", segmenter: str | Segmenter = "character") -> PreTokenizer:
    """
    The pre-tokenizer that splits text into words.

    Args:
        splitting: "treebank" for ordinary text, or "whitespace" for text with white space between any two words.
        segmenter: How "treebank" splits runs of Han, kana, Thai, Lao, Khmer and Myanmar letters: one word per
            "character", the whole "run" as one word, or the words that "jieba" or a function `str -> iterable of str`
            returns. With "jieba" or a function, the pre-tokenizer cannot be serialised.
    """
    _check_choice("splitting", splitting, SPLITTINGS)
    if splitting == "whitespace":  # needs no segmenter: jieba need not be installed
        return WhitespaceSplit()
    segment = resolve_segmenter(segmenter)
    if segment is None:
        return _treebank_split(SPACELESS_RUN if segmenter == "run" else SPACELESS_CHARACTER)
    name = segmenter if isinstance(segmenter, str) else getattr(segmenter, "__qualname__", repr(segmenter))
    return Sequence([_treebank_split(SPACELESS_RUN), PreTokenizer.custom(_RunSegmenter(name, segment))])


def split_text(text: str, pre_tokenizer: PreTokenizer) -> list[str]:
    """The words of a text, which must be valid Unicode."""
    with segmenter_errors(), rust_errors():
        return [word for word, _ in pre_tokenizer.pre_tokenize_str(text)]


def check_word_lengths(name: str, text: str, splitting: str, segmenter: str) -> None:
    """
    Refuses a text with a word that is too long for the treebank rules.

    Args:
        name: The text's name in the error message.
        splitting, segmenter: As for [`word_pre_tokenizer`].
    """
    if splitting == "whitespace" or len(text) <= MAX_WORD_LENGTH:
        return
    longest = max(map(len, text.split()), default=0)
    if longest > MAX_WORD_LENGTH and segmenter == "character":  # each letter of a spaceless script is a word
        longest = max((len(run) for run in re.split(rf"[\s{SPACELESS}]+", text)), default=0)
    if longest > MAX_WORD_LENGTH:
        raise ValueError(
            f"`{name}` has {longest:,} characters without a space, and a word may have {MAX_WORD_LENGTH:,} at most: "
            "split or leave out what is not text, or give words (`is_split_into_words=True`)."
        )


__all__ = [
    "MAX_WORD_LENGTH",
    "SEGMENTERS",
    "SPLITTINGS",
    "check_word_lengths",
    "resolve_segmenter",
    "segmenter_errors",
    "split_text",
    "word_pre_tokenizer",
]
