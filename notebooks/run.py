"""
Runs the notebooks, each in a new folder, and stores what they print:

    python -m notebooks.run [NAME…]

NAME is a notebook without `.ipynb`; without a name all of them run. They need no network.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def run(path: Path) -> nbformat.NotebookNode:
    """Executes the cells of a notebook and returns it with the new outputs. An error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    # The commands of the notebook are those of this environment.
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "100",
    }
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, kernel_name="python3", timeout=600, record_timing=False, resources={"metadata": {"path": folder}}
        )
        client.execute(env=environment)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = what_is_shown(cell.outputs)
    return notebook


def what_is_shown(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The outputs of a cell in as few parts as possible, without stderr, which has progress bars and warnings."""
    result: list[nbformat.NotebookNode] = []
    for output in outputs:
        if output.output_type != "stream":
            result.append(output)
        elif output.name == "stdout" and result and result[-1].get("name") == "stdout":
            result[-1].text += output.text
        elif output.name == "stdout":
            result.append(output)
    return result


def main() -> None:
    """Runs the notebooks of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    paths = {path.stem: path for path in NOTEBOOKS}
    for name in (names := parser.parse_args().names or list(paths)):
        if name not in paths:
            parser.error(f"there is no notebook {name}; there are {', '.join(paths)}")
    for name in names:
        nbformat.write(run(paths[name]), paths[name])
        print(paths[name].name)


if __name__ == "__main__":
    main()
