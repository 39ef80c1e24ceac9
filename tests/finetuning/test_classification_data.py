"""Labelled texts from every format; a malformed line is named with its file and number."""

import csv
import io
import json

import pytest
from datasets import ClassLabel, Dataset, Features, Value
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.errors import TextError
from elmo_hf.finetuning import LabelledText, read_labelled

WANTED = [LabelledText('A "fine", long film.', None, "good"), LabelledText("Bad", None, "bad")]
PAIRS = [LabelledText("a cat", "an animal", "yes"), LabelledText("a dog", "a cat", "no")]


def write(path, text: str) -> str:
    path.write_text(text, encoding="utf-8", newline="")
    return str(path)


def as_csv(examples, names=("text", "label")) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([part for part in example if part is not None] for example in examples)
    return buffer.getvalue()


def test_csv_tsv_and_json_lines_give_the_same_texts(tmp_path):
    tsv = "text\tlabel\n" + "".join(f"{example.text}\t{example.label}\n" for example in WANTED)
    lines = "\n".join(json.dumps({"sentence": example.text, "label": example.label}) for example in WANTED)
    for name, text in (("a.csv", as_csv(WANTED)), ("a.tsv", tsv), ("a.jsonl", lines)):
        assert read_labelled(write(tmp_path / name, text)) == WANTED


@pytest.mark.parametrize(
    "names",
    [
        ("text", "text_pair"),
        ("sentence1", "sentence2"),
        ("premise", "hypothesis"),
        ("question", "sentence"),
        ("question1", "question2"),
    ],
)
def test_pairs_are_found_by_their_names(tmp_path, names):
    assert read_labelled(write(tmp_path / "a.csv", as_csv(PAIRS, (*names, "label")))) == PAIRS


def test_columns_may_have_any_names(tmp_path):
    path = write(tmp_path / "a.csv", as_csv(PAIRS, ("one", "other", "answer")))
    assert read_labelled(path, text_name="one", pair_name="other", label_name="answer") == PAIRS
    examples = read_labelled(path, text_name="one", label_name="answer")
    assert examples[0] == LabelledText("a cat", None, "yes")
    assert read_labelled(path, text_name="other", with_labels=False)[1] == LabelledText("a cat")


def test_labels_are_names_numbers_or_several_names(tmp_path):
    for labels in ([1, 0.5], ["x", "y"], [["x", "y"], []]):
        lines = "\n".join(json.dumps({"text": "a", "label": label}) for label in labels)
        examples = read_labelled(write(tmp_path / "a.jsonl", lines))
        assert [example.label for example in examples] == labels


def test_datasets_give_the_names_of_their_labels(tmp_path):
    features = Features({"text": Value("string"), "label": ClassLabel(names=["bad", "good"])})
    rows = {"text": [example.text for example in WANTED], "label": [1, 0]}
    Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "data")
    assert read_labelled(str(tmp_path / "data")) == WANTED


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "text,label\na,b\nc\n", r"a\.csv, line 3: 1 column, but 2 names at the top"),
        ("a.csv", 'text,label\n"a,b\n', "unexpected end of data"),
        ("a.csv", "text,label\n", "not a single text"),
        ("a.csv", "", "not a single text"),
        (
            "a.csv",
            "words,label\na,b\n",
            r"a\.csv, line 1: there is no 'text' or 'sentence'.*--column 0 --label-column 1",
        ),
        ("a.csv", "text,mark\na,b\n", r"a\.csv, line 1: there is no 'label'"),
        ("a.csv", "\ntext,label\na,b\n", r"a\.csv, line 1: the names of the columns should be here"),
        ("a.csv", "text,label\na,b\n\nc,\n", r"a\.csv, line 4: a label should be here"),
        (
            "a.jsonl",
            '{"text": "a", "label": "x"}\n\n{"text": "a", "label": 1}',
            r"line 3: the label is a number, and in line 1",
        ),
        ("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "a", "label": ["x"]}', "line 2: the label is a list"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "a", "text_pair": "b", "label": 2}',
            "line 2: some texts have a pair",
        ),
        ("a.jsonl", '{"text": "a"}', "there is no 'label'"),
        ("a.jsonl", '{"text": 5, "label": "x"}', "a text should be here, found 5"),
        ("a.jsonl", '{"text": "a", "label": null}', "a label should be here, found None"),
        ("a.jsonl", '{"text": "a", "label": {"x": 1}}', "a label should be here"),
        ("a.txt", "a", r"should end in \.jsonl, \.csv or \.tsv"),
    ],
    ids=str,
)
def test_what_is_malformed_is_named_with_its_place(tmp_path, name, text, message):
    with pytest.raises(TextError, match=message):
        read_labelled(write(tmp_path / name, text))


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), max_size=8)
NAME = st.text(st.characters(categories=["L"]), min_size=1, max_size=4)


