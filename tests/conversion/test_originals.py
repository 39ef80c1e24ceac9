"""The published originals: a repository that is ready, from the right files only."""

import hashlib
import json
import sys
from pathlib import Path

import h5py
import pytest
import torch
from huggingface_hub import constants
from transformers import AutoModel, AutoTokenizer

from elmo_hf import ElmoConfig, ElmoModel, __version__
from elmo_hf.conversion import (
    DownloadError,
    convert_allennlp,
    convert_bilm_hdf5,
    convert_original,
    find_original,
    known_originals,
    read_provenance,
    write_bilm_hdf5,
)
from elmo_hf.conversion.bilm_hdf5 import count_parameters
from tests.conversion.file_server import Fault
from tests.conversion.refusals import assert_refused
from tests.conversion.tiny_original import CARD, TinyOriginal
from tests.models import tiny_model


@pytest.fixture
def tiny(tmp_path):
    return TinyOriginal(tmp_path)


def converting(tiny, **arguments):
    """Converts the tiny model's own files unless told otherwise."""
    files = {"weights": tiny.weights, "options": tiny.options} if "from_url" not in arguments else {}
    return lambda out: convert_original("elmo-tiny", out, **(files | {"folder": tiny.registry} | arguments))


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


# ---- From files that are there


def test_given_files_become_a_repository_that_loads_with_its_card(tiny, tmp_path):
    out = converting(tiny)(tmp_path / "out")
    assert (out / "README.md").read_text() == CARD
    assert {"config.json", "model.safetensors", "tokenizer.json", "modeling_elmo.py"} <= {p.name for p in out.iterdir()}
    model = AutoModel.from_pretrained(out)
    for name, tensor in tiny.model.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name
    assert AutoTokenizer.from_pretrained(out).tokenize("I saw a cat") == ["I", "saw", "a", "cat"]


def test_the_repository_says_where_it_is_from_and_what_was_checked(tiny, tmp_path):
    out = converting(tiny, dtype="float16")(tmp_path / "out")
    assert read_provenance(out) == {
        "format": "bilm-hdf5",
        "files": {
            "weights": {"name": "tiny_weights.hdf5", "sha256": sha256(tiny.weights)},
            "options": {"name": "tiny_options.json", "sha256": sha256(tiny.options)},
        },
        "parameters": tiny.facts["parameters"],
        "original": "elmo-tiny",
        "checked": [
            "options as in the card",
            "names and sizes of all arrays",
            f"{tiny.facts['parameters']:,} parameters",
            "layer 0 of 3 words against its makers",
        ],
        "not_checked": ["checksum of the weights: none is known"],
        "dtype": "float16",
        "elmo_hf": __version__,
    }


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_published_values_are_compared_before_they_are_rounded(tiny, tmp_path, dtype):
    tiny.facts["layer_0"]["tolerance"] = 1e-6
    tiny.describe()
    assert AutoModel.from_pretrained(converting(tiny, dtype=dtype)(tmp_path / "out")).dtype == getattr(torch, dtype)


def test_the_names_of_the_authors_are_known_too(tiny, tmp_path):
    assert find_original("2x7_4_12cnn_1xhighway", tiny.registry).name == "elmo-tiny"


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    names = [original.name for original in known_originals()]
    assert_refused(
        tmp_path, lambda out: convert_original("elmo-huge", out), f"'elmo-huge' .*: choose from {names[0]}, "
    )
    assert len(names) == 8


# ---- The wrong files


def test_other_weights_of_the_same_size_are_refused_by_their_vectors(tiny, tmp_path):
    write_bilm_hdf5(tiny_model(seed=1), tmp_path / "options.json", tmp_path / "weights.hdf5")
    expected = tiny.facts["layer_0"]["values"][0][2]
    message = rf"not the weights of elmo-tiny: .* 'I' in layer 0 \('I saw a cat'\) should be {expected}, found -?\d\."
    assert_refused(tmp_path, converting(tiny, weights=tmp_path / "weights.hdf5"), message)


def test_a_difference_just_beyond_the_tolerance_is_refused_and_just_below_is_not(tiny, tmp_path):
    value = tiny.facts["layer_0"]["values"][-1]
    value[2] += 0.9e-4
    tiny.describe()
    converting(tiny)(tmp_path / "out")
    value[2] += 0.2e-4
    tiny.describe()
    assert_refused(tmp_path, converting(tiny), r"'uberx' in layer 0 \('uberx'\) should be")


def test_weights_that_are_no_numbers_do_not_pass_for_the_published_values(tiny, tmp_path):
    with h5py.File(tiny.weights, "r+") as file:
        file["CNN_proj/b_proj"][...] = float("nan")
    assert_refused(tmp_path, converting(tiny), "b_proj should hold finite numbers")


def test_another_number_of_parameters_is_refused(tiny, tmp_path):
    tiny.facts["parameters"] += 1
    tiny.describe()
    count = tiny.facts["parameters"] - 1
    assert_refused(tmp_path, converting(tiny), f"elmo-tiny should have {count + 1:,} parameters, found {count:,}")


