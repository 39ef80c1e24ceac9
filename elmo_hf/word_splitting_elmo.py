# Copyright 2026 The elmo-hf authors. Licensed under the Apache License, Version 2.0.
"""How raw text is cut into words: `tokenizers` pre-tokenizers, which run in Rust and serialise into tokenizer.json.

"treebank" cuts as the English training text is cut (`do n't`, `it 's`, `can not`, punctuation apart, `U.S.` and
`well-known` whole); "whitespace" trusts the blanks of text that is tokenised already. Nothing is normalised, and
every character that is not white space is in exactly one word, so the span of a word is a span of the given text.

The treebank rules are one regular expression of which every match is a word. Its frequent alternatives come first;
its long repetitions are possessive or bounded, so that no text takes more than linear time.
"""

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from tokenizers import NormalizedString, PreTokenizedString, Regex
from tokenizers.pre_tokenizers import PreTokenizer, Sequence, Split, WhitespaceSplit

SPLITTINGS = ("treebank", "whitespace")
SEGMENTERS = ("character", "run", "jieba")

# The regular expression library panics after 10 million steps of one match, which takes a few for each character.
MAX_WORD_LENGTH = 1_000_000

Segmenter = Callable[[str], Iterable[str]]

# ---- Characters.

# Letters of the scripts written without blanks; code points rather than \p{...} because Python's `re` reads them too.
SPACELESS = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003fffd"  # Han of the supplementary planes
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"  # kana
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0edf"  # Thai, Lao
    "\u1780-\u17d3\u17d7\u17dc-\u17e9\u1000-\u1049\u1050-\u109f\ua9e0-\ua9fe\uaa60-\uaa7f"  # Khmer, Myanmar
)
# Combining marks and invisible format characters stay with whatever they follow.
ATTACHED = r"[\p{M}\p{Cf}]"
# Symbols the corpus leaves inside words (pounds, euros, degrees, times, plus-minus, (R)), unlike `$` and `%`.
SYMBOLS = r"[\p{Sc}&&[^$]]_\u00b0\u00d7\u00b1\u00ae\u2122\u00a9\u2032\u2033\u266d\u266f"
LETTER = rf"[\p{{L}}\p{{M}}\p{{N}}\p{{Cf}}{SYMBOLS}&&[^{SPACELESS}]]"
WORD_END = rf"(?!{LETTER})"
APOSTROPHE = r"['\u2019]"
MINUS = r"[-\u2212]"
# The en dash between letters or digits is a hyphen: `1990-95` is one word in the corpus.
HYPHEN = r"[-\u2010\u2011\u2013\u2212]"
CLOSING = r"[\"'\u201d\u2019\u00bb)\]}]"
OPENING = r"[\"'\u201c\u2018\u00ab(\[{]"

# ---- The frequent words, found without looking any further.

PLAIN = r'[A-Za-z]++(?=[ ,;?!")\]])'
MARK = rf'[,;:?!"()\[\]%$](?!{ATTACHED})|\.(?=[ \n"])'

# ---- Words cut in two.

# The first halves of `can not`, `gon na`, `got ta`, `wan na`; what remains is an ordinary word.
FUSED = rf"(?:[Cc]an(?=not{WORD_END})|[GgWw](?:on|an)(?=na{WORD_END})|[Gg]ot(?=ta{WORD_END}))"
NOT = rf"[Nn]{APOSTROPHE}[Tt]{WORD_END}"
NEGATED = rf"{LETTER}+(?={NOT})"
ENDING = rf"{APOSTROPHE}(?:[sdmSDM]|ll|re|ve|LL|RE|VE){WORD_END}"
CLITIC = rf"{ENDING}(?:{HYPHEN}{LETTER}++)*+"  # `bull 's-eye`
# The words that begin with an apostrophe; before any other word it is an opening quotation mark.
ELISION = (
    rf"['\u2018\u2019](?:(?:em|un|ere|bout|cause|im|round|er|til|n|twould|twill|twere|[0-9]{{2}}s?){WORD_END}"
    rf"|t(?=(?:is|was){WORD_END}))"
)

# ---- Words kept in one piece.

# What joins two pieces: `o'clock`, `well-known`, `U.S.-based`, `3.5`, `1UP.com`, `me@home.net`, `1,000`, `10:30`.
JOINT = rf"(?:(?!{ENDING}){APOSTROPHE}|[.'\u2019]?{HYPHEN}|[.\u00b7@]|(?<=[0-9])[,:](?=[0-9]))(?={LETTER})"
# Also `-like` after a quotation, `.45`, `mid-` before `and`, and the period that a comma shows to be no full stop.
COMPOUND = rf"(?:{MINUS}|\.(?=[0-9]))?{LETTER}++(?:{JOINT}{LETTER}++)*+(?:-(?!-)|\.(?=[,;]))?"
ADDRESS = r"(?:https?://|ftp://|www\.)[\x21-\x7e&&[^<>\"]]*[A-Za-z0-9/]"

# ---- Abbreviations keep their period, but at the end of the text or of a paragraph it is a full stop.

