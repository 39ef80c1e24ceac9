"""`elmo-hf vocab`, `elmo-hf pretrain` and `elmo-hf perplexity`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForPreTraining, AutoTokenizer
from transformers.utils import logging

from elmo_hf import pretraining
from elmo_hf.publishing import read_history
from tests.models import edit_config
from tests.pretraining.runs import (
    FIELDS,
    REPETITIVE,
    SETTINGS,
    VOCABULARY,
    command_line,
    random_documents,
    recorded_losses,
    tiny_language_model,
    tiny_tokenizer,
    write_text,
    write_words,
)


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt", random_documents([3, 1, 4, 2, 5, 3]))


@pytest.fixture
def words(tmp_path):
    return write_words(tmp_path / "vocab.txt")


@pytest.fixture
def language_model(tmp_path):
    """A folder with an untrained biLM."""
    tiny_language_model(dropout=0.0, softmax_type="full").save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def further(model, out, *texts, steps=60, **changes):
    """The arguments for further pretraining: the model's config is its own."""
    values = SETTINGS | {"learning_rate": 0.03} | changes
    del values["epochs"]
    options = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    return ["pretrain", *texts, "--from", model, "--out", out, "--steps", steps, "--pretokenized", *options]


def test_vocab_writes_the_specials_then_words_by_falling_frequency(run, tmp_path):
    (tmp_path / "text.txt").write_text("b , a c .\n\na , zebra b\na\n")
    code, output, error = run("vocab", tmp_path / "text.txt", "--min-count", 2, "--out", tmp_path / "vocab.txt")
    assert code == 0
    assert (tmp_path / "vocab.txt").read_text() == "<S>\n</S>\n<UNK>\na\n,\nb\n"
    assert output == f"{tmp_path / 'vocab.txt'}: 6 words cover 70.00% of 10 tokens\n"
    assert "Traceback" not in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt", "vocab.txt"]


