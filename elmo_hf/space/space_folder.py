"""A folder that is a complete Hugging Face Space: the app, its requirements, the wheel of this package, and models."""

import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

from ..errors import HubError
from ..publishing import push_space
from ..publishing.repository import complete_repository
from ..runtime.extras import require
from ..runtime.named_models import find_named_model
from ..runtime.staging import staged_folder
from .own_wheel import write_own_wheel
from .page_model import load_tagger

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
APP = """\
from elmo_hf.space.page import launch_page

launch_page({models}, {taggers})
"""
README = """\
---
title: ELMo
emoji: 📖
colorFrom: blue
colorTo: indigo
sdk: gradio
sdk_version: {gradio}
python_version: "{python}"
app_file: app.py
license: apache-2.0
short_description: What the layers of ELMo know about words
{models}---

# ELMo

Made by `elmo-hf space`. To run it elsewhere: `pip install -r requirements.txt`, then `python app.py`.
"""


def write_space(
    out: str | os.PathLike, models: Sequence[str] = (), taggers: Sequence[str] = (), repository: str | None = None
) -> Path:
    """
    Writes the folder of a Space.

    Args:
        out: The folder to create. It must not exist yet, or be empty.
        models, taggers: As in [`launch_page`]. Folders are copied, names on the Hub stay names.
        repository: `owner/name` of the Space. The Hub installs the requirements before it copies the files of the
            Space, so that they name the wheel by its address in this repository. Default: by its path in the folder.
    """
    require("page")
    for name in taggers:
        if os.path.isdir(find_named_model(name)):
            load_tagger(name)  # what is not a tagger is refused
    with staged_folder(out) as stage:
        names = {name: _place(name, stage) for name in (*models, *taggers)}
        wheel = write_own_wheel(stage)
        python = ".".join(platform.python_version_tuple()[:2])
        on_hub = [name for name, place in names.items() if name == place]
        listed = f"models: {json.dumps(on_hub)}\n" if on_hub else ""
        files = {
            "app.py": APP.format(models=[names[name] for name in models], taggers=[names[name] for name in taggers]),
            "README.md": README.format(gradio=metadata.version("gradio"), python=python, models=listed),
            "requirements.txt": _requirement(wheel.name, repository) + "\n",
        }
        for name, text in files.items():
            (stage / name).write_text(text, encoding="utf-8")
    return Path(out)


def publish_space(repository: str, models: Sequence[str] = (), taggers: Sequence[str] = ()) -> str:
    """
    Publishes a Space, and creates it if it does not exist.

    Args:
        repository: `owner/name`.
        models, taggers: As in [`launch_page`].

    Returns:
        The address of the Space.
    """
    if not REPOSITORY.fullmatch(repository):
        raise HubError(f"{repository!r} is not the name of a Space: write owner/name.")
    with tempfile.TemporaryDirectory() as temporary:
        return push_space(write_space(Path(temporary) / "space", models, taggers, repository), repository)


def _place(name: str, stage: Path) -> str:
    """Copies a model's folder, and gives its place in the Space; a name on the Hub stays as it is."""
    source = find_named_model(name)
    if not os.path.isdir(source):
        return name
    place = f"models/{Path(source).resolve().name}"
    suffix = 2
    while (stage / place).exists():
        place, suffix = f"models/{Path(source).resolve().name}-{suffix}", suffix + 1
    (stage / place).mkdir(parents=True)
    with tempfile.TemporaryDirectory() as made:
        for file, path in complete_repository(Path(source), Path(made), Path(source).resolve().name).items():
            shutil.copyfile(path, stage / place / file)
    return place


def _requirement(wheel: str, repository: str | None) -> str:
    extras = "[space,chinese]"  # a model may need the segmenter of Chinese
    if repository is None:
        return f"./{wheel}{extras}"
    from huggingface_hub import constants

    return f"elmo-hf{extras} @ {constants.ENDPOINT}/spaces/{repository}/resolve/main/{quote(wheel)}"


__all__ = ["publish_space", "write_space"]
