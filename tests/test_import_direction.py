"""
The imports of the package go one way: cli -> rooms -> data -> runtime -> modeling.

Read from the source (`ast`), so imports inside functions count too; those under `TYPE_CHECKING` do not.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {"elmo_hf": ROOT / "elmo_hf", "elmo_hf.conversion": ROOT / "conversion"}
LIGHT = {"errors", "_version"}  # may be imported by all
ROOMS = {
    "analysis",
    "conversion",
    "corpus",
    "demo",
    "embedding",
    "export",
    "finetuning",
    "index",
    "integrations",
    "language_model",
    "pretraining",
    "publishing",
    "serving",
    "space",
}
BELOW_ROOMS = {"data", "runtime", "modeling"}
# What each part may import beside itself and what is light. The package's own module resolves public names lazily.
MAY_IMPORT = {
    "modeling": set(),
    "runtime": {"modeling"},
    "data": {"modeling", "runtime"},
    "registration": {"modeling"},
    "cli": ROOMS | BELOW_ROOMS,
    "errors": set(),
    "_version": set(),
} | dict.fromkeys(ROOMS, ROOMS | BELOW_ROOMS)


def source_files() -> dict[str, Path]:
    """The files of the package, by the names of their modules."""
    files = {}
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            files[".".join(parts).removesuffix(".__init__")] = path
    return files


def imported(module: str, source: str, is_package: bool) -> Iterator[str]:
    """The modules of this package, or names in them, that a module imports when it runs."""
    tree = ast.parse(source)
    excepted = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if node in excepted:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            start = ".".join([*parents, *([node.module] if node.module else [])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] == "elmo_hf")


def part_of(name: str) -> str:
    """The part of the package that a module or a name in it is in; of a public name of the package itself "elmo_hf"."""
    part = name.split(".")[1] if "." in name else "elmo_hf"
    return part if part in MAY_IMPORT else "elmo_hf"


IMPORTS = {
    module: set(imported(module, path.read_text("utf-8"), path.name == "__init__.py"))
    for module, path in source_files().items()
}


def test_an_import_is_seen_wherever_it_stands():
    source = """
from typing import TYPE_CHECKING
import elmo_hf.index, os
from ..data import tables
if TYPE_CHECKING:
    from ..cli import main
def function():
    from . import request
"""
    modules = set(imported("elmo_hf.embedding.embedder", source, is_package=False))
    assert modules == {"elmo_hf.index", "elmo_hf.data.tables", "elmo_hf.embedding.request"}
    assert set(imported("elmo_hf.embedding", "from .embedder import A", is_package=True)) == {
        "elmo_hf.embedding.embedder.A"
    }


def test_every_part_of_the_package_has_its_place():
    parts = {module.split(".")[1] for module in IMPORTS if "." in module}
    assert parts == MAY_IMPORT.keys()


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_no_import_goes_up(part):
    allowed = {part} | MAY_IMPORT[part] | LIGHT
    wrong = [
        f"{module} imports {name}"
        for module, names in IMPORTS.items()
        if part_of(module) == part
        for name in sorted(names)
        if part_of(name) not in allowed
    ]
    assert wrong == []


def test_the_package_itself_imports_what_is_light_and_the_registration():
    assert {part_of(name) for name in IMPORTS["elmo_hf"]} <= LIGHT | {"registration"}


def test_no_import_goes_in_a_circle_between_rooms():
    graph = {
        room: {part_of(name) for module, names in IMPORTS.items() if part_of(module) == room for name in names} - {room}
        for room in ROOMS
    }
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"Rooms import each other: {' -> '.join(error.args[1])}")


def test_no_two_files_have_the_same_name_unless_they_are_the_same_idea_in_two_rooms():
    names = [path.name for path in source_files().values()]
    repeated = {name for name in names if names.count(name) > 1}
    assert repeated <= {"__init__.py", "__main__.py", "checkpoints.py", "run.py", "settings.py", "training.py"}