TEXT_END = rf"{CLOSING}*+[^\S\n]*+(?:\n[^\S\n]*+\n|\s*+\z)"
# Inside the text it is one before a word that hardly ever goes on with a sentence (`in the U.S. They`).
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
    r"(?=\p{L}{1,6}\.)"  # the cheap test before the long lists
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
    """The treebank rules, `spaceless` being the expression for a word of a script without blanks."""
    frequent = [FUSED, PLAIN, MARK]
    words = [NEGATED, NOT, ABBREVIATION, ADDRESS, COMPOUND, CLITIC, ELISION]
    others = [DASH, ELLIPSIS, spaceless, EMOJI, ANYTHING]
    # Without the guard every alternative would be tried, in vain, at every blank.
    pattern = rf"(?!\s)(?:{'|'.join(frequent + words + others)})"
    return Split(Regex(pattern), behavior="removed", invert=True)


class _RunSegmenter:
    """Cuts the runs of scripts without blanks with a Python function; the part of a pre-tokenizer that is not Rust."""

    _run_start = re.compile(f"[{SPACELESS}]")

    def __init__(self, name: str, segment: Segmenter) -> None:
        self._name = name
        self._segment = segment

    def pre_tokenize(self, text: PreTokenizedString) -> None:
        """Called by `tokenizers` with the text as the Rust rules have split it."""
        text.split(self._cut)

    def _cut(self, _: int, piece: NormalizedString) -> list[NormalizedString]:
        run = piece.normalized
        if not self._run_start.match(run):
            return [piece]
        cuts, position = [], 0
        for word in self._words(run):
            cuts.append(piece[position : position + len(word)])
            position += len(word)
        return cuts

    def _words(self, run: str) -> list[str]:
        """The segmenter's words, checked, since wrong ones would shift every offset after them."""
        try:
            words = [word for word in self._segment(run) if word]
            faithful = "".join(words) == run
        except Exception as error:
            raise ValueError(f"segmenter {self._name!r} failed on {run!r}: {error!r}") from error
        if not faithful:
            raise ValueError(f"segmenter {self._name!r} must return words that make up {run!r}, not {words!r}")
        return words


@contextmanager
def segmenter_errors() -> Generator[None, None, None]:
    """Give a segmenter's error back as the ValueError it was: Rust hands it on as a bare Exception around its text."""
    try:
        yield
    except Exception as error:
        _, found, message = str(error).partition("ValueError: segmenter ")
        if type(error) is not Exception or not found:
            raise
        raise ValueError(f"segmenter {message}") from None


def _check_choice(what: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"unknown {what} {value!r}: choose one of {', '.join(choices)}")


def _load_jieba():
    try:
        import jieba
    except ImportError as error:
        raise ImportError('the segmenter "jieba" needs a package: pip install "elmo-hf[chinese]"') from error
    return jieba


def _cut_with_jieba(run: str) -> Iterable[str]:
    """`jieba.cut`, which itself cannot be pickled."""
    return _load_jieba().cut(run)


def resolve_segmenter(segmenter: str | Segmenter) -> Segmenter | None:
    """The function that cuts a run into words, or None where the Rust rules do it ("character", "run")."""
    if callable(segmenter) and not isinstance(segmenter, str):
        return segmenter
    _check_choice("segmenter", segmenter, SEGMENTERS)
    if segmenter != "jieba":
        return None
    _load_jieba()
    return _cut_with_jieba


def word_pre_tokenizer(splitting: str = "treebank", segmenter: str | Segmenter = "character") -> PreTokenizer:
    """The pre-tokenizer that cuts text into words.

    `splitting` is "treebank" for ordinary text or "whitespace" for text with a blank between any two words.
    `segmenter` says what "treebank" does with runs of Han, kana, Thai, Lao, Khmer and Myanmar letters: one word a
    "character", the whole "run" as one word, or the words that "jieba" or a function of the run returns. With a
    function or "jieba" the pre-tokenizer cannot be serialised.
    """
    _check_choice("splitting", splitting, SPLITTINGS)
    if splitting == "whitespace":  # which needs no segmenter, hence not jieba either
        return WhitespaceSplit()
    segment = resolve_segmenter(segmenter)
    if segment is None:
        return _treebank_split(SPACELESS_RUN if segmenter == "run" else SPACELESS_CHARACTER)
    name = segmenter if isinstance(segmenter, str) else getattr(segmenter, "__qualname__", repr(segmenter))
    return Sequence([_treebank_split(SPACELESS_RUN), PreTokenizer.custom(_RunSegmenter(name, segment))])


def check_word_lengths(name: str, text: str, splitting: str, segmenter: str) -> None:
    """Refuse a text that has a word which the treebank rules cannot cut.

    `name` says what the text is, `splitting` and `segmenter` are those of `word_pre_tokenizer`.
    """
    if splitting == "whitespace" or len(text) <= MAX_WORD_LENGTH:
        return
    longest = max(map(len, text.split()), default=0)
    if longest > MAX_WORD_LENGTH and segmenter == "character":  # each letter of such a script is a word
        longest = max((len(run) for run in re.split(rf"[\s{SPACELESS}]+", text)), default=0)
    if longest > MAX_WORD_LENGTH:
        raise ValueError(
            f"`{name}` has {longest:,} characters without a blank, and a word may have {MAX_WORD_LENGTH:,} at most: "
            "split or leave out what is no text, or give words (`is_split_into_words=True`)."
        )


__all__ = [
    "MAX_WORD_LENGTH",
    "SEGMENTERS",
    "SPLITTINGS",
    "check_word_lengths",
    "resolve_segmenter",
    "segmenter_errors",
    "word_pre_tokenizer",
]
