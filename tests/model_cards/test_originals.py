"""The folders of the published originals: right sizes, cards that are valid and true, code that runs."""

import json
import re

import pytest
import torch
from huggingface_hub import ModelCard

from elmo_hf import ElmoConfig, ElmoModel, ElmoTokenizer
from elmo_hf.conversion import convert_original, known_originals, write_bilm_hdf5
from elmo_hf.conversion.bilm_hdf5 import count_parameters
from elmo_hf.conversion.originals import COMPARED
from elmo_hf.modeling.configuration_elmo import ORIGINAL_FILTERS
from tests.conversion.refusals import assert_refused
from tests.hub.cards import read_metadata
from tests.models import TINY, tiny_model

ORIGINALS = {original.name: original for original in known_originals()}
PARAMETERS = {"elmo-small": "13.59", "elmo-medium": "28.03"}  # millions; the others have as many as the paper's
HEADINGS = ["Results", "How this repository was made", "Not checked", "Limits", "Licence", "Citation"]


@pytest.fixture(params=ORIGINALS)
def original(request):
    return ORIGINALS[request.param]


@pytest.fixture
def card(original):
    return (original.folder / "README.md").read_text("utf-8")


def test_all_published_models_have_a_folder():
    assert {
        "elmo-small", "elmo-medium", "elmo-original", "elmo-original-5.5b", "elmo-portuguese", "elmo-pubmed", "seqvec"
    } <= ORIGINALS.keys()  # fmt: skip


def test_a_folder_has_facts_but_neither_weights_nor_code(original):
    assert {path.name for path in original.folder.iterdir()} == {"README.md", "config.json", "original.json"}
    assert "auto_map" not in json.loads((original.folder / "config.json").read_text())


def test_the_config_has_the_published_number_of_parameters(original, card):
    with torch.device("meta"):
        model = ElmoModel(original.config)
    parameters = count_parameters(model)
    assert parameters == original.facts["parameters"]
    assert f"{parameters / 1e6:.2f}" == PARAMETERS.get(original.name, "93.60")
    assert f"{parameters:,} parameters" in card


def test_the_config_is_that_of_the_authors_options(original):
    """The part of the options that all of them share; sizes are counted above."""
    config = original.config
    assert config.char_filters == [list(pair) for pair in ORIGINAL_FILTERS]
    assert (config.char_embedding_size, config.max_characters_per_token) == (16, 50)
    assert (config.cell_clip, config.projection_clip, config.skip_connections) == (3, 3, True)
    assert (config.num_hidden_layers, config.char_activation) == (2, "relu")
    if size := re.match(r"2x(\d+)_(\d+)_2048cnn_(\d)xhighway", original.facts["names"][0]):
        assert tuple(map(int, size.groups())) == (
            config.cell_size, config.projection_size, config.num_highway_layers
        )  # fmt: skip


def test_only_fields_that_are_compared_are_presumed_and_the_card_admits_it(original, card):
    presumed = original.facts["presumed"]
    assert set(presumed) <= set(COMPARED)
    assert ("presumed" in card) == bool(presumed)


def test_addresses_are_the_authors_and_in_the_card(original, card):
    if "archive" in original.facts:
        assert f"({original.facts['archive']})" in card
        assert f"elmo-hf convert original {original.name} --out" in card
        assert {file["url"] for file in original.facts["files"].values()} == {None}
        return
    for file in original.facts["files"].values():
        assert file["url"].startswith("https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/")
        assert f"({file['url']})" in card
        assert file["size"] is None or f"{file['size']:,} bytes" in card
        assert file["sha256"] is None or file["sha256"] in card
    assert f"elmo-hf convert original {original.name} --out" in card


def test_the_cards_metadata_is_what_the_hub_takes(original, card):
    loaded = ModelCard.load(original.folder / "README.md").data.to_dict()
    language = None if original.name == "seqvec" else "pt" if "portuguese" in original.name else "en"
    assert loaded.get("language") == language
    assert loaded["library_name"] == "transformers"
    assert loaded["pipeline_tag"] == "feature-extraction"
    assert loaded["license"] in ("other", "unknown")
    assert ("license_name" in loaded) == (loaded["license"] == "other")
    assert loaded.keys() == read_metadata(card).keys()  # by the test server's own reader


def test_the_card_stands_alone(original, card):
    assert f"\n# {original.name}\n" in card
    assert [heading for heading in HEADINGS if f"\n## {heading}\n" not in card] == []
    assert "@inproceedings{peters-etal-2018-deep" in card
    assert "](../" not in card


def test_the_published_values_are_in_the_card():
    facts = ORIGINALS["elmo-small"].facts["layer_0"]
    card = (ORIGINALS["elmo-small"].folder / "README.md").read_text("utf-8")
    assert facts["tolerance"] == 1e-4
    assert {(word, value) for _, word, value in facts["values"]} == {
        ("I", -0.12764566), ("cat", -0.582507), ("He", 0.09789153), ("mall", 0.005302556), ("uberx", -0.4041161)
    }  # fmt: skip
    for _, word, value in facts["values"]:
        assert f"| {word} | {value} |" in card


def test_the_python_of_the_card_runs_and_gives_the_shapes_that_it_says(original, card, tmp_path, monkeypatch):
    sizes = {"projection_size": original.config.projection_size, "cell_size": original.config.projection_size + 1}
    ElmoModel(ElmoConfig(**(TINY | sizes))).save_pretrained(tmp_path / original.name)
    ElmoTokenizer().save_pretrained(tmp_path / original.name)
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    names: dict = {}
    exec(code, names)
    shape = tuple(names["output"].last_hidden_state.shape)
    assert {tuple(layer.shape) for layer in names["output"].hidden_states} == {shape}
    assert f"last_hidden_state  # {shape}:" in code
    assert f"hidden_states  # 3 x {shape}:" in code


def test_weights_of_the_small_models_size_that_are_not_its_own_are_refused(tmp_path):
    original = ORIGINALS["elmo-small"]
    torch.manual_seed(0)
    write_bilm_hdf5(ElmoModel(original.config), tmp_path / "options.json", tmp_path / "weights.hdf5")
    assert_refused(
        tmp_path,
        lambda out: convert_original(
            original.facts["names"][0], out, tmp_path / "weights.hdf5", tmp_path / "options.json"
        ),
        r"not the weights of elmo-small: .* 'I' in layer 0 \('I saw a cat'\) should be -0\.12764566, found",
    )


def test_the_files_of_another_model_are_refused(original, tmp_path):
    write_bilm_hdf5(tiny_model(), tmp_path / "options.json", tmp_path / "weights.hdf5")
    assert_refused(
        tmp_path,
        lambda out: convert_original(original.name, out, tmp_path / "weights.hdf5", tmp_path / "options.json"),
        rf"is not the options file of {original.name}: .*projection_size = 4 instead of",
    )
