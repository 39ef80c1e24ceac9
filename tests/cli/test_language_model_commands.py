"""`elmo-hf score`, `next`, `previous`, `substitutes` and `similar`: what the language model answers, printed."""

import csv
import io
import json
import math
import sys

import pytest
from datasets import Dataset, DatasetDict

from tests.language_model.models import tiny_language_model

TEXT = "the cat sat.\n\na dog on the mat\n"


@pytest.fixture
def lm():
    lm = tiny_language_model()
    lm.model.float()
    return lm


@pytest.fixture
def stored(lm, tmp_path):
    for part in (lm.model, lm.tokenizer):
        part.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    return tmp_path / "text.txt"


def columns(output: str) -> list[list[float]]:
    return [[float(value) for value in line.split("\t")] for line in output.splitlines()]


def test_every_line_has_its_log_probabilities_blank_ones_too(run, lm, stored, text):
    code, output, error = run("score", stored, text)
    assert (code, error) == (0, "")
    expected = [
        [score.forward_sum, score.backward_sum, score.both_sum, score.perplexity.targets]
        for score in lm.score(["the cat sat.", "", "a dog on the mat"])
    ]
    assert len(expected) == len(columns(output)) == 3
    for row, wanted in zip(columns(output), expected, strict=True):
        assert row == pytest.approx(wanted, abs=2e-4)


def test_the_model_may_be_an_option_and_the_text_standard_input(run, stored, text, monkeypatch):
    expected = run("score", stored, text)
    assert run("score", "--model", stored, text) == expected
    with open(text, encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert run("score", stored, "-") == expected
    assert run("score", stored, text, text)[1] == expected[1] * 2


def test_words_may_be_what_blanks_separate(run, lm, stored, text):
    code, output, _ = run("score", stored, text, "--pretokenized")
    assert code == 0
    assert columns(output)[0] == pytest.approx(
        [*(getattr(lm.score([["the", "cat", "sat."]])[0], f"{way}_sum") for way in ("forward", "backward", "both")), 4],
        abs=2e-4,
    )


def test_every_token_is_given_as_json(run, lm, stored, text):
    code, output, _ = run("score", stored, text, "--tokens")
    assert code == 0
    records = [json.loads(line) for line in output.splitlines()]
    expected = lm.score(["the cat sat.", "", "a dog on the mat"])
    assert [line["tokens"] for line in records] == [score.tokens for score in expected]
    assert records[2]["unknown"] == [False, False, True, False, False, False, False]
    for line, score in zip(records, expected, strict=True):
        assert line["forward"] == pytest.approx(score.forward, abs=1e-5)
        assert line["backward"] == pytest.approx(score.backward, abs=1e-5)


def test_a_direction_that_is_missing_is_no_number(run, text, tmp_path):
    lm = tiny_language_model(directions="forward")
    for part in (lm.model.float(), lm.tokenizer):
        part.save_pretrained(tmp_path / "forward")
    assert [line.split("\t")[1:3] for line in run("score", tmp_path / "forward", text)[1].splitlines()] == [
        ["nan", "nan"]
    ] * 3
    assert json.loads(run("score", tmp_path / "forward", text, "--tokens")[1].splitlines()[0])["backward"] is None


def rows_of(output: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(output, newline=""), dialect="excel-tab"))


def test_the_surprisal_table_has_one_row_per_word_and_numbers_its_lines(run, lm, stored, text):
    code, output, error = run("score", stored, text, text, "--format", "surprisal")
    assert (code, error) == (0, "")
    rows = rows_of(output)
    assert list(rows[0]) == [
        *("sentence", "position", "word", "forward", "backward", "both", "unknown", "length", "log_frequency")
    ]
    words = [["the", "cat", "sat", "."], [], ["a", "dog", "on", "the", "mat"]] * 2  # the blank line has a number
    expected = [
        (str(line), str(place), word)
        for line, line_words in enumerate(words, start=1)
        for place, word in enumerate(line_words, start=1)
    ]
    assert [(row["sentence"], row["position"], row["word"]) for row in rows] == expected
    dog = rows[5]
    score = lm.score("a dog on the mat")
    assert (dog["word"], dog["unknown"], dog["length"], dog["log_frequency"]) == ("dog", "1", "3", "")
    assert float(dog["forward"]) == pytest.approx(-score.forward[2] / math.log(2), abs=1e-4)
    assert float(dog["backward"]) == pytest.approx(-score.backward[2] / math.log(2), abs=1e-4)
    assert rows[0]["unknown"] == "0"
    assert float(rows[0]["log_frequency"]) < 0


