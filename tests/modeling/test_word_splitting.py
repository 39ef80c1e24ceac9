"""Words are cut as in the training text, whatever the text no character is lost, and spans are spans of the text."""

import itertools
import lzma
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from elmo_hf.modeling.word_splitting_elmo import SPLITTINGS, resolve_segmenter, segmenter_errors, word_pre_tokenizer
from tests.conftest import find_data
from tests.ordinary_text import ordinary_text

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
TREEBANK = word_pre_tokenizer()


def words(text, pre_tokenizer=TREEBANK):
    return [word for word, _ in pre_tokenizer.pre_tokenize_str(text)]


def tokenizer_with(pre_tokenizer):
    tokenizer = Tokenizer(WordLevel({"<UNK>": 0}, unk_token="<UNK>"))
    tokenizer.pre_tokenizer = pre_tokenizer
    return tokenizer


# ---- The corpus, made ordinary text again and split again.


def share_of_spans_found(sentences, sentences_a_text):
    right = total = 0
    for i in range(0, len(sentences), sentences_a_text):
        text, gold = "", []
        for tokens in sentences[i : i + sentences_a_text]:
            text += " " if text else ""
            sentence, spans = ordinary_text(tokens)
            gold += [(start + len(text), end + len(text)) for start, end in spans]
            text += sentence
        actual = {span for _, span in TREEBANK.pre_tokenize_str(text)}
        right += sum(span in actual for span in gold)
        total += len(gold)
    return right / total


@pytest.mark.parametrize(("sentences_a_text", "least"), [(1, 0.9990), (5, 0.9985)])
def test_held_out_text_is_split_as_the_corpus_splits_it(sentences_a_text, least):
    with lzma.open(find_data("corpora", "english", "heldout.txt.xz"), "rt", encoding="utf-8") as lines:
        sentences = [line.split() for line in lines if line.strip()]
    assert share_of_spans_found(sentences, sentences_a_text) >= least


def test_the_corpus_made_ordinary_text_reads_like_text():
    sentence = """ " I do n't , " he said ( in the dogs ' den ) , " and can not . " """
    assert ordinary_text(sentence.split())[0] == """"I don't," he said (in the dogs' den), "and cannot.\""""


# ---- Examples: the words, separated by blanks.

EXAMPLES = {
    "Hello there. How are you? Fine.": "Hello there . How are you ? Fine .",
    "I don't know; it's what we'll do, isn't it?": "I do n't know ; it 's what we 'll do , is n't it ?",
    "I don’t. “It’s,” he said—‘fine’…": "I do n’t . “ It ’s , ” he said — ‘ fine ’ …",
    "He cannot; they're gonna. Can't I've?": "He can not ; they 're gon na . Ca n't I 've ?",
    "'tis o'clock, ma'am: get 'em in the '90s": "'t is o'clock , ma'am : get 'em in the '90s",
    "the dogs' and 'the cat' of O'Brien": "the dogs ' and ' the cat ' of O'Brien",
    "rock 'n' roll, a bull's-eye": "rock 'n ' roll , a bull 's-eye",
    '"Yes," (she said) [sic]': '" Yes , " ( she said ) [ sic ]',
    "a well-known, two- or three-year-old": "a well-known , two- or three-year-old",
    '"Titanic"-like ships -- or not - at -5': '" Titanic " -like ships -- or not - at -5',
    "1,000 of 3.5 at 10:30, 1990-95, 1990–95": "1,000 of 3.5 at 10:30 , 1990-95 , 1990–95",
    "$5.50, US$3, £100, 50%, 20°C, #1": "$ 5.50 , US $ 3 , £100 , 50 % , 20°C , # 1",
    "Mr. Smith of St. Paul, J. K. Rowling": "Mr. Smith of St. Paul , J. K. Rowling",
    "the U.S. President, e.g. this, No. 5": "the U.S. President , e.g. this , No. 5",
    "No. I saw him at 5 p.m. in the U.S.": "No . I saw him at 5 p.m. in the U.S .",
    "It is in the U.S. The firm is Acme Inc.": "It is in the U.S . The firm is Acme Inc .",
    'apples, etc., and "Monsters, Inc." too': 'apples , etc. , and " Monsters , Inc. " too',
    "Jr.'s and the U.S.'s": "Jr. 's and the U.S. 's",
    "in the U.S.\n\nUnited": "in the U.S . United",
    "U.S.-based and/or AT&T, C++": "U.S.-based and / or AT & T , C + +",
    "wait... what....": "wait ... what ... .",
    "no!!! -- ---": "no ! ! ! -- ---",
    "see (http://a.org/b?c=d). Or me@a.org": "see ( http://a.org/b?c=d ) . Or me@a.org",
    "我在IBM工作。「你好」！": "我 在 IBM 工 作 。 「 你 好 」 ！",
    "ラーメン、ที่นี่": "ラ ー メ ン 、 ที่ นี่",
    "👩‍👩‍👧👍🏽🇩🇪🇫🇷❤️a": "👩‍👩‍👧 👍🏽 🇩🇪 🇫🇷 ❤️ a",
    "¿Qué? cafe\u0301 zero\u200bwidth": "¿ Qué ? cafe\u0301 zero\u200bwidth",
    "": "",
    " \t\u3000\n": "",
}


@pytest.mark.parametrize(("text", "expected"), EXAMPLES.items())
def test_text_is_cut_into_these_words(text, expected):
    assert words(text) == expected.split()


