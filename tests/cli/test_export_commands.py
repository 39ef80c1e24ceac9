"""`elmo-hf export onnx`; the folder that it writes is tested in tests/export."""

import pytest

from elmo_hf import ElmoConfig, ElmoForSemanticRoles
from tests.models import TINY


@pytest.mark.parametrize("options", [[], ["--int8"]], ids=["fp32", "int8"])
def test_the_folder_is_written_and_described_in_one_line(run, folder, tmp_path, options):
    code, output, error = run("export", "onnx", folder, "--out", tmp_path / "out", *options)
    assert (code, error) == (0, "")
    assert output.startswith(f"{tmp_path / 'out'}: model.onnx, 0.")
    assert " MB; differs by " in output
    assert output.count("\n") == 1
    assert (tmp_path / "out" / "example.py").is_file()


def test_the_group_prints_its_help(run):
    code, output, _ = run("export")
    assert code == 0
    assert "onnx" in output


def test_a_model_that_is_not_there_is_refused(refused, tmp_path):
    assert "There is no folder ./nothing" in refused("export", "onnx", "./nothing", "--out", tmp_path / "out")


def test_a_head_without_an_export_is_refused_in_one_line(refused, folder, tmp_path):
    ElmoForSemanticRoles(ElmoConfig(**TINY, num_labels=3)).save_pretrained(tmp_path / "roles")
    line = refused("export", "onnx", tmp_path / "roles", "--out", tmp_path / "out")
    assert "ElmoForSemanticRoles, which has no export to ONNX" in line
    assert not (tmp_path / "out").exists()


def test_a_used_folder_is_refused(refused, folder, tmp_path):
    assert "is not an empty folder" in refused("export", "onnx", folder, "--out", folder)
