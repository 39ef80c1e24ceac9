"""Tagged sentences from every format; a malformed line is named with its file and number."""

import gzip
import json
import re

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.errors import TextError
from elmo_hf.finetuning import TaggedSentence, read_tagged

WANTED = [TaggedSentence(["Paris", "is", "#1"], ["B-LOC", "O", "O"]), TaggedSentence(["Hello"], ["O"])]
COLUMNS = "-DOCSTART- -X- O\n\nParis NNP B-LOC\nis VBZ O\n#1 CD O\n\n\nHello UH O\n"
CONLLU = (
    "# text = Paris don't\n1\tParis\tParis\tPROPN\tNNP\t_\t0\troot\t_\t_\n2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tdo\tdo\tAUX\tVB\t_\t1\tdep\t_\t_\n3\tn't\tnot\tPART\tRB\t_\t1\tdep\t_\t_\n3.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    "1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n"
)


def write(path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("text", [COLUMNS, COLUMNS.replace(" ", "\t"), COLUMNS.replace("\n", "\r\n"), "\n\n" + COLUMNS])
def test_columns_are_words_and_tags_with_blank_lines_between_sentences(tmp_path, text):
    assert read_tagged(write(tmp_path / "train.conll", text)) == WANTED


def test_plain_text_of_sentences_of_one_length_is_refused(tmp_path):
    path = write(tmp_path / "train.conll", "the cat sat .\n\na dog ran .\n")
    message = f"{path}: each of its 2 sentences is one line of several columns: is it plain text?"
    with pytest.raises(TextError, match=re.escape(message)):
        read_tagged(path)
    tagged = write(tmp_path / "tabs.conll", "Yes\tUH\n\nNo\tUH\n")
    assert [sentence.words for sentence in read_tagged(tagged)] == [["Yes"], ["No"]]


def test_any_column_may_be_the_words_or_the_tags(tmp_path):
    path = write(tmp_path / "train.txt", COLUMNS)
    assert read_tagged(path, tag_column=1)[0].tags == ["NNP", "VBZ", "CD"]
    assert read_tagged(path, word_column=1, tag_column=0)[1] == TaggedSentence(["UH"], ["Hello"])
    assert read_tagged(path, with_tags=False)[1] == TaggedSentence(["Hello"], None)


def test_compressed_files_are_read_too(tmp_path):
    (tmp_path / "train.conll.gz").write_bytes(gzip.compress(COLUMNS.encode()))
    assert read_tagged(str(tmp_path / "train.conll.gz")) == WANTED


@pytest.mark.parametrize(
    ("field", "tags"),
    [("upos", ["PROPN", "AUX", "PART"]), ("xpos", ["NNP", "VB", "RB"]), ("deprel", ["root", "dep", "dep"])],
)
def test_conllu_gives_the_chosen_field_of_syntactic_words(tmp_path, field, tags):
    first, second = read_tagged(write(tmp_path / "train.conllu", CONLLU), field=field)
    assert first == TaggedSentence(["Paris", "do", "n't"], tags)
    assert second.words == ["Yes"]


@pytest.mark.parametrize("names", [("words", "tags"), ("tokens", "ner_tags"), ("mine", "my_tags")])
def test_json_lines_hold_lists_under_usual_or_given_names(tmp_path, names):
    lines = [json.dumps({names[0]: sentence.words, names[1]: sentence.tags}) for sentence in WANTED]
    given = {"words_name": "mine", "tags_name": "my_tags"} if names[0] == "mine" else {}
    assert read_tagged(write(tmp_path / "train.jsonl", "\n".join(lines) + "\n\n"), **given) == WANTED


def test_datasets_give_the_names_of_their_labels(tmp_path):
    names = ["O", "B-LOC"]
    features = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=names))})
    rows = {
        "tokens": [sentence.words for sentence in WANTED],
        "ner_tags": [[names.index(tag) for tag in sentence.tags] for sentence in WANTED],
    }
    dataset = Dataset.from_dict(rows, features=features)
    dataset.save_to_disk(tmp_path / "one")
    DatasetDict({"validation": dataset}).save_to_disk(tmp_path / "several")
    assert read_tagged(str(tmp_path / "one")) == WANTED
    assert read_tagged(str(tmp_path / "several"), split="validation") == WANTED
    with pytest.raises(TextError, match="no split 'train': choose one of validation"):
        read_tagged(str(tmp_path / "several"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conll", "Paris B-LOC\nis\n", r"a\.conll, line 2: 1 column, but 2 in the lines before"),
        ("a.conll", "EU NNP B-ORG\nsays VBZ\n", "line 2: 2 columns, but 3 in the lines before"),
        ("a.conll", "Paris\nis\n", "line 1: a word and its tag should be here, found 'Paris'"),
        ("a.conllu", CONLLU.replace("\tAUX", ""), r"a\.conllu, line 4: CoNLL-U has 10 fields"),
        ("a.conllu", CONLLU.replace("1\tYes", "x\tYes"), r"line 8: the first field .* found 'x'"),
        ("a.jsonl", '{"words": ["a"], "tags": ["O"]}\n{"words": [', r"a\.jsonl, line 2: not JSON"),
        ("a.jsonl", '["a"]', "line 1: a JSON object should be here"),
        ("a.jsonl", '{"words": ["a"], "tags": []}', "line 1: 1 word, and 0 tags"),
        ("a.jsonl", '{"words": "a b", "tags": ["O"]}', "a list of strings should be here, found 'a b'"),
        ("a.jsonl", '{"text": "a"}', "there is no 'words' or 'tokens', only 'text'"),
        ("a.conll", "\n\n", "not a single sentence"),
        ("a.conll", "a\0b O", "line 1, is not UTF-8 text"),
    ],
    ids=str,
)
def test_what_is_malformed_is_named_with_its_place(tmp_path, name, text, message):
    with pytest.raises(TextError, match=message):
        read_tagged(write(tmp_path / name, text))


