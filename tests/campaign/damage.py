"""Ways in which a file or a folder may be damaged."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.untrusted import ANYTHING, json_places, replaced

MAX_JSON = 1 << 20  # bytes; a larger document is damaged as bytes


def damage(folder: Path, generator: random.Random) -> str:
    """Damages one file of a folder, any one of all files below it; says what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = generator.choice(files)
    ways = [*BYTES]
    if path.suffix == ".json" and path.stat().st_size < MAX_JSON:
        ways += [change_json] * len(BYTES)
    way = generator.choice(ways)
    way(path, generator)
    return f"{way.__name__} {path.relative_to(folder)}"


def flip_bit(path: Path, generator: random.Random):
    """One bit of one byte."""
    content = bytearray(path.read_bytes())
    if content:
        content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    path.write_bytes(content)


def flip_early_bit(path: Path, generator: random.Random):
    """The same in the first bytes, where headers are."""
    content = bytearray(path.read_bytes())
    if content:
        content[generator.randrange(min(len(content), 400))] ^= 1 << generator.randrange(8)
    path.write_bytes(content)


def cut_short(path: Path, generator: random.Random):
    """A copy that was broken off."""
    content = path.read_bytes()
    path.write_bytes(content[: generator.randrange(len(content) + 1)])


def zero_block(path: Path, generator: random.Random):
    """A block that a disk has lost."""
    content = bytearray(path.read_bytes())
    start = generator.randrange(len(content) + 1)
    length = min(generator.choice([1, 16, 512]), len(content) - start)
    content[start : start + length] = bytes(length)
    path.write_bytes(content)


def remove(path: Path, generator: random.Random):
    """A file that was not copied."""
    path.unlink()


def replace_by_folder(path: Path, generator: random.Random):
    """Something else of the same name."""
    path.unlink()
    path.mkdir()


def replace_by_text(path: Path, generator: random.Random):
    """An error page of a server, or a pointer of Git LFS."""
    path.write_text(generator.choice(["<html>404</html>", "version https://git-lfs.github.com/spec/v1\n", ""]))


def change_json(path: Path, generator: random.Random):
    """A value of another kind, or a missing one, anywhere in a document."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except ValueError:
        return
    places = json_places(document)
    if places:
        changed = replaced(document, generator.choice(places), generator.choice(ANYTHING))
        path.write_text(json.dumps(changed), "utf-8")


BYTES: list[Callable[[Path, random.Random], None]] = [
    flip_bit,
    flip_early_bit,
    cut_short,
    zero_block,
    remove,
    replace_by_folder,
    replace_by_text,
]


def copy(folder: Path, target: Path) -> Path:
    """A copy to be damaged."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(folder, target))
