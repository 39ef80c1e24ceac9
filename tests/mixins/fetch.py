"""`make mixins`: the test mixins of the installed transformers, from its source distribution on the package index."""

from importlib.metadata import version

from tests.fetch_golden import FETCHED, fetch, has_all

RELEASE = version("transformers")
FOLDER = f"transformers-{RELEASE}"
FILES = [
    "test_configuration_common.py",
    "test_modeling_common.py",
    "test_pipeline_mixin.py",
    "test_sentencepiece_backend_mixin.py",
    "test_tokenization_common.py",
    "test_tokenizers_backend_mixin.py",
]


def main():
    target = FETCHED / FOLDER / "tests"
    if not has_all(target, FILES):
        fetch(f"transformers=={RELEASE}", f"{FOLDER}/tests/", FILES, target)
    print(f"test mixins in {target}")


if __name__ == "__main__":
    main()
