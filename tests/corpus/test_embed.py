"""
Corpora: the vectors are those of the embedder, and the output is the same, byte for byte, however often the run was
stopped, wherever, and however many processes shared it.
"""

import hashlib
import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import h5py
import numpy as np
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from elmo_hf import ElmoEmbedder, ElmoTokenizer
from elmo_hf.corpus import embed as corpus
from elmo_hf.corpus import embed_corpus
from elmo_hf.corpus.work import fingerprint
from elmo_hf.errors import FolderError, RunError, TextError
from tests.embedding.forked import SHARD_CHARACTERS, run_plan
from tests.embedding.toy import toy_embedder
from tests.launched import launch
from tests.locked import HOLD_LOCK, ROOT
from tests.models import tiny_model

EMBEDDER = toy_embedder()
RANDOM = random.Random(0)
VOCABULARY = ["the", "bank", "river", "Zürich", "do", "n't", "closed", ".", "supercalifragilistic"]
LINES = ["" if index % 6 == 4 else " ".join(RANDOM.choices(VOCABULARY, k=index % 9)) for index in range(40)]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(corpus, "SHARD_CHARACTERS", SHARD_CHARACTERS)


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, "utf-8")
    return path


def embed(text, out, **options):
    return embed_corpus(text, out, embedder=EMBEDDER, **({"progress": False} | options))


def write_model(folder: Path) -> str:
    tiny_model(vocab_size=3).save_pretrained(folder)
    ElmoTokenizer().save_pretrained(folder)
    return str(folder)


# ---- what is written


@settings(max_examples=20)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\n\r"), max_size=30), max_size=12),
    st.sampled_from(["mix", "all", 1]),
    st.sampled_from([None, "mean", "max"]),
)
def test_one_line_in_one_record_out_as_the_embedder_gives_it(tmp_path_factory, lines, layers, pooling):
    folder = tmp_path_factory.mktemp("lines")
    (folder / "text").write_bytes("".join(f"{line}\n" for line in lines).encode())
    summary = embed(folder / "text", folder / "out.hdf5", layers=layers, pooling=pooling)
    expected = EMBEDDER.embed(lines, layers=layers, pooling=pooling)
    assert summary.records == len(lines)
    with h5py.File(folder / "out.hdf5") as file:
        for index, vectors in enumerate(expected):
            np.testing.assert_allclose(file[str(index)][...], vectors, atol=1e-5)
            assert file[str(index)].shape == vectors.shape


def test_the_words_are_those_that_have_the_vectors(text, tmp_path):
    embed(text, tmp_path / "out.parquet")
    embed(text, tmp_path / "words.parquet", pretokenized=True)
    for name, words in (
        ("out", [sentence.words for sentence in EMBEDDER.tokenize(LINES)]),
        ("words", map(str.split, LINES)),
    ):
        table = pq.read_table(tmp_path / f"{name}.parquet")
        assert table["words"].to_pylist() == list(words)
        assert [len(vectors) for vectors in table["vectors"].to_pylist()] == [
            len(w) for w in table["words"].to_pylist()
        ]
        assert table["text"].to_pylist() == LINES


