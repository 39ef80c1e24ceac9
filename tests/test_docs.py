"""What the documentation shows runs, and gives what it says."""

import gzip
import json
import multiprocessing
import re
import shlex
import sys

import pytest
import typer
from transformers import pipeline

from elmo_hf import (
    ElmoConfig,
    ElmoForCoreference,
    ElmoForSemanticRoles,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTokenizer,
    cli,
)
from elmo_hf.conversion import convert_bilm_hdf5, write_bilm_hdf5
from elmo_hf.serving import ServingLimits, load_models
from tests.conftest import ROOT
from tests.integrations.folders import BIO, write_tagger
from tests.models import TINY, tiny_model
from tests.serving.running import running

pytestmark = pytest.mark.medium

CONLLU = [(1, "They", "PRON"), (2, "saw", "VERB"), (3, "play", "NOUN"), (4, ".", "PUNCT")]


def code_blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text("utf-8"), flags=re.DOTALL)


def commands(name: str) -> list[str]:
    """The lines of bash blocks that call `elmo-hf`, without what follows in a pipe or goes to a file."""
    blocks = re.findall(r"```(?:bash|console)\n(.*?)```", (ROOT / name).read_text("utf-8"), flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [re.split(r" [|>] ", line)[0] for line in lines if line.removeprefix("$ ").startswith("elmo-hf ")]


def table_rows(name: str, header: str) -> list[list[str]]:
    """The cells of the table under a header line."""
    _, table = (ROOT / name).read_text("utf-8").split(f"| {header} |\n", 1)
    lines = table.split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


DOCUMENTS = sorted(str(path.relative_to(ROOT)) for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if commands(name)])
def test_the_options_of_the_commands_exist(name):
    for line in commands(name):
        words = shlex.split(line.removeprefix("$ "), comments=True)[1:]
        context = typer.main.get_command(cli.app).make_context("elmo-hf", words)
        while isinstance(context.command, typer.core.TyperGroup):
            rest = [*context._protected_args, *context.args]
            command_name, command, rest = context.command.resolve_command(context, rest)
            context = command.make_context(command_name, rest, parent=context)


