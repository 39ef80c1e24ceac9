"""The documentation site builds offline, refuses broken links and missing docstrings, and loads only its own files."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow
pytest.importorskip("mkdocs", reason="the site needs the extra docs")

# Attributes of elements that a browser fetches by itself when it shows a page.
FETCHED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
NOT_FETCHED = {"canonical", "next", "prev"}  # links that only say where another page is
# Nothing outside this machine is reachable.
OFFLINE = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "NO_MKDOCS_2_WARNING": "1"}


def build(config: Path, out: Path) -> subprocess.CompletedProcess:
    """Runs mkdocs, as `make docs` does."""
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config), "--site-dir", str(out)]
    return subprocess.run(command, cwd=ROOT, env=os.environ | OFFLINE, capture_output=True, text=True)


class Fetches(HTMLParser):
    """Collects the addresses that a page makes a browser fetch."""

    def __init__(self):
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]):
        values = dict(attributes)
        if tag in FETCHED and (values.get("rel") or "") not in NOT_FETCHED:
            self.addresses += [values.get(FETCHED[tag]) or ""]
            self.addresses += re.findall(r"\S+(?= |,|$)", values.get("srcset") or "")


def fetched_from_elsewhere(page: str) -> list[str]:
    parser = Fetches()
    parser.feed(page)
    return [address for address in parser.addresses if re.match(r"(\w+:)?//", address)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    result = build(ROOT / "mkdocs.yml", out)
    assert result.returncode == 0, result.stderr
    return out


def test_no_page_loads_anything_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert {
        str(page): addresses for page in pages if (addresses := fetched_from_elsewhere(page.read_text("utf-8")))
    } == {}
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(\w+:)?//", sheet.read_text("utf-8")), sheet


def test_an_address_elsewhere_is_seen():
    assert fetched_from_elsewhere('<script src="//cdn.example/a.js"></script><img src="picture.png">')
    assert fetched_from_elsewhere('<link rel="stylesheet" href="https://fonts.example/a.css">')
    assert not fetched_from_elsewhere('<a href="https://arxiv.org"></a><link rel="next" href="https://x.org/a.html">')


def test_the_site_has_search_dark_mode_and_the_api(site):
    start = (site / "index.html").read_text("utf-8")
    assert 'data-md-color-scheme="slate"' in start
    index = (site / "search" / "search_index.json").read_text("utf-8")
    assert "ElmoEmbedder" in index
    assert 'id="elmo_hf.ElmoModel"' in (site / "api" / "models.html").read_text("utf-8")


def test_every_page_of_the_repository_is_in_the_site(site):
    for path in (ROOT / "docs").rglob("*.md"):
        name = path.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / (name.parent / "index.html" if name.stem == "README" else name)).exists(), name
    assert (site / "model_cards" / "elmo-english-compact" / "index.html").exists()


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("[gone](nosuch.md)", "nosuch.md"),
        ("[gone](index.md#nosuch)", "nosuch"),
        ("[gone](../nosuch/file.md)", "nosuch/file.md"),
    ],
)
def test_a_broken_link_fails_the_build(page, complaint, tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text(f"# Start\n\n{page}\n")
    config = f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: pages\nnav: [index.md]\nhooks: []\n"
    (tmp_path / "mkdocs.yml").write_text(config)
    result = build(tmp_path / "mkdocs.yml", tmp_path / "out")
    assert result.returncode == 1
    assert complaint in result.stderr


def test_a_public_name_without_a_docstring_or_a_page_is_reported(tmp_path):
    (tmp_path / "elmo_hf").mkdir()
    (tmp_path / "elmo_hf" / "__init__.py").write_text('__all__ = ["bare"]\n\ndef bare(): ...\n')
    code = (
        "import griffe, logging; logging.basicConfig(); "
        f"griffe.load('elmo_hf', search_paths=[{str(tmp_path)!r}], "
        f"extensions=griffe.load_extensions({str(ROOT / 'docs' / 'site' / 'docstrings.py')!r}))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "elmo_hf.bare has no docstring" in result.stderr
    assert "elmo_hf.bare is on no page" in result.stderr
