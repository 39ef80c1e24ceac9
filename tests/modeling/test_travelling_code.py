"""The `*_elmo.py` files travel to the Hub, where transformers copies and imports them one by one."""

import ast
import sys
from pathlib import Path

import pytest
from transformers.dynamic_module_utils import get_imports, get_relative_imports

import elmo_hf

FILES = sorted((Path(elmo_hf.__file__).parent / "modeling").glob("*_elmo.py"))
# What every user of a model has.
ALWAYS = {"torch", "transformers", "tokenizers", "numpy"}
# What may be tried: dependencies of transformers, and segmenters of Chinese.
IN_TRY = {"huggingface_hub", "safetensors", "jieba"}


def imports(tree: ast.Module) -> list[tuple[str, bool]]:
    """The packages that a module imports, and whether inside `try:`."""
    imported = []

    def walk(node: ast.AST, tried: bool):
        if isinstance(node, ast.Import):
            imported.extend((alias.name.split(".")[0], tried) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.append((str(node.module).split(".")[0], tried))
        for field, value in ast.iter_fields(node):
            inner = tried or (isinstance(node, ast.Try) and field == "body")
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    walk(child, inner)

    walk(tree, False)
    return imported


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_imports_only_what_every_user_has(path):
    for package, tried in imports(ast.parse(path.read_text("utf-8"))):
        allowed = ALWAYS | set(sys.stdlib_module_names) | (IN_TRY if tried else set())
        assert package in allowed, f"{path.name} imports {package}{' inside try' if tried else ''}"
    assert set(get_imports(path)) <= ALWAYS | set(sys.stdlib_module_names)  # what transformers would ask for


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_reaches_others_by_flat_relative_imports(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1, f"{path.name} reaches out of its folder"
            assert node.module is not None, f"{path.name} has `from . import`, which is not followed"
            assert "." not in node.module, f"{path.name} reaches into a folder"
    known = {other.stem for other in FILES}
    assert set(get_relative_imports(path)) <= known  # also where the words stand in a text


def test_an_import_is_seen_wherever_it_stands():
    code = "import a\ntry:\n import b.c\nexcept ImportError:\n import d\ndef f():\n from e import g\n from .h import i"
    assert imports(ast.parse(code)) == [("a", False), ("b", True), ("d", False), ("e", False)]