def test_nothing_but_the_output_is_left(text, tmp_path):
    summary = embed(text, tmp_path / "out.npz")
    assert summary == (tmp_path / "out.npz", 40, sum(map(len, map(str.split, LINES))), 0, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.npz", "text.txt"]
    assert (tmp_path / "out.npz").stat().st_mode == text.stat().st_mode


def test_the_bar_shows_tokens_a_second_and_the_time_left(text, tmp_path, capsys):
    embed(text, tmp_path / "out.npz", progress=True)
    output, error = capsys.readouterr()
    assert output == ""
    assert "tokens/s]" in error
    assert "100%" in error
    assert "<00:00" in error
    assert f"{len(TEXT.encode())}/{len(TEXT.encode())}" in error
    assert "40/40" in error  # records written


# ---- bad lines


def test_a_bad_line_stops_with_its_file_and_number_and_can_be_skipped_on_resume(tmp_path):
    lines = [json.dumps({"text": line}) for line in LINES]
    lines[30], lines[35] = "{", '{"other": 1}'
    source = tmp_path / "a.jsonl"
    source.write_text("\n".join(lines))
    with pytest.raises(TextError, match=r"a\.jsonl, line 31: not JSON"):
        embed(source, tmp_path / "out.parquet")
    shards = sorted((tmp_path / "out.parquet.parts").glob("*.safetensors"))
    assert len(shards) > 3
    before = [shard.stat().st_mtime_ns for shard in shards]
    with pytest.raises(TextError, match="line 31"):
        embed(source, tmp_path / "out.parquet", resume=True)
    assert [shard.stat().st_mtime_ns for shard in shards] == before
    summary = embed(source, tmp_path / "out.parquet", resume=True, skip_bad=True)
    assert (summary.records, summary.skipped) == (38, 2)
    assert [message.partition(":")[0] for message in summary.bad] == [f"{source}, line {line}" for line in (31, 36)]
    kept = [line for index, line in enumerate(LINES) if index not in (30, 35)]
    assert pq.read_table(tmp_path / "out.parquet")["text"].to_pylist() == kept


def test_of_many_bad_lines_all_are_counted_and_the_first_are_told(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good\n" + b"\xff\n" * 50)
    summary = embed(tmp_path / "a.txt", tmp_path / "out.npz", skip_bad=True)
    assert (summary.records, summary.skipped, len(summary.bad)) == (1, 50, 10)


# ---- stopped and resumed

FORMATS = {
    "parquet": [],
    "safetensors": ["--dtype", "bfloat16"],
    "hdf5": ["--layers", "all"],
    "npz": ["--pooling", "max"],
}
FULL = [
    ("parquet", 500),
    *((ending, 4000) for ending in FORMATS if ending != "safetensors"),
]  # in a shard, and after all
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
STOPS = [("parquet", moment, SIGNALS[place % 3]) for place, moment in enumerate([0, 40, 84, 97, 100])]
STOPS += [("safetensors", 97, signal.SIGKILL), ("hdf5", 97, signal.SIGKILL), ("npz", 40, signal.SIGKILL)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """
    What came of a run of each format that was not stopped; for each stop of the run that was, and of the one that went
    on; and of a disk that is full while a shard is written, and while the output is.
    """
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text(TEXT, "utf-8")
    model = write_model(folder / "model")
    plan = {}
    for ending, options in FORMATS.items():
        command = [model, "text.txt", *options, "--out"]
        plan[ending] = {"arguments": [*command, f"{ending}-whole.{ending}"]}
        for name, moment, signum in STOPS:
            if name == ending:
                stopped = [*command, f"{ending}-{moment}-stopped.{ending}"]
                plan[ending, moment, signum] = {"arguments": stopped, "signal": signum, "when": moment / 100}
                plan[ending, moment, "resumed"] = {"arguments": [*stopped, "--resume"]}
    for ending, most in FULL:
        full = [model, "text.txt", *FORMATS[ending], "--out", f"{ending}-{most}-full.{ending}"]
        plan[ending, most] = {"arguments": full, "most": most}
        plan[ending, most, "resumed"] = {"arguments": [*full, "--resume"]}
    return dict(zip(plan, run_plan(folder, list(plan.values())), strict=True))


def digests(run, name: str) -> set[str]:
    """Of the files of an output, but for the index that has their names."""
    return {digest for file, digest in run["files"].items() if file.startswith(name) and not file.endswith(".json")}


@pytest.mark.medium
@pytest.mark.parametrize("stop", STOPS, ids=str)
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(runs, stop):
    ending, moment, signum = stop
    stopped, resumed = runs[stop], runs[ending, moment, "resumed"]
    if signum == signal.SIGKILL:
        assert stopped["code"] == -signum
    else:
        assert stopped["code"] == 2
        assert (
            stopped["errors"]
            .splitlines()[-1]
            .startswith("elmo-hf: stopped; to continue, run the same command with --resume")
        )
    if resumed["code"]:  # it was stopped after its last step
        assert "is complete: nothing is left to do" in resumed["errors"] or "exists" in resumed["errors"]
        assert moment > 90
    whole = digests(runs[ending], f"{ending}-whole")
    assert whole
    assert digests(resumed, f"{ending}-{moment}-") == whole


@pytest.mark.medium
@pytest.mark.parametrize("stop", STOPS, ids=str)
def test_a_run_that_was_stopped_leaves_the_output_whole_or_none(runs, stop):
    ending, moment, _ = stop
    out = f"{ending}-{moment}-stopped.{ending}"
    if {out, f"{out}.index.json"} & runs[stop]["files"].keys():
        assert digests(runs[stop], f"{ending}-{moment}-") == digests(runs[ending], f"{ending}-whole")
    elif ending != "safetensors":
        assert not digests(runs[stop], f"{ending}-{moment}-")


@pytest.mark.medium
@pytest.mark.parametrize(("ending", "most"), FULL)
def test_a_full_disk_is_one_line_and_costs_nothing(runs, ending, most):
    full, resumed = runs[ending, most], runs[ending, most, "resumed"]
    assert full["code"] == 2
    line = full["errors"].splitlines()[-1]
    assert line.startswith("elmo-hf: ")
    assert f"{ending}-{most}-full.{ending} could not be written (" in line
    assert "make room, and continue with --resume" in line
    assert "Traceback" not in full["errors"]
    assert not digests(full, f"{ending}-{most}-")
    assert resumed["code"] == 0, resumed["errors"]
    assert digests(resumed, f"{ending}-{most}-") == digests(runs[ending], f"{ending}-whole")


def test_what_is_done_is_not_done_again(text, tmp_path, monkeypatch):
    out = tmp_path / "out.npz"
    interrupt(monkeypatch, 3, text, out)
    done = sorted((tmp_path / "out.npz.parts").glob("*.safetensors"))
    assert len(done) == 3
    times = [shard.stat().st_mtime_ns for shard in done]
    interrupt(monkeypatch, 1, text, out, resume=True)
    assert [shard.stat().st_mtime_ns for shard in done] == times
    done[0].write_bytes(done[0].read_bytes()[:-1])  # a crash of the machine
    assert embed(text, out, resume=True).records == len(LINES)
    embed(text, tmp_path / "whole.npz")
    assert out.read_bytes() == (tmp_path / "whole.npz").read_bytes()


def interrupt(monkeypatch, shards, text, out, **options):
    """Embeds, up to an interrupt when so many shards are written."""
    write = iter([corpus.write_shard] * shards)

    def write_some(*arguments):
        next(write, stop)(*arguments)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(corpus, "write_shard", write_some)
        with pytest.raises(KeyboardInterrupt):
            embed(text, out, **options)


# ---- what is refused


@pytest.fixture
def begun(text, tmp_path, monkeypatch) -> Path:
    """The output of a run that was stopped after three shards."""
    interrupt(monkeypatch, 3, text, tmp_path / "out.npz")
    return tmp_path / "out.npz"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "top"}, "was started with layers 'mix', not 'top'"),
        ({"pooling": "mean"}, "was started with pooling None, not 'mean'"),
        ({"dtype": "float16"}, "was started with dtype 'float32', not 'float16'"),
        ({"batch_tokens": 100}, "was started with batch_tokens"),
        ({"pretokenized": True}, "was started with pretokenized False"),
        ({"embedder": toy_embedder(seed=1)}, "was started with model"),
        ({"embedder": toy_embedder(cell_clip=0.1)}, "was started with model"),
    ],
    ids=["layers", "pooling", "dtype", "batch_tokens", "pretokenized", "weights", "config"],
)
def test_other_settings_are_refused_on_resume(text, begun, options, message):
    with pytest.raises(RunError, match=message):
        embed_corpus([str(text)], begun, **({"embedder": EMBEDDER, "resume": True, "progress": False} | options))


