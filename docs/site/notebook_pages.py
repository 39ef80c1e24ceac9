"""A hook of mkdocs: each notebook in `notebooks/` becomes a page with its text, its code and the stored outputs."""

import base64
from pathlib import Path

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each notebook, and the pictures in it."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        text, pictures = as_markdown(path)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    return files


def as_markdown(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and the pictures that it shows by their file names."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source.replace(".ipynb)", ".md)"))
            continue
        language, source = "python", cell.source
        if source.startswith("%%bash\n"):
            language, source = "bash", source.removeprefix("%%bash\n")
        parts.append(f"```{language}\n{source}\n```")
        for output in cell.outputs:
            if picture := output.get("data", {}).get("image/png"):
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(picture)
                parts.append(f"![Output of the code above]({name})")
            elif text := output.get("text") or output.get("data", {}).get("text/plain"):
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures
