"""SQuAD's questions from its JSON, JSON lines and datasets; bad ones are named with file, article and paragraph."""

import json
import lzma

import pytest

from elmo_hf.data.squad import Answer, Question, read_squad
from elmo_hf.errors import TextError

CONTEXT = "Anna sat on the bank. It was cold."
WANTED = [
    Question("1", "Who sat there?", CONTEXT, (Answer("Anna", 0), Answer("Anna sat", 0)), "Anna"),
    Question("2", "Who swam?", CONTEXT, (), "Anna"),
]


def content(**changes) -> dict:
    answers = [{"text": "Anna", "answer_start": 0}, {"text": "Anna sat", "answer_start": 0}]
    first = {"id": "1", "question": "Who sat there?", "answers": answers, "is_impossible": False} | changes
    second = {"id": "2", "question": "Who swam?", "answers": [], "is_impossible": True}
    return {
        "version": "v2.0",
        "data": [{"title": "Anna", "paragraphs": [{"context": CONTEXT, "qas": [first, second]}]}],
    }


def write(path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_json_compressed_json_and_json_lines_give_the_same_questions(tmp_path):
    (tmp_path / "dev.json.xz").write_bytes(lzma.compress(json.dumps(content()).encode()))
    rows = [
        {
            "id": question.id,
            "title": question.article,
            "question": question.question,
            "context": question.context,
            "answers": {
                "text": [answer.text for answer in question.answers],
                "answer_start": [answer.start for answer in question.answers],
            },
        }
        for question in WANTED
    ]
    assert read_squad(write(tmp_path / "dev.json", json.dumps(content(), indent=2))) == WANTED
    assert read_squad(str(tmp_path / "dev.json.xz")) == WANTED
    assert read_squad(write(tmp_path / "dev.jsonl", "\n".join(map(json.dumps, rows)))) == WANTED
    unanswered = [question._replace(answers=None) for question in WANTED]
    assert read_squad(str(tmp_path / "dev.jsonl"), with_answers=False) == unanswered


PLACE = r"dev\.json, line 1, article 1 \(Anna\), paragraph 1"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"answers": [{"text": "Bert", "answer_start": 0}]}, f"{PLACE}, question '1': the answer 'Bert' is not in its"),
        (
            {"answers": [{"text": "bank", "answer_start": 3}]},
            f"{PLACE}, .* not at character 3, but at 16",
        ),
        ({"answers": [{"text": "Anna", "answer_start": -4}]}, "not at character -4, but at 0"),
        ({"answers": [{"text": "Anna", "answer_start": "0"}]}, '"answer_start" should be a number'),
        ({"answers": [{"text": " ", "answer_start": 4}]}, "the answer is empty"),
        ({"answers": [{"text": 3, "answer_start": 4}]}, "a text 'text' should be here, found 3"),
        ({"answers": "Anna"}, "a list 'answers' should be here, found 'Anna'"),
        ({"question": None}, "a text 'question' should be here, found None"),
    ],
)
def test_a_bad_question_is_named_with_its_file_article_and_paragraph(tmp_path, changes, problem):
    with pytest.raises(TextError, match=problem):
        read_squad(write(tmp_path / "dev.json", json.dumps(content(**changes))))


def test_a_bad_question_is_named_with_its_line(tmp_path):
    bad = content()
    questions = bad["data"][0]["paragraphs"][0]["qas"]
    questions.append(
        questions[0] | {"id": "é", "answers": [{"text": "Bert", "answer_start": 0}], "is_impossible": False}
    )
    for as_ascii in (True, False):
        text = json.dumps(bad, indent=1, ensure_ascii=as_ascii)
        line = 1 + [json.dumps("é", ensure_ascii=as_ascii) in line for line in text.splitlines()].index(True)
        with pytest.raises(TextError, match=rf"dev\.json, line {line}, article 1 .*question 'é': the answer 'Bert'"):
            read_squad(write(tmp_path / "dev.json", text))


def test_a_question_without_an_answer_must_be_impossible(tmp_path):
    with pytest.raises(TextError, match=f"{PLACE}, question '1': it has no answer, but is not marked"):
        read_squad(write(tmp_path / "dev.json", json.dumps(content(answers=[], is_impossible=False))))
    with pytest.raises(
        TextError, match=f"{PLACE}, question '1': \"is_impossible\" should be true or false, found 'no'"
    ):
        read_squad(write(tmp_path / "dev.json", json.dumps(content(is_impossible="no"))))
    row = {"question": "?", "context": "a", "answers": {"text": [], "answer_start": []}, "is_impossible": False}
    with pytest.raises(TextError, match=r"dev\.jsonl, line 1: it has no answer, but is not marked"):
        read_squad(write(tmp_path / "dev.jsonl", json.dumps(row)))


def test_a_question_of_squad_1_without_an_answer_is_refused(tmp_path):
    bad = content(answers=[])
    del bad["data"][0]["paragraphs"][0]["qas"][0]["is_impossible"]
    with pytest.raises(TextError, match=f"{PLACE}, question '1': it has no answer"):
        read_squad(write(tmp_path / "dev.json", json.dumps(bad)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"data": [\n{"title": }]}', "line 2, column 11: not JSON"),
        ('{"paragraphs": []}', "a list 'data' should be here"),
        ('{"data": [{"title": "Anna"}]}', r"line 1, article 1 \(Anna\): a list 'paragraphs' should be here"),
        ('{"data": [3]}', "article 1: a list 'paragraphs' should be here, found 3"),
        ('{"data": [{"paragraphs": [{"context": "a"}]}]}', "article 1, paragraph 1: a list 'qas'"),
        ('{"data": [{"paragraphs": [{"qas": [{}]}]}]}', "article 1, paragraph 1: a text 'context'"),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [3]}]}]}', "a question should be an object, found 3"),
        ('{"data": []}', "not a single question"),
        ("[" * 100_000, "nested too deeply|not JSON"),
    ],
)
def test_a_malformed_file_is_named_with_the_place(tmp_path, text, problem):
    with pytest.raises(TextError, match=problem):
        read_squad(write(tmp_path / "dev.json", text))


def test_rows_are_named_with_their_line(tmp_path):
    row = {"question": "?", "context": "a", "answers": {"text": ["a", "a"], "answer_start": [0]}}
    with pytest.raises(TextError, match=r"dev\.jsonl, line 1: .text. has 2 entries"):
        read_squad(write(tmp_path / "dev.jsonl", json.dumps(row)))
    with pytest.raises(TextError, match=r"should end in \.json"):
        read_squad(write(tmp_path / "dev.csv", "a,b\n"))