def test_a_changed_input_is_refused_on_resume(text, begun, tmp_path):
    text.write_text(TEXT + "more\n", "utf-8")
    with pytest.raises(RunError, match="was started with bytes of input"):
        embed(text, begun, resume=True)
    text.write_text(TEXT[::-1], "utf-8")  # of the same size
    with pytest.raises(RunError, match=r"input is not the one that the run in .* was started with"):
        embed(text, begun, resume=True)
    text.write_text(TEXT, "utf-8")
    moved = text.rename(tmp_path / "elsewhere.txt")
    assert embed(moved, begun, resume=True).records == len(LINES)


def test_a_run_that_was_stopped_is_not_begun_again_unasked(text, begun):
    with pytest.raises(RunError, match=r"out\.npz\.parts belongs to a run that was stopped: continue with --resume"):
        embed(text, begun)


def test_what_is_there_is_not_overwritten(text, tmp_path):
    for name in ("out.npz", "out.safetensors.index.json"):
        (tmp_path / name).write_text("mine")
        for resume in (False, True):
            with pytest.raises(RunError, match=f"{name} exists: name another file, or give --overwrite"):
                embed(text, tmp_path / name.removesuffix(".index.json"), resume=resume)
        assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}], ids=str)
def test_a_folder_that_is_no_run_is_left_alone(text, tmp_path, options):
    (tmp_path / "out.npz.parts").mkdir()
    (tmp_path / "out.npz.parts" / "mine").touch()
    with pytest.raises(RunError, match="holds no run"):
        embed(text, tmp_path / "out.npz", **options)
    assert [path.name for path in (tmp_path / "out.npz.parts").iterdir()] == ["mine"]


