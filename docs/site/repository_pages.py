"""
A hook of mkdocs. Markdown files outside `docs/` become pages of the site (CONTRIBUTING, CHANGELOG, model cards), and
links between files of the repository, as GitHub follows them, become links between pages. The hook also copies the
package as a wheel arranges it, `conversion/` inside `elmo_hf/`, to a folder where the API reference finds it.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent
# Each becomes a page at the same path. README.md is not one: the site starts with docs/index.md.
PAGES = [
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(path.relative_to(ROOT).as_posix() for path in ROOT.glob("model_cards/**/*.md")),
]
PICTURES = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("model_cards/**/*.svg")]
SOURCE = tempfile.TemporaryDirectory(prefix="elmo-hf-site-")  # removed when the build ends
LINK = re.compile(r"(?P<text>\]\()(?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def on_startup(**kwargs) -> None:
    """Arranges the package for the API reference."""
    package = Path(SOURCE.name) / "elmo_hf"
    only_python = shutil.ignore_patterns("__pycache__", "*.txt", "*.md", "*.json", "*.safetensors")
    shutil.copytree(ROOT / "elmo_hf", package, ignore=only_python)
    shutil.copytree(ROOT / "conversion", package / "conversion", ignore=only_python)
    sys.path.insert(0, SOURCE.name)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of `PAGES`."""
    for name in PAGES:
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, name, content=FRONT_MATTER.sub("", text)))
    for name in PICTURES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links between files of the repository into links between pages."""
    here = PurePosixPath(page.file.src_uri).parent
    in_repository = here if page.file.src_uri in PAGES else PurePosixPath("docs") / here

    def page_link(match: re.Match) -> str:
        path = os.path.normpath(in_repository / match["target"])
        target = path.removeprefix("docs/")
        if path == "README.md":
            target = "index.md"
        elif path.endswith(".ipynb"):  # pages made by notebook_pages.py
            target = target.removesuffix(".ipynb") + ".md"
        if files.get_file_from_path(target) is None:
            return match[0]  # mkdocs reports it as a broken link
        return f"{match['text']}{os.path.relpath(target, here)}{match['anchor'] or ''})"

    return LINK.sub(page_link, markdown)