def test_another_checksum_is_refused_and_the_right_one_is_said(tiny, tmp_path):
    facts = tiny.facts["files"]["weights"]
    facts["sha256"] = sha256(tiny.weights)
    tiny.describe()
    assert "checksum of the weights" in read_provenance(converting(tiny)(tmp_path / "out"))["checked"]
    facts["sha256"] = "0" * 64
    tiny.describe()
    assert_refused(tmp_path, converting(tiny), f"SHA-256 should be {'0' * 64}, found {sha256(tiny.weights)}")


def test_options_of_another_model_are_refused_by_field(tiny, tmp_path):
    write_bilm_hdf5(tiny_model(cell_size=9, cell_clip=1.5), tmp_path / "options.json", tmp_path / "weights.hdf5")
    arguments = {"options": tmp_path / "options.json", "weights": tmp_path / "weights.hdf5"}
    message = r"is not the options file of elmo-tiny: cell_size = 9 instead of 7, cell_clip = 1\.5 instead of 3\.0\."
    assert_refused(tmp_path, converting(tiny, **arguments), message)


def test_options_that_were_only_presumed_may_differ_which_is_said(tiny, tmp_path):
    write_bilm_hdf5(tiny_model(cell_size=9, cell_clip=1.5), tmp_path / "options.json", tmp_path / "weights.hdf5")
    arguments = {"options": tmp_path / "options.json", "weights": tmp_path / "weights.hdf5"}
    tiny.facts |= {"presumed": ["cell_size"], "layer_0": None}
    tiny.describe()
    assert_refused(tmp_path, converting(tiny, **arguments), r"elmo-tiny: cell_clip = 1\.5 instead of 3\.0\.")
    tiny.facts["presumed"] += ["cell_clip"]
    tiny.describe()
    out = converting(tiny, **arguments)(tmp_path / "out")
    first, *_, parameters, vectors = read_provenance(out)["not_checked"]
    assert (
        first == "options that the card could only presume: cell_size = 9 instead of 7, cell_clip = 1.5 instead of 3.0"
    )
    assert parameters.startswith("number of parameters")
    assert vectors == "vectors: no values of this model are known"
    assert ElmoConfig.from_pretrained(out).cell_size == 9


def test_the_options_of_training_are_the_options_of_the_model(tiny, tmp_path):
    stated = json.loads(tiny.options.read_text())
    stated["char_cnn"]["n_characters"] = 261
    tiny.options.write_text(json.dumps(stated | {"dropout": 0.1, "n_tokens_vocab": 793471, "n_epochs": 10}))
    assert "options as in the card" in read_provenance(converting(tiny)(tmp_path / "out"))["checked"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": None}, "give both files"),
        ({"options": None}, "give both files"),
        ({"options": "nowhere.json"}, "nowhere.json cannot be read"),
        ({"weights": "nowhere.hdf5"}, "nowhere.hdf5 cannot be read"),
        ({"vocab": "nowhere.txt"}, "Vocabulary nowhere.txt"),
    ],
)
def test_files_that_are_missing_are_named(tiny, tmp_path, arguments, message):
    assert_refused(tmp_path, converting(tiny, **arguments), message)


def test_files_and_an_address_are_one_too_many(tiny, tmp_path):
    arguments = {"weights": tiny.weights, "options": tiny.options, "from_url": "http://127.0.0.1"}
    assert_refused(tmp_path, converting(tiny, **arguments), "not both")


def test_a_vocabulary_that_was_not_published_is_not_promised(tiny, tmp_path):
    del tiny.facts["files"]["vocab"]
    tiny.describe()
    assert_refused(tmp_path, converting(tiny, with_vocab=True), "No vocabulary was published with elmo-tiny")