# ---- beginning anew


def test_a_failure_before_the_first_shard_leaves_nothing_behind(tmp_path):
    source = tmp_path / "a.jsonl"
    source.write_text('{"body": "the bank"}\n')
    for _ in range(2):  # nothing is locked by the first failure
        with pytest.raises(TextError, match="there is no 'txt', only 'body'"):
            embed(source, tmp_path / "out.npz", column="txt")
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
    assert embed(source, tmp_path / "out.npz", column="body").records == 1


def test_a_run_killed_before_its_first_shard_is_begun_anew_with_other_settings(text, tmp_path):
    out = tmp_path / "out.npz"
    embed(text, out)
    (tmp_path / "out.npz.parts").mkdir()
    (tmp_path / "out.npz.parts" / "run.json").write_text('{"layers": "top"}')
    out.unlink()
    assert embed(text, out).records == len(LINES)
    assert not (tmp_path / "out.npz.parts").exists()


def test_overwrite_begins_a_stopped_run_anew_with_other_settings(text, begun, tmp_path):
    with pytest.raises(RunError, match="start over with --overwrite"):
        embed(text, begun, resume=True, layers="top")
    embed(text, begun, overwrite=True, layers="top")
    embed(text, tmp_path / "whole.npz", layers="top")
    assert begun.read_bytes() == (tmp_path / "whole.npz").read_bytes()


def test_integers_that_are_no_exact_floats_are_kept_beside_floats(tmp_path):
    rows = [{"text": "a", "id": 2**53 + 1}, {"text": "b", "id": 0.5}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    embed(tmp_path / "rows.jsonl", tmp_path / "out.parquet", keep_columns=["id"])
    assert [json.loads(value) for value in pq.read_table(tmp_path / "out.parquet")["id"].to_pylist()] == [
        2**53 + 1,
        0.5,
    ]


@pytest.mark.parametrize("name", ["out.npz", "out.safetensors"])
def test_overwrite_keeps_the_old_output_until_the_new_one_is_complete(text, tmp_path, monkeypatch, name):
    out, short = tmp_path / name, tmp_path / "short.txt"
    short.write_text("the bank\n")
    embed(text, out)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("out*")}
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "write_shard", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            embed(short, out, overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("out*")} == before
    assert embed(short, out, overwrite=True).records == 1
    names = {"out.npz"} if name == "out.npz" else {"out-00001-of-00001.safetensors", "out.safetensors.index.json"}
    assert {path.name for path in tmp_path.glob("out*")} == names


@pytest.mark.medium
def test_a_run_that_another_process_has_goes_on_undisturbed(text, begun):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, f"{begun}.parts"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert holder.stdout.readline() == "held\n"
        for options in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(RunError, match=f"is in use by process {holder.pid}"):
                embed(text, begun, **options)
    finally:
        holder.kill()
        holder.communicate()
    assert embed(text, begun, resume=True).records == len(LINES)


# ---- other columns