@given(examples=st.lists(st.tuples(TEXT, NAME), min_size=1, max_size=4))
def test_any_text_survives_csv_and_json(tmp_path_factory, examples):
    folder = tmp_path_factory.mktemp("data")
    wanted = [LabelledText(text, None, label) for text, label in examples]
    assert read_labelled(write(folder / "a.csv", as_csv(wanted))) == wanted
    lines = "\n".join(json.dumps({"text": example.text, "label": example.label}) for example in wanted)
    assert read_labelled(write(folder / "a.jsonl", lines)) == wanted


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_tables_without_names_have_columns_with_numbers(tmp_path, delimiter):
    name = {",": "a.csv", "\t": "a.tsv"}[delimiter]
    path = write(tmp_path / name, "".join(delimiter.join(["7", "bad", "a", "b"]) + "\n" for _ in range(2)))
    assert read_labelled(path, text_column=2, label_column=1) == [LabelledText("a", None, "bad")] * 2
    assert read_labelled(path, text_column=-1, pair_column=-2, label_column=1) == [LabelledText("b", "a", "bad")] * 2
    assert read_labelled(path, text_column=2, with_labels=False) == [LabelledText("a")] * 2


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.csv", {"text_column": 5, "label_column": 0}, r"a\.csv, line 1: there is no column 5, only 2"),
        ("a.csv", {"text_column": 0}, "the numbers of both text and label"),
        ("b.csv", {"text_column": 0, "label_column": 1}, r"b\.csv, line 3: 1 column, but 2 in the first line"),
        ("a.jsonl", {"text_column": 0, "label_column": 1}, "only columns of .csv and .tsv"),
    ],
    ids=str,
)
def test_numbers_of_columns_that_are_not_there_are_refused(tmp_path, name, options, message):
    with pytest.raises(TextError, match=message):
        read_labelled(write(tmp_path / name, "a,b\n" if name != "b.csv" else "a,b\nc,d\ne\n"), **options)


@pytest.mark.parametrize(
    ("header", "name"), [("sentence,id", "sentence"), ("What,Label", "Label"), (" text ,x", " text ")]
)
@pytest.mark.parametrize("with_labels", [True, False])
def test_a_line_of_names_is_no_example(tmp_path, header, name, with_labels):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\nthe cat,x\n")
    with pytest.raises(TextError, match=f"a.csv, line 1: '{name}' is the name of a column: choose columns by name"):
        read_labelled(str(path), text_column=0, label_column=1, with_labels=with_labels)


def test_where_labels_are_to_be_found_a_blank_line_is_an_empty_text(tmp_path):
    wanted = [LabelledText("a"), LabelledText(""), LabelledText("b")]
    assert read_labelled(write(tmp_path / "a.csv", "text\na\n\nb\n"), with_labels=False) == wanted
    assert read_labelled(write(tmp_path / "a.jsonl", '{"text": "a"}\n\n{"text": "b"}\n'), with_labels=False) == wanted


SNLI = [
    {"annotator_labels": ["neutral"], "gold_label": "neutral", "pairID": "1", "sentence1": "a cat", "sentence2": "big"},
    {
        "annotator_labels": ["neutral", "entailment"],
        "gold_label": "-",
        "pairID": "2",
        "sentence1": "a",
        "sentence2": "b",
    },
    {"gold_label": "entailment", "genre": "fiction", "pairID": "3", "sentence1": "a cat", "sentence2": "an animal"},
]


def test_pairs_of_snli_on_which_annotators_disagree_are_left_out_and_counted(tmp_path, caplog):
    path = write(tmp_path / "snli_1.0_dev.jsonl", "\n".join(map(json.dumps, SNLI)))
    assert read_labelled(path) == [
        LabelledText("a cat", "big", "neutral"),
        LabelledText("a cat", "an animal", "entailment"),
    ]
    assert "1 text of" in caplog.text
    assert "snli_1.0_dev.jsonl left out" in caplog.text
    assert len(read_labelled(path, with_labels=False)) == 3


def test_a_hyphen_is_an_ordinary_label_in_other_columns(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "a", "label": "-"}\n{"text": "b", "label": "+"}\n')
    assert [example.label for example in read_labelled(path)] == ["-", "+"]


TREES = "(3 (2 It) (4 lovely))\n(1 (2 It) (0 failed))\n"


def test_sentiment_trees_give_sentences_and_phrases_only_for_the_training(tmp_path):
    path = write(tmp_path / "train.txt", TREES)
    sentences = [LabelledText("It lovely", None, "3"), LabelledText("It failed", None, "1")]
    assert read_labelled(path) == sentences
    assert read_labelled(path, phrases=True, split="validation") == sentences
    phrases = read_labelled(path, phrases=True)
    assert len(phrases) == 5  # "It" once
    assert {*sentences, LabelledText("It", None, "2"), LabelledText("failed", None, "0")} <= {*phrases}


def test_phrases_of_other_data_are_refused(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "a", "label": "x"}\n')
    with pytest.raises(TextError, match="only the trees"):
        read_labelled(path, phrases=True)


def test_a_bracket_that_never_closes_is_named_with_file_and_line(tmp_path):
    path = write(tmp_path / "dev.txt", TREES + "(2 (2 never)\n")
    with pytest.raises(TextError, match=r"dev\.txt, line 3: the bracket of column 1 never closes"):
        read_labelled(path)
