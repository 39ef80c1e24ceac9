"""`make golden`: the originals' test vectors, from AllenNLP 0.9.0's source distribution on the package index."""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

RELEASE = "allennlp==0.9.0"
INSIDE = "allennlp/tests/fixtures/elmo/"
FILES = [f"lm_embeddings_{row}.hdf5" for row in range(3)]
FILES += ["elmo_token_embeddings.hdf5", "lm_weights.hdf5", "options.json", "sentences.json", "vocab_test.txt"]
TARGET = Path(__file__).parent.parent / ".golden" / "fixtures" / "allennlp"


def main():
    with tempfile.TemporaryDirectory() as folder:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*download, "--no-binary", ":all:", "--dest", folder, RELEASE], check=True)
        (archive,) = Path(folder).glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            TARGET.mkdir(parents=True, exist_ok=True)
            for member in tar:
                name = Path(member.name).name
                if member.isreg() and INSIDE in member.name and name in FILES:
                    (TARGET / name).write_bytes(tar.extractfile(member).read())
    if missing := [name for name in FILES if not (TARGET / name).exists()]:
        sys.exit(f"{RELEASE} does not hold {', '.join(missing)}")
    print(f"golden vectors in {TARGET}")


if __name__ == "__main__":
    main()
