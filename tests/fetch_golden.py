"""`make golden`: the originals' test vectors, from AllenNLP 0.9.0's source distribution on the package index."""

import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.conftest import ROOT, SHARED

RELEASE = "allennlp==0.9.0"
INSIDE = "allennlp/tests/fixtures/elmo/"
FILES = [f"lm_embeddings_{row}.hdf5" for row in range(3)]
FILES += ["elmo_token_embeddings.hdf5", "lm_weights.hdf5", "options.json", "sentences.json", "vocab_test.txt"]
FETCHED = ROOT / ".golden"
TARGET = FETCHED / "fixtures" / "allennlp"


def fetch(release: str, inside: str, names: Iterable[str], target: Path):
    """
    Writes files of a source distribution.

    Args:
        release: As pip has it.
        inside: The folder in the distribution that they are in.
        names: Of the files.
        target: The folder to write them to.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*download, "--no-binary", ":all:", "--dest", folder, release], check=True)
        (archive,) = Path(folder).glob("*.tar.gz")
        for name, content in _files(archive, inside):
            if name in names:
                (target / name).write_bytes(content)
    if missing := [name for name in names if not (target / name).exists()]:
        sys.exit(f"{release} does not hold {', '.join(missing)}")


def _files(archive: Path, inside: str) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            folder, _, name = member.name.rpartition("/")
            if member.isreg() and f"{folder}/".endswith(inside) and (content := tar.extractfile(member)) is not None:
                yield name, content.read()


def has_all(folder: Path, names: Iterable[str]) -> bool:
    """Whether all files are there."""
    return all((folder / name).exists() for name in names)


def main():
    """Fetches the vectors, unless they are where the tests look for them."""
    places = [folder / "fixtures" / "allennlp" for folder in [*SHARED, FETCHED]]
    source = next((folder for folder in places if has_all(folder, FILES)), None)
    if source is None:
        fetch(RELEASE, INSIDE, FILES, TARGET)
    print(f"golden vectors in {source or TARGET}")


if __name__ == "__main__":
    main()
