"""A conversion's folder is there when all is well, complete and open to others, and otherwise never was."""

import os

import pytest
import torch

from elmo_hf import ElmoTokenizer
from elmo_hf.conversion.arrays import fill_views
from elmo_hf.conversion.folder import ConversionError, load_tokenizer, save_folder, staged_folder
from tests.models import tiny_model


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def stage_a_file(out, failure: BaseException | None = None):
    with staged_folder(out) as stage:
        (stage / "file").write_text("content")
        if failure is not None:
            raise failure


# ---- staged_folder


def test_the_folder_takes_its_name_at_the_end_only(tmp_path):
    with staged_folder(tmp_path / "out") as stage:
        (stage / "file").write_text("content")
        assert not (tmp_path / "out").exists()
    assert names(tmp_path) == ["out", "out/file"]


@pytest.mark.parametrize("failure", [ConversionError("bad"), OSError("disk full"), KeyboardInterrupt(), SystemExit()])
@pytest.mark.parametrize("out", ["out", "new/parents/out"])
def test_a_failure_of_any_kind_leaves_nothing(tmp_path, failure, out):
    with pytest.raises(type(failure)):
        stage_a_file(tmp_path / out, failure)
    assert names(tmp_path) == []


def test_parents_are_made(tmp_path):
    stage_a_file(tmp_path / "new" / "parents" / "out")
    assert names(tmp_path) == ["new", "new/parents", "new/parents/out", "new/parents/out/file"]


def test_an_empty_folder_is_used_and_survives_a_failure(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(ConversionError):
        stage_a_file(tmp_path / "out", ConversionError("bad"))
    assert names(tmp_path) == ["out"]
    stage_a_file(tmp_path / "out")
    assert names(tmp_path) == ["out", "out/file"]


def test_a_link_to_an_empty_folder_stays_a_link(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    stage_a_file(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "empty") == ["file"]


@pytest.mark.parametrize("is_file", [True, False])
def test_what_is_there_already_is_refused_and_untouched(tmp_path, is_file):
    out = tmp_path / "out"
    if not is_file:
        out.mkdir()
    kept = out if is_file else out / "mine"
    kept.write_text("precious")
    with pytest.raises(ConversionError, match="exists and is not an empty folder"):
        stage_a_file(out)
    assert kept.read_text() == "precious"
    assert len(names(tmp_path)) == (1 if is_file else 2)


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o002])
def test_permissions_are_those_of_any_new_folder(tmp_path, mask):
    previous = os.umask(mask)
    try:
        with staged_folder(tmp_path / "out") as stage:
            save_folder(tiny_model(), ElmoTokenizer(), stage)
        (tmp_path / "ordinary").mkdir()
        (tmp_path / "ordinary" / "file").write_text("content")
    finally:
        os.umask(previous)
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "ordinary").stat().st_mode
    modes = {path.stat().st_mode for path in (tmp_path / "out").iterdir()}
    assert modes == {(tmp_path / "ordinary" / "file").stat().st_mode}


# ---- save_folder, load_tokenizer


def test_a_weight_too_large_for_half_precision_is_refused(tmp_path):
    model = tiny_model()
    model.layers[1].bias.data[0, 3] = 1e5
    with pytest.raises(ConversionError, match=r"layers\.1\.bias holds values too large for float16"):
        save_folder(model, ElmoTokenizer(), tmp_path, "float16")


def test_an_unknown_dtype_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`dtype` must be one of .*, found 'int8'"):
        save_folder(tiny_model(), ElmoTokenizer(), tmp_path, "int8")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (None, "No such file"),
        (b"", "lacks <S>, </S>, <UNK>"),
        (b"the\nof\n", "lacks <S>, </S>, <UNK>"),
        (b"<S>\n</S>\n<UNK>\nthe\nthe\n", "holds 'the' twice"),
        (b"<S>\n</S>\n<UNK>\n\xff\n", "not UTF-8"),
        (b"<S>\n</S>\n<UNK>\nthe\n", "options say 5 words, the vocabulary .* has 4"),
    ],
)
def test_a_bad_vocabulary_is_refused_by_name(tmp_path, content, match):
    vocab = tmp_path / "vocab.txt"
    if content is not None:
        vocab.write_bytes(content)
    with pytest.raises(ConversionError, match=match) as refusal:
        load_tokenizer(vocab, slots=50, words=5)
    assert str(vocab) in str(refusal.value)


# ---- fill_views


def test_an_array_is_laid_out_over_the_views_that_it_holds():
    upper, lower = torch.zeros(2, 3), torch.zeros(3, 1)
    values = torch.arange(9.0, dtype=torch.float64).reshape(3, 3)
    fill_views({"both": [upper, lower.t()]}, {"both": values}, "file")
    assert torch.equal(torch.cat([upper, lower.t()]), values.float())


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (torch.zeros(3, 2), r"file: array should have shape \(2, 2\), found \(3, 2\)"),
        (torch.zeros(2, 2, dtype=torch.int64), "should hold plain floats, found torch.int64"),
        (torch.eye(2).to_sparse(), "torch.sparse_coo"),
        (torch.full((2, 2), torch.nan), "should hold finite numbers"),
        (torch.full((2, 2), 1e300, dtype=torch.float64), "should hold finite numbers"),
    ],
    ids=str,
)
def test_what_is_no_array_of_finite_floats_is_refused(array, match):
    with pytest.raises(ConversionError, match=match):
        fill_views({"array": [torch.zeros(2, 2)]}, {"array": array}, "file")


def test_an_existing_empty_folder_stays_itself(tmp_path):
    """It may be a mounted disk, or somebody's working directory."""
    out = tmp_path / "out"
    out.mkdir()
    before = out.stat().st_ino
    with staged_folder(out) as stage:
        (stage / "file").write_text("text")
    assert out.stat().st_ino == before
    assert [path.name for path in out.iterdir()] == ["file"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
