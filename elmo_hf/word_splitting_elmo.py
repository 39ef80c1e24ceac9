# SPDX-License-Identifier: Apache-2.0
"""How raw text is cut into words: `tokenizers` pre-tokenizers that run in Rust and serialise into tokenizer.json.

"treebank" cuts as the English training text is cut (`do n't`, `it 's`, `can not`, punctuation apart, `U.S.` and
`well-known` whole); "whitespace" trusts the blanks of text that is already tokenised. Nothing is normalised, and
every character that is not white space is in exactly one word, so word spans are spans of the original text.

The treebank rules are one regular expression of which every match is one word. Its alternatives are ordered by how
often they match; the quantifiers are possessive wherever the text could be long, so the time is linear.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tokenizers import NormalizedString, PreTokenizedString, Regex
from tokenizers.pre_tokenizers import PreTokenizer, Sequence, Split, WhitespaceSplit

SPLITTINGS = ("treebank", "whitespace")
SEGMENTERS = ("character", "run", "jieba")

Segmenter = Callable[[str], Iterable[str]]


# ---- characters -------------------------------------------------------------------------------------------------
# Letters of the scripts that write no blanks, as code point ranges because Python's `re` must read them too.
SPACELESS = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003fffd"  # Han, supplementary planes
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"  # kana
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0edf"  # Thai, Lao
    "\u1780-\u17d3\u17d7\u17dc-\u17e9\u1000-\u1049\u1050-\u109f\ua9e0-\ua9fe\uaa60-\uaa7f"  # Khmer, Myanmar
)
# Marks and invisible format characters never begin a word of their own after something they can attach to.
ATTACHED = r"[\p{M}\p{Cf}]*+"
# Symbols the corpus leaves inside words (`£100`, `20°C`, `4×4`, `AP®`), unlike `$` and `%`, which it cuts off.
SYMBOLS = r"[\p{Sc}&&[^$]]_°×±®™©′″♭♯"
LETTER = rf"[\p{{L}}\p{{M}}\p{{N}}\p{{Cf}}{SYMBOLS}&&[^{SPACELESS}]]"
WORD_END = rf"(?!{LETTER})"
APOSTROPHE = "['’]"
HYPHEN = "[-‐‑–−]"  # the en dash too: `1990–95` is one word as `1990-95` is
CLOSING = r"""["'”’»)\]}]"""

# ---- words ------------------------------------------------------------------------------------------------------
# Most words are ASCII and followed by something that cannot continue them: they are found without any other test.
PLAIN = r"""[A-Za-z0-9]++(?=[\s;?!")\]]|[,:]\s)"""
# `can not`, `gon na`, `got ta`, `wan na`: the first halves (the second ones are then plain words).
FUSED = rf"(?:[Cc]an(?=not{WORD_END})|[Gg]on(?=na{WORD_END})|[Gg]ot(?=ta{WORD_END})|[Ww]an(?=na{WORD_END}))"
# `do` before `n't`, then `n't` itself.
NOT = rf"[nN]{APOSTROPHE}[tT]{WORD_END}"
NEGATED = rf"{LETTER}+(?={NOT})"
# `'s`, `'ll` ... with what a hyphen adds to them (`bull 's-eye`).
ENDING = rf"{APOSTROPHE}(?:[sdmSDM]|ll|re|ve|LL|RE|VE){WORD_END}"
CLITIC = rf"{ENDING}(?:{HYPHEN}{LETTER}++)*+"
# Words that begin with an apostrophe; any other one before a word is an opening quotation mark.
ELISION = (
    rf"['’‘](?:(?:em|un|ere|bout|cause|im|round|er|til|n|twould|twill|twere|[0-9]{{2}}s?){WORD_END}"
    rf"|t(?=(?:is|was){WORD_END}))"
)
# What keeps two pieces together: `o'clock`, `well-known`, `U.S.-based`, `3.5`, `1UP.com`, `1,000`, `10:30`.
JOINT = (
    rf"(?:(?!{ENDING}){APOSTROPHE}|[.'’]?{HYPHEN}|[.·@]|(?<=[0-9])[,:](?=[0-9]))(?={LETTER})"
)
COMPOUND = rf"(?:[-−]|\.(?=[0-9]))?{LETTER}++(?:{JOINT}{LETTER}++)*+(?:-(?!-)|\.(?=[,;]))?"
ADDRESS = r"(?:https?://|ftp://|www\.)[\x21-\x7e&&[^<>\"]]*[A-Za-z0-9/]"

# ---- abbreviations keep their period, except at the end of the text -----------------------------------------------
TEXT_END = rf"{CLOSING}*+\s*+(?:\z|\n\s*+\n)"
# ... and, when they can end a sentence (`U.S.`, `Inc.`, `p.m.`), before a word that nearly always begins one.
OPENERS = (
    "The|This|That|These|Those|There|Then|They|It|Its|He|His|She|Her|We|You|My|Our|Their|In|On|At|By|For|From|To|With"
    "|As|After|Before|During|Since|Until|When|While|Where|Although|Though|However|But|And|Or|So|If|Because|Also|Some"
    "|Many|Most|All|Both|Each|Another|Other|One|Two|Such|What|Who|Why|How|An?(?=\\s)|Yet|Now|No|Not"
)
SENTENCE_END = rf"(?:{TEXT_END}|{CLOSING}*+\s++[\"“]?(?:{OPENERS}){WORD_END}(?!\.))"
TITLES = (
    "Mr|Mrs|Ms|Dr|St|Ste|Sta|Mt|Ft|Gen|Col|Lt|Maj|Sgt|Cpl|Capt|Brig|Rev|Hon|Prof|Sen|Rep|Gov|Messrs|Mlle|Mme|Fr"
    "|Gens|Thos|Geo|Wm|Chas|Jas|vs|cf|viz|esp|Adm|Cmdr|Pvt|Pres|Supt|Bp|Abp"
)
COUNTED = (
    "Nos?|nos?|Vols?|vols?|pp|Op|op|Figs?|figs?|Chs?|chs?|ca|para|paras|Rs|fl|lat|pop|est|approx|Sec|sec|Eq|Art|art"
    "|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
)
ENDERS = (
    "Jr|Sr|Inc|Co|Corp|Ltd|Bros|Esq|Dept|Ave|Blvd|etc|al|eds?|var|spp?|ssp|tr|lit|ft|lbs?|yds|sq|mi|km|cm|mm|oz|resp|abbr"
    "|Univ|Assn|Mfg|Intl|Natl|MSS?|Tech|Vict|Deb"
)
INITIALS = r"(?:\p{L}{1,2}\.)*\p{L}"
ABBREVIATION = (
    r"(?=\p{L}{1,6}\.)"  # the cheap test before the long lists
    rf"(?:(?:{TITLES})\.(?!{TEXT_END})|(?:{COUNTED})\.(?=\s?[0-9])|(?:{ENDERS}|{INITIALS})\.(?!{SENTENCE_END}))"
    rf"(?!\.|{HYPHEN}?{LETTER})"
)

# ---- everything else --------------------------------------------------------------------------------------------
DASH = r"-{2,}+|[–—―]++"
ELLIPSIS = r"\.{3}"
FLAG = r"[\x{1F1E6}-\x{1F1FF}]{2}"
PICTURE = r"\p{Extended_Pictographic}[\x{1F3FB}-\x{1F3FF}\p{M}\p{Cf}]*+"
EMOJI = rf"(?:{FLAG}|{PICTURE}(?:(?<=\x{{200D}}){PICTURE})*+){ATTACHED}"
ANYTHING = rf"\S{ATTACHED}"
SPACELESS_RUN = rf"[{SPACELESS}][{SPACELESS}\p{{M}}\p{{Cf}}]*+"
SPACELESS_CHARACTER = rf"[{SPACELESS}]{ATTACHED}"


def _treebank_pattern(spaceless: str) -> str:
    """The expression of which every match is a word; `spaceless` says what a word is in scripts without blanks."""
    return "|".join(
        (FUSED, PLAIN, NEGATED, NOT, ABBREVIATION, ADDRESS, COMPOUND, CLITIC, ELISION, DASH, ELLIPSIS, spaceless)
        + (EMOJI, ANYTHING)
    )


def word_pre_tokenizer(splitting: str = "treebank", segmenter: str | Segmenter = "character") -> PreTokenizer:
    """The pre-tokenizer that cuts text into words."""
    if splitting not in SPLITTINGS:
        raise ValueError(f"unknown splitting {splitting!r}: choose one of {', '.join(SPLITTINGS)}")
    if splitting == "whitespace":
        return WhitespaceSplit()
    return Split(Regex(_treebank_pattern(SPACELESS_CHARACTER if segmenter == "character" else SPACELESS_RUN)), behavior="removed", invert=True)