def test_without_h5py_nothing_is_downloaded(tiny, tmp_path, file_server, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    converted = converting(tiny, from_url=tiny.serve(file_server))
    assert_refused(tmp_path, converted, r"pip install .elmo-hf\[convert\]")
    assert file_server.seen == []


# ---- From an address


def test_files_are_downloaded_once_and_an_address_of_ones_own_is_not_told(tiny, tmp_path, file_server):
    url = tiny.serve(file_server)
    for name in ("first", "second"):
        out = converting(tiny, from_url=url + "/")(tmp_path / name)
        assert [set(file) for file in read_provenance(out)["files"].values()] == [{"name", "sha256"}] * 2
    assert [seen.path for seen in file_server.seen] == ["/mirror/tiny_options.json", "/mirror/tiny_weights.hdf5"]
    assert (Path(constants.HF_HOME) / "elmo-originals" / "elmo-tiny" / "tiny_weights.hdf5").is_file()


def test_the_vocabulary_comes_when_asked_for(tiny, tmp_path, file_server):
    out = converting(tiny, from_url=tiny.serve(file_server), with_vocab=True)(tmp_path / "out")
    assert AutoTokenizer.from_pretrained(out).convert_tokens_to_ids("the") == 3
    assert read_provenance(out)["files"]["vocab"]["name"] == "vocab.txt"


def test_the_published_address_is_asked_where_no_other_is_given_and_kept(tiny, tmp_path, file_server):
    url = tiny.serve(file_server)
    for facts in tiny.facts["files"].values():
        facts["url"] = facts["url"].replace("https://example.org/a", url)
    tiny.describe()
    out = converting(tiny, from_url=None)(tmp_path / "out")
    assert len(file_server.seen) == 2
    files = read_provenance(out)["files"]
    assert [file["url"] for file in files.values()] == [tiny.facts["files"][use]["url"] for use in files]


def test_a_download_that_breaks_off_is_taken_up(tiny, tmp_path, file_server, monkeypatch):
    url = tiny.serve(file_server)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    file_server.faults = [Fault(), Fault(cut_after=1000)]
    converting(tiny, from_url=url)(tmp_path / "out")
    assert [seen.range for seen in file_server.seen] == [None, None, "bytes=1000-"]


def test_wrong_options_are_found_before_the_weights_are_fetched(tiny, tmp_path, file_server):
    write_bilm_hdf5(tiny_model(cell_size=9), tiny.options, tmp_path / "weights.hdf5")
    assert_refused(tmp_path, converting(tiny, from_url=tiny.serve(file_server)), "cell_size = 9 instead of 7")
    assert [seen.path for seen in file_server.seen] == ["/mirror/tiny_options.json"]


def test_a_download_that_fails_leaves_no_repository(tiny, tmp_path, file_server):
    url = tiny.serve(file_server)
    del file_server.files["mirror/tiny_weights.hdf5"]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DownloadError, match=r"mirror/tiny_weights\.hdf5 cannot be fetched: there is no such file"):
        converting(tiny, from_url=url)(tmp_path / "new" / "out")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_download_of_another_size_than_published_is_refused(tiny, tmp_path, file_server):
    tiny.facts["files"]["weights"]["size"] = 17
    tiny.describe()
    with pytest.raises(DownloadError, match="should have 17 bytes"):
        converting(tiny, from_url=tiny.serve(file_server))(tmp_path / "out")


def test_a_corrupt_download_is_refused_and_the_remedy_is_true(tiny, tmp_path, file_server):
    url = tiny.serve(file_server)
    file_server.faults = [Fault(), Fault(change=lambda body: body[:1000] + bytes(1000) + body[2000:])]
    kept = Path(constants.HF_HOME) / "elmo-originals" / "elmo-tiny" / "tiny_weights.hdf5"
    assert_refused(tmp_path, converting(tiny, from_url=url), f"from {url}/tiny_weights.hdf5; remove {kept} to download")
    kept.unlink()
    converting(tiny, from_url=url)(tmp_path / "out")


# ---- The other formats


def test_every_conversion_says_where_it_is_from(tiny, tmp_path):
    out = convert_bilm_hdf5(tiny.options, tiny.weights, tmp_path / "hdf5", dtype="bfloat16")
    expected = {
        "format": "bilm-hdf5",
        "files": {
            "weights": {"name": "tiny_weights.hdf5", "sha256": sha256(tiny.weights)},
            "options": {"name": "tiny_options.json", "sha256": sha256(tiny.options)},
        },
        "parameters": tiny.facts["parameters"],
        "dtype": "bfloat16",
        "elmo_hf": __version__,
    }
    assert read_provenance(out) == expected


def test_a_conversion_from_allennlp_counts_the_same_parameters(tmp_path):
    from tests.conversion.test_allennlp import state_dict_file, tiny_state_dict

    path = state_dict_file(tiny_state_dict(), tmp_path)
    provenance = read_provenance(convert_allennlp(path, tmp_path / "out"))
    assert (provenance["format"], provenance["files"]) == (
        "allennlp", {"weights": {"name": path.name, "sha256": sha256(path)}}
    )  # fmt: skip
    assert provenance["parameters"] == count_parameters(ElmoModel.from_pretrained(tmp_path / "out"))


def test_a_model_in_an_archive_says_where_it_is_and_takes_its_files(tmp_path):
    assert_refused(tmp_path, lambda out: convert_original("seqvec", out), r"seqvec\.zip: fetch and unpack it")
    config = find_original("SeqVec").config
    assert (config.num_hidden_layers, config.cell_size, config.hidden_size) == (2, 4096, 1024)


def test_a_vocabulary_that_is_not_there_is_noticed_before_the_weights_are_downloaded(tiny, tmp_path, file_server):
    assert_refused(tmp_path, converting(tiny, from_url=tiny.serve(file_server), vocab="nowhere.txt"), "nowhere.txt")
    assert not any("weights" in seen.path for seen in file_server.seen)
    assert_refused(tmp_path, converting(tiny, vocab="vocab.txt", with_vocab=True), "not both")