def test_vocab_takes_words_as_blanks_separate_them_and_no_more_than_asked(run, tmp_path):
    (tmp_path / "text.txt").write_text("b. b. a c\n")
    arguments = ["--pretokenized", "--min-count", 1, "--size", 5, "--out", tmp_path / "vocab.txt"]
    assert run("vocab", tmp_path / "text.txt", *arguments)[0] == 0
    assert (tmp_path / "vocab.txt").read_text() == "<S>\n</S>\n<UNK>\nb.\na\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text.txt", "--out", "used.txt"], "used.txt exists: name another file"),
        (["text.txt", "--out", "no/vocab.txt"], "there is no folder no"),
        (["missing.txt", "--out", "new.txt"], "No such file or folder: missing.txt"),
        (["text.txt", "--out", "new.txt", "--size", "2"], "no room for <S>"),
        (["text.txt", "--out", "new.txt", "--segmenter", "nonsense"], "segmenter"),
        (["--out", "new.txt"], "INPUT"),
        (["text.txt"], "--out"),
    ],
    ids=str,
)
def test_a_vocabulary_that_cannot_be_made_is_one_line_and_nothing_is_written(
    refused, text, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    Path("used.txt").write_text("precious")
    before = files(tmp_path)
    assert message in refused("vocab", *arguments)
    assert files(tmp_path) == before


def test_a_table_is_read_by_its_column_by_all_commands(run, language_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("a b\n\nc a\n")
    Path("table.csv").write_text("label,sentence,other\n{,a b,x\n},c a,x\n")
    Path("lines.jsonl").write_text('{"label": "x", "text": "a b"}\n{"label": "x", "text": "c a"}\n')
    for name in ("text.txt", "table.csv", "lines.jsonl"):
        assert run("vocab", name, "--min-count", 1, "--out", f"{name}.vocab")[0] == 0
        assert Path(f"{name}.vocab").read_text() == "<S>\n</S>\n<UNK>\na\nb\nc\n"
    results = {
        name: run("perplexity", language_model, name)[1].replace(name, "").split()
        for name in ("text.txt", "table.csv", "lines.jsonl")
    }
    assert results["table.csv"] == results["lines.jsonl"] == results["text.txt"]
    assert run("vocab", "table.csv", "--column", "other", "--min-count", 1, "--out", "other.vocab")[0] == 0
    assert Path("other.vocab").read_text() == "<S>\n</S>\n<UNK>\nx\n"


@pytest.mark.parametrize("options", [("--column", "text"), ("--split", "train")])
@pytest.mark.parametrize(
    "command",
    [["vocab", "text.txt", "--out", "new"], ["pretrain", "text.txt", "--out", "new"], ["perplexity", "text.txt"]],
    ids=lambda command: command[0],
)
def test_a_column_or_a_split_is_refused_where_no_text_has_one(refused, text, tmp_path, monkeypatch, command, options):
    monkeypatch.chdir(tmp_path)
    message = refused(*command, *options)
    assert f"Invalid value for {options[0]}: no input " in message
    assert "(found text): leave it out." in message


@pytest.mark.parametrize("content", [b"\n \n", b"\0\1", b"rare words\n"], ids=["empty", "binary", "rare"])
def test_a_text_that_gives_no_vocabulary_leaves_nothing(run, tmp_path, content):
    (tmp_path / "text").write_bytes(content)
    code, output, error = run("vocab", tmp_path / "text", "--out", tmp_path / "vocab.txt")
    assert (code, output) == (2, "")
    assert error.splitlines()[-1].startswith("elmo-hf: ")  # after the progress bar
    assert files(tmp_path) == {tmp_path / "text": content}


def test_a_full_disk_leaves_no_half_written_vocabulary(run, text, tmp_path, monkeypatch):
    def write_half(words, path):
        Path(path).write_text("<S>\n</S>\n")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("elmo_hf.modeling.tokenizer_files_elmo.write_vocabulary", write_half)
    before = files(tmp_path)
    code, _, error = run("vocab", text, "--min-count", 1, "--out", tmp_path / "new.txt")
    assert code == 2
    assert "No space left on device" in error.splitlines()[-1]
    assert files(tmp_path) == before


def files(folder: Path) -> dict[Path, bytes | None]:
    """All that is below a folder."""
    return {path: None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def test_pretrain_ends_in_a_folder_that_loads_and_says_its_perplexity(run, text, words, tmp_path):
    out = tmp_path / "new" / "run"
    code, output, error = run(*command_line(text, words, out, steps=4), "--heldout", text, "--tracker", "tensorboard")
    assert code == 0, error
    assert [(record["step"], "loss" in record) for record in read_history(out / "history.jsonl")] == [
        *((step, True) for step in range(1, 5)),
        (4, False),
    ]
    assert "4 steps" in output.splitlines()[-1]
    model, tokenizer = AutoModelForPreTraining.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    result = pretraining.perplexity(model, pretraining.SentenceEncoder(tokenizer, True), pretraining.Corpus(text))
    assert f"after: perplexity forward {result.forward:.2f}, backward {result.backward:.2f}\n" in output
    assert f"({pretraining.protocol(False)}; {result.targets:,} words)\n" in output
    assert list(out.rglob("*tfevents*"))


@pytest.mark.medium
def test_the_seed_decides_the_weights_too(run, text, words, tmp_path):
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        torch.rand(1)  # whatever came before
        # Nothing but the weights is random.
        plain = {"dropout": 0.0, "softmax_type": "full", "reset_probability": 0.0, "steps": 1}
        assert run(*command_line(text, words, tmp_path / name, seed=seed, **plain))[0] == 0
    assert recorded_losses(tmp_path / "one") == recorded_losses(tmp_path / "same")
    assert recorded_losses(tmp_path / "one") != recorded_losses(tmp_path / "other")


def test_the_original_recipe_is_run_as_it_was(run, text, words, tmp_path):
    sizes = [part for name, value in FIELDS.items() for part in ("--set", f"{name}={json.dumps(value)}")]
    arguments = ["--recipe", "original", "--steps", 2, "--batch-size", 2, "--set", "log_every=1"]
    code, _, error = run("pretrain", text, "--vocab", words, "--out", tmp_path / "run", *arguments, *sizes)
    assert code == 0, error
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert (
        settings
        == pretraining.PretrainingSettings.recipe("original", steps=2, epochs=None, batch_size=2, log_every=1).as_dict()
    )
    assert [record["learning_rate"] for record in read_history(tmp_path / "run" / "history.jsonl")] == [0.2, 0.2]


def test_more_steps_prolong_a_run(run, text, words, tmp_path):
    assert run(*command_line(text, words, tmp_path / "run", steps=2))[0] == 0
    code, output, _ = run("pretrain", "--resume", "--out", tmp_path / "run", "--steps", 5, "--set", "log_every=1")
    assert code == 0
    assert output.startswith(f"{tmp_path / 'run'}: continuing after step 2\n")
    assert list(recorded_losses(tmp_path / "run")) == [1, 2, 3, 4, 5]


@pytest.mark.medium
def test_further_pretraining_keeps_the_vocabulary_and_lowers_the_perplexity(run, language_model, tmp_path):
    text = write_text(tmp_path / "domain.txt", REPETITIVE)
    code, output, error = run(*further(language_model, tmp_path / "run", text), "--heldout", text)
    assert code == 0, error
    before, after = (line for line in output.splitlines() if line.startswith(("before: ", "after: ")))
    forward, backward = (float(value.rstrip(",")) for value in before.split()[3::2])
    assert min(forward, backward) > 15
    forward, backward = (float(value.rstrip(",")) for value in after.split()[3::2])
    assert max(forward, backward) < 8
    assert AutoTokenizer.from_pretrained(tmp_path / "run").get_vocab() == tiny_tokenizer().get_vocab()


def test_further_pretraining_can_extend_the_vocabulary(run, language_model, tmp_path):
    text = write_text(tmp_path / "domain.txt", [["the zebra sees the yak", "a yak likes the zebra"]] * 6)
    vocab = write_words(tmp_path / "vocab.txt", ["<S>", "</S>", "<UNK>", "yak", "the", "zebra"])
    options = ["--vocab", vocab, "--extend-vocab"]
    code, _, error = run(*further(language_model, tmp_path / "run", text, steps=3), *options)
    assert code == 0, error
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run")
    assert tokenizer.convert_ids_to_tokens(range(tokenizer.vocab_size)) == [*VOCABULARY, "yak", "zebra"]
    assert AutoModelForPreTraining.from_pretrained(tmp_path / "run").config.vocab_size == len(VOCABULARY) + 2


def test_a_model_without_softmax_is_refused_in_one_line(refused, folder, text, tmp_path):
    for arguments in (further(folder, tmp_path / "run", text), ["perplexity", folder, text]):
        assert f"{folder} has no softmax" in refused(*arguments)
        assert logging.get_verbosity() == logging.ERROR  # no report of many lines by the library
    assert not (tmp_path / "run").exists()


RESUME = ["--resume", "--out"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.txt"], "No such file or folder: missing.txt"),
        (["text.txt/inner"], "No such file or folder: text.txt/inner"),
        (["empty.txt"], "not a single sentence"),
        (["binary"], "is not UTF-8 text"),
        (["used"], "used/mine"),
        ([], "No text was given"),
        (["text.txt", "--heldout", "empty.txt"], "not a single sentence"),
        (["text.txt", "--heldout", "missing.txt"], "No such file or folder: missing.txt"),
        (["text.txt", "--batch-size", "7"], "The text has 6 documents, fewer than the 7 streams"),
        (["text.txt", "--batch-size", "0"], "'--batch-size': must be 1 or more, found 0"),
        (["text.txt", "--batch-size", "many"], "--batch-size"),
        (["text.txt", "--steps", "0"], "'--steps': must be 1 or more, found 0"),
        (["text.txt", "--epochs", "-1"], "'--epochs': must be 1 or more, found -1"),
        (["text.txt", "--set", "learning_rat=1"], "learning_rat"),
        (["text.txt", "--set", "learning_rate=high"], "learning_rate"),
        (["text.txt", "--set", "learning_rate=-1"], "`learning_rate` must be greater than 0"),
        (["text.txt", "--set", "window=2.5"], "window"),
        (["text.txt", "--set", "optimizer=sgd"], "optimizer"),
        (["text.txt", "--set", "cell_size=big"], "cell_size"),
        (["text.txt", "--set", "cell_size=-1"], "cell_size"),
        (["text.txt", "--set", "steps"], "--set takes NAME=VALUE, found 'steps'"),
        (["text.txt", "--recipe", "nonsense"], "--recipe"),
        (["text.txt", "--size", "huge"], "--size"),
        (["text.txt", "--tracker", "nonsense"], "There is no tracker 'nonsense'"),
        (["text.txt", "--segmenter", "nonsense"], "segmenter"),
        (["text.txt", "--vocab", "missing.txt"], "missing.txt"),
        (["text.txt", "--vocab", "used"], "used"),
        (["text.txt", "--vocab", "binary"], "binary is not a vocabulary"),
        (["text.txt", "--vocab", "text.txt"], "vocabulary"),
        (["text.txt", "--vocab", "words.txt"], "lacks <S>, </S>, <UNK>"),
        (["text.txt", "--extend-vocab"], "--from"),
        (["text.txt", "--from", "model"], "--extend-vocab"),
        (["text.txt", "--from", "used", "--extend-vocab"], "used holds no model: config.json is missing"),
        (["text.txt", "--from", "model", "--extend-vocab", "--set", "dropout=0.5"], "dropout cannot be set"),
        (["text.txt", "--from", "model", "--spelling", "code-points"], "of the model as they are"),
        (["text.txt", "--from", "model", "--segmenter", "character"], "of the model as they are"),
        (["text.txt", "--from", "model", "--splitting", "whitespace"], "of the model as they are"),
        (["text.txt", "--from", "model", "--size", "small"], "of the model as they are"),
        (["text.txt", "--out", "used"], "used exists and is not an empty folder"),
        (["text.txt", "--out", "text.txt"], "text.txt exists and is not an empty folder"),
        ([*RESUME, "used"], "used holds no run"),
        ([*RESUME, "missing"], "missing holds no run"),
        ([*RESUME, "missing", "text.txt"], "begun with: leave out INPUT, or begin a run in another folder"),
        ([*RESUME, "missing", "--vocab", "vocab.txt"], "leave out --vocab, or"),
        ([*RESUME, "missing", "--size", "compact", "--recipe", "modern"], "leave out --recipe, --size, or"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_in_a_run_is_one_line_and_leaves_nothing_behind(
    refused, text, words, language_model, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n \n")
    Path("binary").write_bytes(b"\0\xff")
    Path("words.txt").write_text("the\ncat\n")
    Path("used").mkdir()
    Path("used", "mine").write_bytes(b"\0precious")
    before = files(tmp_path)
    sizes = [part for name, value in FIELDS.items() for part in ("--set", f"{name}={json.dumps(value)}")]
    defaults = ["--vocab", "vocab.txt", "--out", "new/run", "--batch-size", "2", "--set", "mixed_precision=no"]
    if "--from" not in arguments and "--resume" not in arguments:
        defaults += sizes
    # What comes last wins.
    assert message in refused("pretrain", *([] if "--resume" in arguments else defaults), *arguments)
    assert files(tmp_path) == before


def test_a_folder_with_a_run_is_not_begun_again(run, refused, text, words, tmp_path):
    arguments = command_line(text, words, tmp_path / "run", steps=1)
    assert run(*arguments)[0] == 0
    before = files(tmp_path)
    assert "already holds a run: continue with --resume" in refused(*arguments)
    for change, message in (("learning_rat=1", "learning_rat"), ("learning_rate=x", "learning_rate")):
        assert message in refused("pretrain", *RESUME, tmp_path / "run", "--set", change)
    assert "'batch_size': 2" in refused("pretrain", *RESUME, tmp_path / "run", "--batch-size", 3)
    assert files(tmp_path) == before


def test_a_loss_that_explodes_is_one_line_that_names_the_last_checkpoint(run, text, words, tmp_path):
    arguments = command_line(text, words, tmp_path / "run", steps=50, learning_rate=1e6, clip_norm=1e9, save_every=1)
    code, output, error = run(*arguments)
    assert (code, output) == (2, "")
    last = error.splitlines()[-1]
    assert last.startswith("elmo-hf: Step ")
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    assert f"The last good checkpoint is {newest}" in last
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.medium
def test_ctrl_c_and_a_termination_save_and_name_how_to_go_on(run, text, words, tmp_path):
    folder, resume = tmp_path / "run", ["pretrain", "--resume", "--out", str(tmp_path / "run")]
    steps = 0
    for signum, arguments in (
        (signal.SIGINT, command_line(text, words, folder, steps=1_000_000, save_every=1_000_000)),
        (signal.SIGTERM, resume),
    ):
        process = subprocess.Popen(
            [sys.executable, "-m", "elmo_hf.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            text=True,
        )
        history = folder / "history.jsonl"
        while process.poll() is None and (not history.exists() or len(read_history(history)) < steps + 3):
            time.sleep(0.02)
        process.send_signal(signum)
        output, error = process.communicate()
        assert process.returncode == 0, error
        steps = max(recorded_losses(folder))
        assert output.splitlines()[-2:] == [
            f"stopped and saved after step {steps:,}",
            f"to continue: elmo-hf pretrain --resume --out {folder}",
        ]
        assert "Traceback" not in error
        assert [path.name for path in (folder / "checkpoints").iterdir() if path.name.endswith(f"{steps:08d}")]
    assert run(*resume, "--steps", steps + 2)[0] == 0
    assert list(recorded_losses(folder)) == list(range(1, steps + 3))


def test_perplexity_is_that_of_the_package_for_each_text_and_state(run, language_model, text, tmp_path):
    other = write_text(tmp_path / "other.txt", REPETITIVE)
    code, output, error = run("perplexity", language_model, text, other, "--pretokenized")
    assert (code, error) == (0, "")
    header, *lines, protocol = output.splitlines()
    assert header.split() == ["text", "state", "forward", "backward", "words"]
    model, tokenizer = pretraining.load_language_model(str(language_model))
    encode = pretraining.SentenceEncoder(tokenizer, True)
    expected = []
    for path in (text, other):
        for state in ("zero", "carried"):
            result = pretraining.perplexity(model, encode, pretraining.Corpus(path), carry_state=state == "carried")
            expected.append(
                [path.name, state, f"{result.forward:.2f}", f"{result.backward:.2f}", f"{result.targets:,}"]
            )
    assert [line.split() for line in lines] == expected
    assert pretraining.protocol(carry_state=False) in protocol
    assert "carried: along each document" in protocol


def test_perplexity_without_a_model_is_that_of_the_default_one(run, language_model, text, monkeypatch):
    expected = run("perplexity", language_model, text)
    monkeypatch.setattr("elmo_hf.runtime.named_models.default_model", lambda: str(language_model))
    assert run("perplexity", text) == expected
    assert expected[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.txt"], "No such file or folder: missing.txt"),
        (["missing.txt", "text.txt"], "No such file or folder: missing.txt"),
        (["model", "text.txt", "missing.txt"], "No such file or folder: missing.txt"),
        (["missing-model", "text.txt"], "missing-model"),
        (["model"], "name at least one file or dataset"),
        (["model", "empty.txt"], "not a single sentence"),
        (["model", "binary"], "is not UTF-8 text"),
        ([], "INPUT"),
    ],
    ids=" ".join,
)
def test_a_mistake_about_perplexity_is_one_line(run, text, language_model, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("elmo_hf.runtime.named_models.default_model", lambda: "model")
    Path("empty.txt").write_text("\n")
    Path("binary").write_bytes(b"\0")
    code, output, error = run("perplexity", *arguments)
    assert code == 2
    assert len(output.splitlines()) <= 1  # the table's head
    assert error.startswith("elmo-hf: ")
    assert error.count("\n") == 1
    assert message in error


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"cell_size": 9}, "elmo.layers.0.bias should be (2, 36) by config.json"),
        ({"cell_size": -1}, "`cell_size` must"),
    ],
    ids=str,
)
def test_a_damaged_language_model_is_one_line(refused, language_model, text, fields, message):
    edit_config(language_model, **fields)
    assert message in refused("perplexity", language_model, text)


def test_a_model_stored_in_half_precision_is_trained_in_full(run, language_model, text, tmp_path):
    AutoModelForPreTraining.from_pretrained(language_model, dtype=torch.float16).save_pretrained(language_model)
    assert run(*further(language_model, tmp_path / "run", text, steps=2))[0] == 0
    assert AutoModelForPreTraining.from_pretrained(tmp_path / "run").dtype == torch.float32
