"""What ends a command: one line for every foreseeable failure, a request for a report for any other."""

import os
import subprocess
import sys

import pytest

from elmo_hf import ElmoIndex


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("learning_rat=1", "There is no setting or field of the config 'learning_rat' (did you mean 'learning_rate'?)"),
        ("cel_size=1", "(did you mean 'cell_size'?)"),
        ("xyzzy=1", "There is no setting or field of the config 'xyzzy'. ("),
        ("learning_rate=high", "`learning_rate` must be float or int, found 'high'."),
        ("cell_size=x", "`cell_size` must be int, found 'x'."),
        ("steps=2.5", "`steps` must be int, found 2.5."),
        ("optimizer=adm", "`optimizer` must be 'adamw', 'adagrad' or 'muon', found 'adm' (did you mean 'adamw'?)."),
        ("softmax_type=xyz", "`softmax_type` must be 'full', 'sampled' or 'adaptive', found 'xyz'."),
        ("char_filters=abc", "`char_filters` must be a list, found str."),
        ("optimizer=sgd", "optimizer"),
        (
            "pair_attention=esims",
            "`pair_attention` must be true, false or \"esim\", found 'esims' (did you mean 'esim'?).",
        ),
        ("text_pairs=x", "`text_pairs` must be true or false, found 'x'."),
        ("mixer_weights=3", "`mixer_weights` must be str or list, found 3."),
    ],
)
def test_a_wrong_setting_is_told_in_plain_words(refused, tmp_path, assignment, message):
    (tmp_path / "text.txt").write_text("the cat\n")
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    error = refused(
        "pretrain", tmp_path / "text.txt", "--vocab", tmp_path / "vocab.txt", "--out", tmp_path / "run",
        "--set", assignment,
    )  # fmt: skip
    assert message in error
    assert "Validation error" not in error
    assert "<class" not in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["embed", "a", "--out", "b", "--dtype", "flaot16"],
            "'flaot16' is not one of 'float32', 'float16', 'bfloat16'",
        ),
        (["embed", "a", "--out", "b", "--format", "parqet"], "(did you mean 'parquet'?). (see "),
        (["vocab", "a", "--out", "b", "--segmenter", "jeiba"], "(did you mean 'jieba'?). (see "),
        (["similar", "a", "--vectors", "encodr"], "(did you mean 'encoder'?). (see "),
        (
            ["embed", "a", "--out", "b", "--dtype", "it's 'odd'"],
            "is not one of 'float32', 'float16', 'bfloat16'. (see ",
        ),
        (["embed", "a", "--out", "b", "--pretokenised"], "--pretokenised (did you mean '--pretokenized'?). (see "),
        (["finetune", "tagging", "--out", "b", "--tagcolumn", "0"], "(did you mean '--tag-column'?). (see "),
        (["card", "a", "--overwite"], "(did you mean '--overwrite'?). (see "),
    ],
    ids=str,
)
def test_a_misspelled_option_or_choice_is_answered_with_the_closest(refused, arguments, message):
    error = refused(*arguments)
    assert message in error
    if "flaot16" in arguments:
        assert "(did you mean 'float16'?). (see " in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "a", "--batch-size", "0"], "'--batch-size': must be 1 or more, found 0. (see "),
        (["predict", "a", "--batch-size", "-4"], "'--batch-size': must be 1 or more, found -4. (see "),
        (["finetune", "tagging", "--out", "a", "--vectors-size", "0"], "'--vectors-size': must be 1 or more, found 0."),
        (["finetune", "tagging", "--out", "a", "--epochs", "many"], "'--epochs': must be a valid integer, found many."),
        (["space", "--port", "99999"], "'--port': must be 65535 or less, found 99999. (see "),
        (["space", "--port", "-1"], "'--port': must be 0 or more, found -1. (see "),
    ],
    ids=str,
)
def test_a_number_out_of_range_is_named_with_its_limit(refused, arguments, message):
    assert message in refused(*arguments)


@pytest.fixture
def broken(monkeypatch):
    """Makes `elmo-hf neighbors` fail with an error."""

    def broken(error: Exception):
        def load(folder):
            raise error

        monkeypatch.setattr(ElmoIndex, "load", load)

    return broken


def test_a_bug_is_one_line_that_asks_for_a_report(run, broken, monkeypatch):
    broken(KeyError("some\nname"))
    code, output, error = run("neighbors", "folder", "a **b**")
    assert (code, output) == (1, "")
    assert error.count("\n") == 1
    assert "unexpected error (KeyError: 'some\\nname', test_main.py:" in error
    assert "export ELMO_HF_TRACEBACK=1" in error
    monkeypatch.setenv("ELMO_HF_TRACEBACK", "1")
    code, _, error = run("neighbors", "folder", "a **b**")
    assert code == 1
    assert error.startswith("Traceback (most recent call last)")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("3 GB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: 8 bytes"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
    ids=str,
)
def test_too_little_memory_is_one_line(refused, broken, error):
    broken(error)
    assert "There is not enough memory" in refused("neighbors", "folder", "a **b**")


@pytest.mark.medium
def test_a_reader_that_has_had_enough_ends_a_command_quietly(folder, tmp_path):
    (tmp_path / "text.txt").write_text("the cat\n" * 20_000)
    command = [sys.executable, "-m", "elmo_hf.cli", "score", str(tmp_path / "text.txt")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.wait()