def test_whitespace_splitting_trusts_the_blanks():
    pre_tokenizer = word_pre_tokenizer("whitespace")
    assert words("do n't  cannot\u3000我在 U.S.\xa0(x)", pre_tokenizer) == [
        "do",
        "n't",
        "cannot",
        "我在",
        "U.S.",
        "(x)",
    ]


# ---- Whatever the text.

TRICKY = list(" \n\u3000.,:;'’‘\"“-–—…$%&/@#()[]!?*+_anstvIUS019éß我あー한ไม่عह")
TRICKY += list("\u0301\u0600\u200b\u200d\ufeff\ufe0f\u20e3\x00\x1c\ufffd\ue000\u0378")
TRICKY += ["👍", "🏽", "👩", "🇩", "🇪", "n't", "'s", "U.S.", "Mr.", "...", "--", "www.", "http://", "cannot", " The "]
TEXTS = st.one_of(st.lists(st.sampled_from(TRICKY)).map("".join), st.text(st.characters(codec="utf-8")))
CUTTERS = [TREEBANK, word_pre_tokenizer("whitespace"), word_pre_tokenizer(segmenter="run")]
CUTTERS += [word_pre_tokenizer(segmenter=lambda run: [run[:1], run[1:]])]


@settings(max_examples=200)
@given(TEXTS, st.sampled_from(CUTTERS))
def test_every_character_is_in_exactly_one_word_in_order(text, pre_tokenizer):
    pieces = pre_tokenizer.pre_tokenize_str(text)
    assert all(word and word == text[start:end] for word, (start, end) in pieces)
    assert all(end <= start for (_, (_, end)), (_, (start, _)) in itertools.pairwise(pieces))
    assert not any(character in WHITE_SPACE for word, _ in pieces for character in word)
    assert "".join(word for word, _ in pieces) == "".join(c for c in text if c not in WHITE_SPACE)
    assert pieces == pre_tokenizer.pre_tokenize_str(text)


@pytest.mark.parametrize(
    "unit", ["a", "a.", "a-", "n'", "'", "!", ".", "-", "a. ", "1,", "www.!", "我", "👍", "\u0301"]
)
def test_long_repetitions_take_linear_time(unit):
    """With quadratic time each of these texts would take minutes."""
    text = unit * (200_000 // len(unit)) + " " * 100_000 + "end"
    assert sum(len(word) for word in words(text)) == len(text) - text.count(" ")


# ---- Scripts without blanks.


def test_a_run_is_one_word_apart_from_latin_letters_and_punctuation():
    pre_tokenizer = word_pre_tokenizer(segmenter="run")
    assert words("我在IBM工作，ラーメン。", pre_tokenizer) == ["我在", "IBM", "工作", "，", "ラーメン", "。"]


def test_a_function_cuts_the_runs_only_and_offsets_stay_those_of_the_text():
    seen = []
    cutter = tokenizer_with(word_pre_tokenizer(segmenter=lambda run: seen.append(run) or [run[:2], "", run[2:]]))
    text = "It's 👍 在北京大学, IBM"
    first, second = cutter.encode_batch([text, "我"])
    assert seen == ["在北京大学", "我"]
    assert [text[a:b] for a, b in first.offsets] == ["It", "'s", "👍", "在北", "京大学", ",", "IBM"]
    assert second.offsets == [(0, 1)]


@pytest.mark.parametrize("answer", [["北"], ["北", "京", "!"], [], None, [1], 1 / 3])
def test_a_function_that_loses_characters_is_a_value_error_naming_it(answer):
    def careless(run):
        return answer

    cutter = tokenizer_with(word_pre_tokenizer(segmenter=careless))
    with pytest.raises(ValueError, match=r"^segmenter '.*careless' .*'北京'"), segmenter_errors():
        cutter.encode_batch(["fine", "to 北京"] * 50)


def test_other_errors_pass_through_segmenter_errors():
    with pytest.raises(Exception, match=r"^other$"), segmenter_errors():
        raise Exception("other")


def test_jieba_cuts_chinese_words():
    pytest.importorskip("jieba")
    pieces = words("IBM的工作，北京大学。", word_pre_tokenizer(segmenter="jieba"))
    assert pieces == ["IBM", "的", "工作", "，", "北京大学", "。"]


def test_missing_jieba_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(ImportError, match=r'pip install "elmo-hf\[chinese\]"'):
        resolve_segmenter("jieba")
    word_pre_tokenizer("whitespace", "jieba")


# ---- Choices and serialisation.


@pytest.mark.parametrize("choice", [{"splitting": "words"}, {"segmenter": "mecab"}, {"segmenter": None}])
def test_an_unknown_choice_is_an_error_that_names_the_choices(choice):
    with pytest.raises(ValueError, match=r"unknown (splitting 'words'.*treebank|segmenter ('mecab'|None).*jieba)"):
        word_pre_tokenizer(**choice)


@pytest.mark.parametrize("segmenter", ["character", "run"])
@pytest.mark.parametrize("splitting", SPLITTINGS)
def test_rust_pre_tokenizers_survive_serialisation(splitting, segmenter):
    before = word_pre_tokenizer(splitting, segmenter)
    after = Tokenizer.from_str(tokenizer_with(before).to_str()).pre_tokenizer
    for text in EXAMPLES:
        assert after.pre_tokenize_str(text) == before.pre_tokenize_str(text)