def test_files_and_fields_that_are_not_there_are_named(tmp_path):
    with pytest.raises(TextError, match=r"No such file or folder: .*missing\.conll"):
        read_tagged(str(tmp_path / "missing.conll"))
    with pytest.raises(TextError, match=r"no field 'pos' .*: choose one of"):
        read_tagged(write(tmp_path / "a.conllu", CONLLU), field="pos")
    with pytest.raises(TextError, match="is a folder, but not a dataset"):
        read_tagged(str(tmp_path))


WORD = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=5).filter(
    lambda word: len(word.split()) == 1 and word != "-DOCSTART-"
)


@given(sentences=st.lists(st.lists(st.tuples(WORD, WORD), min_size=1, max_size=4), min_size=1, max_size=4))
def test_any_words_survive_columns_and_json(tmp_path_factory, sentences):
    folder = tmp_path_factory.mktemp("data")
    wanted = [TaggedSentence([w for w, _ in sentence], [t for _, t in sentence]) for sentence in sentences]
    columns = "\n\n".join("\n".join(f"{word}\t{tag}" for word, tag in sentence) for sentence in sentences)
    assert read_tagged(write(folder / "a.conll", columns)) == wanted
    lines = "\n".join(json.dumps(sentence._asdict()) for sentence in wanted)
    assert read_tagged(write(folder / "a.jsonl", lines)) == wanted


def test_tags_of_iob1_are_read_as_bio(tmp_path):
    (tmp_path / "a.conll").write_text("A I-PER\nB B-PER\nC I-PER\nD I-LOC\ne O\nF I-LOC\nG I-LOC\n")
    (sentence,) = read_tagged(str(tmp_path / "a.conll"))
    assert sentence.tags == ["B-PER", "B-PER", "I-PER", "B-LOC", "O", "B-LOC", "I-LOC"]


def test_other_tags_stay_as_they_are(tmp_path):
    tags = ["S-PER", "B-LOC", "E-LOC", "I-ORG", "NOUN"]
    (tmp_path / "a.conll").write_text("".join(f"word {tag}\n" for tag in tags))
    assert read_tagged(str(tmp_path / "a.conll"))[0].tags == tags


def test_a_word_may_have_a_space_inside_that_is_no_blank(tmp_path):
    (tmp_path / "a.conll").write_text("10\N{NO-BREAK SPACE}000 B-N\n", encoding="utf-8")
    (tmp_path / "b.conll").write_text("New York\tB-LOC\n")
    assert read_tagged(str(tmp_path / "a.conll"))[0].words == ["10\N{NO-BREAK SPACE}000"]
    assert read_tagged(str(tmp_path / "b.conll"))[0].words == ["New York"]


def test_rows_of_a_dataset_without_labels_are_named(tmp_path):
    features = Features({"words": List(Value("string")), "tags": List(ClassLabel(names=["O", "B-X"]))})
    rows = {"words": [["a"], ["b"]], "tags": [[1], [-1]]}
    Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "data")
    with pytest.raises(TextError, match="row 1: there is no label"):
        read_tagged(str(tmp_path / "data"))


def test_where_tags_are_to_be_found_a_blank_line_of_json_lines_is_an_empty_sentence(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"words": ["a"]}\n\n{"words": []}\n')
    sentences = read_tagged(str(path), with_tags=False)
    assert sentences == [TaggedSentence(["a"]), TaggedSentence([]), TaggedSentence([])]
