"""The notebooks run, offline, and show what they give."""

import re

import nbformat
import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow
pytest.importorskip("nbclient", reason="notebooks need the extra test")

from notebooks.run import NOTEBOOKS, run  # noqa: E402

TRAINED = "depends-on-training"  # the tag of cells whose words may differ on another machine


def shown(notebook: nbformat.NotebookNode) -> list[list[str]]:
    """The lines of all outputs, without digits and the spaces around them. Of cells with the tag, empty lines."""
    result = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            lines = (output.get("text") or output["data"]["text/plain"]).splitlines()
            is_trained = TRAINED in cell.metadata.get("tags", [])
            result.append(["" if is_trained else re.sub(r"[\s–-]*[\d.,]+(e-\d+)?\s*", "#", line) for line in lines])
    return result


def test_there_are_all_notebooks_and_the_documentation_lists_them():
    names = {path.name for path in NOTEBOOKS}
    assert names == {
        "chinese.ipynb",
        "classifier.ipynb",
        "from_allennlp.ipynb",
        "quick_start.ipynb",
        "senses_and_layers.ipynb",
        "tagger.ipynb",
    }
    page = (ROOT / "docs" / "notebooks.md").read_text("utf-8")
    assert set(re.findall(r"\(\.\./notebooks/(\w+\.ipynb)\)", page)) == names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_gives(path):
    stored = nbformat.read(path, as_version=4)
    assert path.stat().st_size < 50_000
    cells = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert shown(run(path)) == shown(stored)
