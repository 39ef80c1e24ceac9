"""The page of ELMoForManyLangs: a row for every language, what is known of each, and code that runs."""

import re

import pytest
import torch

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from tests.conftest import ROOT
from tests.models import TINY

PAGE = (ROOT / "model_cards/elmoformanylangs.md").read_text("utf-8")


def rows() -> list[list[str]]:
    table = PAGE.split("| licence of the weights |\n|---|---|---:|---|---|---|\n")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]


def test_every_language_has_one_row_with_all_that_is_known():
    assert len(rows()) == 45
    assert all(len(row) == 6 and all(row) for row in rows())
    for column in (0, 1, 2):  # language, code, id
        assert len({row[column] for row in rows()}) == 45
    assert [row[2] for row in rows()] == [*map(str, range(136, 180)), "`zhs.model`"]


def test_scripts_and_words_that_need_care_are_described():
    cut = {row[1]: row[4] for row in rows()}
    for code in ("ja", "vi", "zh", "zhs"):
        assert cut[code] != cut["fi"]
    assert "traditional" in cut["zh"]
    assert "contain spaces" in cut["vi"]


def test_one_command_converts_any_of_them_and_what_is_not_known_is_said():
    assert len(re.findall(r"^elmo-hf .*", PAGE, flags=re.MULTILINE)) == 1
    assert re.search(r"^elmo-hf convert elmoformanylangs \d+ --out", PAGE, flags=re.MULTILINE)
    assert "## Not checked" in PAGE


@pytest.mark.medium
def test_the_python_of_the_page_runs(tmp_path, monkeypatch):
    ElmoModel(ElmoConfig(**TINY)).save_pretrained(tmp_path / "elmo-fi")
    ElmoTokenizer().save_pretrained(tmp_path / "elmo-fi")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict = {}
    with torch.no_grad():
        exec(code, names)
    assert names["vectors"].shape == (4, 8)
