"""Folders with small models."""

import pytest

from tests.integrations.folders import BIO, write_encoder, write_tagger


@pytest.fixture(scope="session")
def encoder(tmp_path_factory) -> str:
    """A folder with a tiny model."""
    return write_encoder(tmp_path_factory.mktemp("encoder") / "model")


@pytest.fixture(scope="session")
def ner(tmp_path_factory) -> str:
    """A folder with a tagger of entities."""
    return write_tagger(tmp_path_factory.mktemp("ner") / "model", BIO)
