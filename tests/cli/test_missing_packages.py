"""A command looks for the optional packages that it needs before it does anything, and says how to install them."""

import pytest

from elmo_hf.runtime import extras

COMMANDS = [
    (["finetune", "tagging", "--train", "no.conll", "--dev", "no.conll", "--out", "out"], "sklearn", "finetune"),
    (["finetune", "tagging", "--train", "no.conll", "--dev", "no.conll", "--out", "out"], "seqeval", "finetune"),
    (["finetune", "classification", "--resume", "--out", "out"], "sklearn", "finetune"),
    (["pretrain", "text.txt", "--segmenter", "jieba", "--vocab", "no.txt", "--out", "out"], "jieba", "chinese"),
    (
        ["pretrain", "text.txt", "--tracker", "tensorboard", "--vocab", "no.txt", "--out", "out"],
        "tensorboard",
        "pretrain",
    ),
    (["vocab", "text.txt", "--segmenter", "jieba", "--out", "out"], "jieba", "chinese"),
    (["embed", "text.txt", "--model", "no-model", "--out", "out.parquet"], "pyarrow", "embed"),
    (["embed", "text.txt", "--model", "no-model", "--out", "out.arrow"], "pyarrow", "embed"),
    (["embed", "text.txt", "--model", "no-model", "--out", "out.hdf5"], "h5py", "embed"),
    (["embed", "text.txt", "--model", "no-model", "--out", "out", "--format", "hdf5"], "h5py", "embed"),
    (["embed", "wikitext", "--model", "no-model", "--out", "out.npy"], "datasets", "embed"),
    (["embed", "text.txt", "--model", "no-model", "--out", "out.npy", "--input-format", "parquet"], "pyarrow", "embed"),
    (["analyze", "senses", "no.tsv", "--test-share", "0.2", "--picture", "out.png"], "matplotlib", "picture"),
    (["analyze", "samples", "tagging", "no.conll", "no.conll", "--work", "work"], "sklearn", "finetune"),
    (["index", "text.txt", "--model", "no-model", "--approximate", "--out", "out"], "usearch", "index"),
    (["convert", "bilm-hdf5", "no.json", "no.hdf5", "--out", "out"], "h5py", "convert"),
    (["convert", "original", "elmo-small", "--out", "out"], "h5py", "convert"),
    (["convert", "to-bilm-hdf5", "no-model", "--out", "out"], "h5py", "convert"),
    (["export", "onnx", "no-model", "--out", "out"], "onnxruntime", "onnx"),
    (["serve", "no-model"], "prometheus_client", "serve"),
    (["serve", "no-model"], "uvicorn", "serve"),
    (["space", "no-model"], "gradio", "space"),
    (["space", "no-model", "--push", "me/elmo"], "h5py", "space"),
]


@pytest.mark.parametrize(("arguments", "module", "extra"), COMMANDS, ids=lambda value: str(value)[:60])
def test_a_command_names_what_is_missing_before_it_looks_at_anything_else(
    tmp_path, monkeypatch, refused, without, arguments, module, extra
):
    """What comes after would fail too, on a file or a model that is not there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("a text\n")
    without(module)
    line = refused(*arguments)
    assert f"needs {extras.PACKAGES.get(module, module)}" in line
    assert f'pip install "elmo-hf[{extra}]"' in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt"]