ROWS = [
    {"text": "the bank", "label": "place", "id": 1, "score": 0.5, "tags": ["a", "b"], "ok": True, "other": {"a": [1]}},
    {"text": "", "label": None, "id": 2, "score": 2, "tags": [], "ok": False, "other": 3},
    {"text": "river", "label": "Zürich", "id": None, "score": None, "tags": None, "ok": None, "other": None},
]


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    return path


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_kept_columns_stand_beside_the_vectors_in_their_types(table, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    embed(table, out, keep_columns=["all"])
    read = pq.read_table(out) if ending == "parquet" else ipc.open_stream(out.read_bytes()).read_all()
    assert read.column_names == ["text", "words", "vectors", "label", "id", "score", "tags", "ok", "other"]
    for name in ("text", "label", "id", "score", "tags", "ok"):
        assert read[name].to_pylist() == [row[name] for row in ROWS]
    types = {name: str(read.schema.field(name).type) for name in ("label", "id", "score", "ok")}
    assert types == {"label": "string", "id": "int64", "score": "double", "ok": "bool"}
    assert [value and json.loads(value) for value in read["other"].to_pylist()] == [row["other"] for row in ROWS]


@pytest.mark.parametrize("name", ["out.npz", "out.safetensors"])
def test_kept_columns_are_in_the_records_of_formats_that_have_json(table, tmp_path, name):
    embed(table, tmp_path / name, keep_columns=["id", "label"])
    if name == "out.npz":
        records = np.load(tmp_path / name)["records"].tobytes()
    else:
        with safe_open(tmp_path / "out-00001-of-00001.safetensors", "np") as file:
            records = file.get_tensor("records").tobytes()
    kept = [json.loads(line)["columns"] for line in records.splitlines()]
    assert kept == [{"id": row["id"], "label": row["label"]} for row in ROWS]


@pytest.mark.parametrize(
    ("source", "name", "keep", "error", "message"),
    [
        ("rows.jsonl", "out.hdf5", ["label"], FolderError, "HDF5 cannot hold other columns"),
        ("rows.jsonl", "out.npz", ["lable"], TextError, r"rows\.jsonl, line 1: there is no 'lable' .*, only"),
        ("text.txt", "out.npz", ["label"], TextError, r"text\.txt is text, which has no columns to keep"),
    ],
    ids=str,
)
def test_columns_that_cannot_be_kept_are_refused(table, text, tmp_path, source, name, keep, error, message):
    with pytest.raises(error, match=message):
        embed(tmp_path / source, tmp_path / name, keep_columns=keep)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("none/out.npz", {}, RunError, "There is no folder"),
        ("out", {}, FolderError, "give --format"),
        ("out.parquet", {"dtype": "bfloat16"}, FolderError, "has no bfloat16"),
        ("out.npz", {"dtype": "int8"}, ValueError, "`dtype` must be one of"),
        ("out.npz", {"layers": "middle"}, ValueError, "`layers` must be one of"),
        ("out.npz", {"pooling": "sum"}, ValueError, "`pooling` must be"),
        ("out.npz", {"batch_tokens": 0}, ValueError, "1 token or more"),
    ],
    ids=str,
)
def test_a_mistake_leaves_nothing_behind(text, tmp_path, name, options, error, message):
    with pytest.raises(error, match=message):
        embed(text, tmp_path / name, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


# ---- several processes


class Process:
    """One of several, as Accelerate has it, that is alone when the others should be waited for."""

    def __init__(self, index: int, processes: int):
        self.process_index, self.num_processes, self.is_main_process, self.device = index, processes, index == 0, "cpu"

    def wait_for_everyone(self):
        pass


@pytest.mark.slow
def test_two_processes_give_the_bytes_of_one(runs, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    model = write_model(tmp_path / "model")
    command = ["-m", "tests.embedding.small_shards", "embed", model, tmp_path / "text.txt", "--out"]
    output = launch(2, [*command, tmp_path / "out.parquet"])
    assert output.count("40 records") == 1
    digest = hashlib.sha256((tmp_path / "out.parquet").read_bytes()).hexdigest()
    assert {digest} == digests(runs["parquet"], "parquet-whole")
    assert not (tmp_path / "out.parquet.parts").exists()


def test_what_some_of_several_processes_have_done_another_number_goes_on_with(text, tmp_path, monkeypatch):
    out = tmp_path / "out.parquet"
    interrupt(monkeypatch, 1, text, out)
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "this_process", lambda: Process(1, 3))
        with pytest.raises(FileNotFoundError):  # there is no process that makes the third shard
            embed(text, out, resume=True)
    shards = sorted(int(shard.stem) for shard in (tmp_path / "out.parquet.parts").glob("*.safetensors"))
    assert shards == [0, *range(1, shards[-1] + 1, 3)]
    embed(text, out, resume=True)
    embed(text, tmp_path / "whole.parquet")
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_standard_input_is_not_shared(monkeypatch, tmp_path):
    monkeypatch.setattr(corpus, "this_process", lambda: Process(0, 2))
    with pytest.raises(TextError, match="Only one process can read standard input: write it to a file"):
        embed("-", tmp_path / "out.npz")


def test_another_vocabulary_of_the_same_size_is_another_tokenizer():
    words = ["<S>", "</S>", "<UNK>", "bank", "river"]
    digests = {
        fingerprint(ElmoEmbedder(toy_embedder().model, ElmoTokenizer(vocab=vocab)))["tokenizer"]
        for vocab in (words, [*words[:3], "river", "bank"])
    }
    assert len(digests) == 2