def words_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.fixture
def folders(tmp_path):
    """The models that the documentation names."""
    write_bilm_hdf5(tiny_model(), tmp_path / "options.json", tmp_path / "weights.hdf5")
    convert_bilm_hdf5(tmp_path / "options.json", tmp_path / "weights.hdf5", tmp_path / "my-elmo")
    heads = {"my-tagger": ElmoForTokenClassification, "my-classifier": ElmoForSequenceClassification}
    heads |= {"my-roles": ElmoForSemanticRoles, "my-coreference": ElmoForCoreference}
    for name, head in heads.items():
        head(ElmoConfig(**(TINY | {"num_labels": 3}))).save_pretrained(tmp_path / name)
        ElmoTokenizer().save_pretrained(tmp_path / name)
    (tmp_path / "me").mkdir()
    for name in ("my-elmo", "my-tagger"):  # what the documentation calls so on the Hub
        (tmp_path / "me" / name).symlink_to(tmp_path / name)


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/analysis.md",
        "docs/coreference.md",
        "docs/heads.md",
        "docs/hub.md",
        "docs/index.md",
        "docs/language-model.md",
        "docs/neighbours.md",
        "docs/onnx.md",
        "docs/precision.md",
        "docs/question-answering.md",
        "docs/semantic-roles.md",
        "docs/tokenizer.md",
    ],
)
def test_the_python_of_the_documentation_runs(name, folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = code_blocks(name)
    assert blocks
    for block in blocks:
        exec(block, {})


def test_the_commands_and_the_python_of_embedding_run(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "sentences.txt").write_text("He sat on the bank of the river.\n\nThe bank was closed.\n")
    (tmp_path / "more.txt.gz").write_bytes(gzip.compress(b"Rain fell all week.\n"))
    (tmp_path / "reviews.jsonl").write_text('{"review": "A fine film.", "id": 7, "label": "positive"}\n')
    (tmp_path / "train.conllu").write_text("1\tRain" + "\t_" * 8 + "\n2\tfell" + "\t_" * 8 + "\n\n")
    text = (ROOT / "docs" / "embedding.md").read_text("utf-8")
    for line in re.findall(r"^elmo-hf embed .*", text, flags=re.MULTILINE):
        if "--resume" not in line:  # of a run that is complete there is nothing to go on with
            monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
            with pytest.raises(SystemExit) as end:
                cli.main()
            assert end.value.code == 0, line
    for block in code_blocks("docs/embedding.md"):
        exec(block, {})


def test_the_commands_of_the_analysis_run(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("elmo_hf.runtime.named_models.default_model", lambda: str(tmp_path / "my-elmo"))
    bank = "the\tthe\tDT\t-\t-\nbank\tbank\tNN\tbank%1:{}:00::\t-\n\n"
    documents = [f"# document = {index}\n" + bank.format(14 + index % 3) for index in range(8)]
    (tmp_path / "semcor.tsv").write_text("".join(documents))
    for name in ("train", "test"):
        (tmp_path / f"{name}.tsv").write_text("the bank\t1\tmoney\na bank\t1\triver\n")
    for name in ("train", "dev", "test"):
        rows = "".join(f"{place}\t{word}\t_\t{tag}\t{tag}" + "\t_" * 5 + "\n" for place, word, tag in CONLLU)
        (tmp_path / f"{name}.conllu").write_text(f"{rows}\n{rows}\n")
        (tmp_path / f"{name}.conll").write_text("a X\nb Y\n\nc X\n")
    (tmp_path / "corpus.txt").write_text("They saw a play .\nA play by Anna .\nThey play .\n")
    text = (ROOT / "docs" / "analysis.md").read_text("utf-8")
    commands = re.findall(r"^elmo-hf analyze .*", text, flags=re.MULTILINE)
    assert {command.split()[2] for command in commands} == {"senses", "probe", "samples", "layers", "neighbors-table"}
    for line in dict.fromkeys(commands):
        monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code == 0, line


def check_values(code: str, names: dict) -> int:
    """Runs code line by line and compares expressions with the values in their comments; the number of these."""
    checked = 0
    for line in code.splitlines():
        expression, _, value = line.partition("  # ")
        if value.startswith(("[", '"')):
            assert eval(expression, names) == eval(value), line
            checked += 1
        else:
            exec(line, names)
    return checked


@pytest.mark.parametrize(("name", "values"), [("docs/tokenizer.md", 3), ("docs/language-model.md", 12)])
def test_values_in_comments_are_what_the_expressions_give(name, values):
    assert check_values("\n".join(code_blocks(name)), {}) == values


def test_the_python_of_spacy_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(multiprocessing, "Process", multiprocessing.get_context("fork").Process)
    write_tagger(tmp_path / "my-ner", BIO)
    names: dict = {}
    start, *others = code_blocks("docs/spacy.md")
    assert check_values(start, names) == 2
    for block in others:
        exec(block, names)
    assert (tmp_path / "my-portable-pipeline" / "elmo" / "model.safetensors").exists()


def test_texts_are_cut_as_the_tables_say():
    for text, words in table_rows("docs/tokenizer.md", "text | words"):
        assert ElmoTokenizer().tokenize(*words_in(text)) == words_in(words)
    for segmenter, words, _ in table_rows(
        "docs/tokenizer.md", "`segmenter` | `我在IBM工作` | saved with the tokenizer"
    ):
        name = words_in(segmenter)[0].strip('"')
        if name in ("character", "run", "jieba"):
            assert ElmoTokenizer(segmenter=name).tokenize("我在IBM工作") == words_in(words)


def test_the_clients_of_serving_run(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # the clients ask this machine only
    names = [str(tmp_path / name) for name in ("my-elmo", "my-tagger")]
    with running(load_models(names, ServingLimits())) as server:
        blocks = code_blocks("docs/serving.md")
        assert len(blocks) == 2
        for block in blocks:
            exec(block.replace("http://127.0.0.1:8080", server.url), {})
        text = (ROOT / "docs" / "serving.md").read_text("utf-8")
        ((example),) = re.findall(r"```json\n(\{\"error\".*?)```", text, flags=re.DOTALL)
        assert server.post("/embed", inputs="a", model="my-elmos").json == json.loads(example)
        (command,) = re.findall(r"curl http://127.0.0.1:8080(\S+) -d '(.*)'", text)
        (shown,) = re.findall(r"```json\n\[(\{\"text\".*?\"embeddings\")", text, flags=re.DOTALL)
        (answer,) = server.send("POST", command[0], command[1].encode()).json
        assert {**json.loads(shown + ": null}"), "embeddings": None} == {**answer, "embeddings": None}


def test_the_codes_of_serving_are_those_of_the_server():
    codes = {code for _, cell in table_rows("docs/serving.md", "status | code") for code in words_in(cell)}
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "elmo_hf" / "serving").glob("*.py"))
    assert codes == set(re.findall(r'ApiError\(\s*\d{3}, "(\w+)"', sources)) | {"not_found", "method_not_allowed"}


def block_with(name: str, text: str) -> str:
    (block,) = (block for block in code_blocks(name) if text in block)
    return block


def test_the_scikit_learn_example_gives_what_it_says():
    names: dict = {}
    exec(block_with("docs/embedding.md", "LogisticRegression"), names)
    assert list(names["topics"]) == ["water", "money"]


def test_the_trainer_example_learns_and_saves_a_tagger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(block_with("docs/heads.md", "Trainer("), names)
    words = pipeline("token-classification", "my-own-tagger")("Anna saw a cat")
    assert [(word["word"], word["entity"]) for word in words] == [("Anna", "PERSON")]