def test_the_surprisal_table_gives_words_back_as_the_file_has_them(run, stored, tmp_path):
    words = ['"', "a\tb", "tw o", "'", '""', "línea\n", "河岸", "NA", "cr\rx", "\u2028", "#"]
    (tmp_path / "words.jsonl").write_text(json.dumps({"words": words}) + "\n", "utf-8")
    code, output, _ = run("score", stored, tmp_path / "words.jsonl", "--format", "surprisal")
    assert code == 0
    assert [row["word"] for row in rows_of(output)] == words
    assert [int(row["length"]) for row in rows_of(output)] == [len(word) for word in words]


def test_the_surprisal_table_is_empty_where_the_model_has_no_direction(run, text, tmp_path):
    lm = tiny_language_model(directions="forward")
    for part in (lm.model.float(), lm.tokenizer):
        part.save_pretrained(tmp_path / "forward")
    rows = rows_of(run("score", tmp_path / "forward", text, "--format", "surprisal")[1])
    assert {(row["backward"], row["both"]) for row in rows} == {("", "")}
    assert all(float(row["forward"]) > 0 for row in rows)


def test_a_column_and_a_split_can_be_chosen(run, refused, stored, tmp_path):
    (tmp_path / "text.txt").write_text("the cat\n", "utf-8")
    (tmp_path / "table.csv").write_text("id,sent\n1,the cat\n", "utf-8")
    saved = Dataset.from_dict({"sent": ["the cat"], "id": [1]})
    DatasetDict({"dev": saved}).save_to_disk(tmp_path / "saved")
    expected = run("score", stored, tmp_path / "text.txt")[1]
    assert run("score", stored, tmp_path / "table.csv", "--column", "sent")[1] == expected
    assert run("score", stored, tmp_path / "saved", "--column", "sent", "--split", "dev")[1] == expected
    message = refused("score", stored, tmp_path / "table.csv")
    assert "only 'id', 'sent'. Choose one of them with --column." in message
    assert "--column: no input has columns to choose from (found text): leave it out." in refused(
        "score", stored, tmp_path / "text.txt", "--column", "sent"
    )
    assert "--split: no input is a dataset with splits (found csv): leave it out." in refused(
        "score", stored, tmp_path / "table.csv", "--column", "sent", "--split", "dev"
    )


def test_two_formats_at_once_are_refused(refused):
    assert "choose one" in refused("score", "no-model", "no.txt", "--tokens", "--format", "surprisal")


def test_words_after_and_before_a_text_are_printed_with_their_log_probability(run, lm, stored):
    for command, answers in (("next", lm.next_words("the cat", 3)), ("previous", lm.previous_words("the cat", 3))):
        expected = "".join(f"{log_prob:8.3f}  {word}\n" for word, log_prob in answers)
        assert run(command, "the cat", "--model", stored, "-k", "3") == (0, expected, "")


def test_substitutes_are_printed_with_both_directions(run, lm, stored):
    code, output, error = run("substitutes", "the **cat** sat", "--model", stored, "-k", "4", "--rarity", "2")
    assert (code, error) == (0, "")
    header, *lines = output.splitlines()
    assert header.split() == ["both", "forward", "backward"]
    expected = lm.substitutes("the **cat** sat", k=4, rarity=2)
    assert [line.split()[-1] for line in lines] == [substitute.word for substitute in expected]
    for line, substitute in zip(lines, expected, strict=True):
        assert [float(value) for value in line.split()[:3]] == pytest.approx(substitute[1:], abs=2e-3)


@pytest.mark.parametrize("vectors", [None, "encoder"])
def test_similar_words_are_printed_with_their_cosine(run, lm, stored, vectors):
    code, output, _ = run("similar", "cat", "--model", stored, *(["--vectors", vectors] if vectors else []))
    assert code == 0
    assert output == "".join(f"{value:6.3f}  {word}\n" for word, value in lm.static_neighbors("cat", 10, vectors))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score"], "Missing argument"),
        (["score", "missing.txt"], "missing.txt"),
        (["next", "the", "-k", "0"], "'--number': must be 1 or more, found 0"),
        (["substitutes", "the cat"], "mark"),
        (["similar", "dog", "--vectors", "softmax"], "'dog' is not in the vocabulary"),
    ],
)
def test_a_mistake_is_one_line(refused, stored, arguments, message):
    model = ["--model", stored] if arguments != ["score"] else []
    assert message in refused(*arguments, *model)


def test_a_model_without_softmax_is_refused(refused, folder, text):
    assert "has no softmax, so it cannot predict words" in refused("score", folder, text)
    assert "has no softmax" in refused("next", "the", "--model", folder)


def test_a_line_that_is_no_text_is_named(refused, stored, tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\xfe bad\n")
    assert "bad.txt, line 2" in refused("score", stored, tmp_path / "bad.txt")
