"""ELMoForManyLangs: the ids and vectors of the original program, and clear refusals."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

from elmo_hf import ElmoConfig, ElmoEmbedder, ElmoLanguageModel, ElmoModel, ElmoStates
from elmo_hf.conversion import ConversionError, convert_elmoformanylangs, read_provenance
from elmo_hf.conversion.elmoformanylangs import read_dictionary
from tests.bare_python import BARE, PRELUDE
from tests.conftest import find_data
from tests.conversion.refusals import assert_refused, damages

FIXTURES = ["both-cnn-elmo", "both-cnn-elmo-cnnsoftmax", "words-cnn-elmo"]
EXACT = {"rtol": 1e-6, "atol": 1e-6}


@pytest.fixture(params=FIXTURES)
def fixture(request):
    return find_data("fixtures", "elmoformanylangs", request.param)


@pytest.fixture
def folder(tmp_path):
    """A copy of one fixture, to be changed."""
    source = find_data("fixtures", "elmoformanylangs", "both-cnn-elmo")
    shutil.copytree(source, tmp_path / "model")
    for path in (tmp_path / "model").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path / "model"


def sentences_of(folder):
    return json.loads((folder.parent / "sentences.json").read_text("utf-8"))


def load(out):
    return AutoModel.from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out)


@torch.no_grad()
def layers_of(model, tokenizer, words, **options):
    batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    output = model(**batch, output_hidden_states=True, output_states=True, **options)
    return torch.cat(output.hidden_states)[:, 1:-1].numpy(), output.states


# ---- The original's ids and vectors


@pytest.mark.golden
def test_every_layer_is_that_of_the_original(fixture, tmp_path):
    model, tokenizer = load(convert_elmoformanylangs(fixture, tmp_path / "out"))
    expected, state = np.load(fixture / "vectors.npz"), None
    for index, words in enumerate(sentences_of(fixture)):
        layers, _ = layers_of(model, tokenizer, words)
        np.testing.assert_allclose(layers, expected[f"alone_{index}"], **EXACT)
        carried, state = layers_of(model, tokenizer, words, initial_state=state)
        np.testing.assert_allclose(carried, expected[f"chain_{index}"], **EXACT)


@pytest.mark.golden
def test_a_batch_in_the_order_of_its_lengths_carries_its_state_as_the_original_does(fixture, tmp_path):
    model, tokenizer = load(convert_elmoformanylangs(fixture, tmp_path / "out"))
    expected, sentences = np.load(fixture / "vectors.npz"), sentences_of(fixture)
    order = sorted(range(len(sentences)), key=lambda index: -len(sentences[index]))
    batch = tokenizer([sentences[row] for row in order], is_split_into_words=True, padding=True, return_tensors="pt")
    state = None
    for call in ("first", "second"):
        with torch.no_grad():
            output = model(**batch, output_hidden_states=True, output_states=True, initial_state=state)
        layers, state = torch.stack(output.hidden_states, dim=1).numpy(), ElmoStates(*output.states)
        for row, index in enumerate(order):
            sentence_layers = layers[row, :, 1 : len(sentences[index]) + 1]
            np.testing.assert_allclose(sentence_layers, expected[f"{call}_{index}"], **EXACT)


@pytest.mark.golden
def test_the_average_is_the_mix_of_the_model(fixture, tmp_path):
    embedder = ElmoEmbedder.from_pretrained(convert_elmoformanylangs(fixture, tmp_path / "out"))
    expected = np.load(fixture / "vectors.npz")
    for index, vectors in enumerate(embedder.embed(sentences_of(fixture))):
        np.testing.assert_allclose(vectors, expected[f"average_{index}"], **EXACT)


@pytest.mark.golden
def test_the_ids_are_those_of_the_original_from_words_and_from_text(fixture, tmp_path):
    _, tokenizer = load(convert_elmoformanylangs(fixture, tmp_path / "out"))
    expected, sentences = np.load(fixture / "vectors.npz"), sentences_of(fixture)
    for row, index in enumerate(expected["batch_order"].tolist()):
        words, length = sentences[index], expected["lengths"][index]
        given = tokenizer([words], is_split_into_words=True, return_tensors="np")
        assert given["input_ids"][0].tolist() == expected["word_ids"][row, :length].tolist()
        if "char_ids" in expected:
            assert (given["char_ids"][0] - 1).tolist() == expected["char_ids"][row, :length].tolist()
        cut = tokenizer([" ".join(words)], return_tensors="np")
        for name in given:
            assert cut[name].tolist() == given[name].tolist()


@pytest.mark.golden
@pytest.mark.parametrize("name", ["both-cnn-elmo", "words-cnn-elmo"])
def test_the_classifier_is_the_softmax(name, tmp_path):
    fixture = find_data("fixtures", "elmoformanylangs", name)
    out = convert_elmoformanylangs(fixture, tmp_path / "out")
    model, tokenizer = AutoModelForPreTraining.from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out)
    expected, sentences = np.load(fixture / "vectors.npz"), sentences_of(fixture)
    for row, index in enumerate(expected["batch_order"].tolist()):
        batch = tokenizer([sentences[index]], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            halves = model.elmo(**batch).last_hidden_state[0].chunk(2, dim=-1)
            for half, direction in zip(halves, ("forward", "backward"), strict=True):
                logits = torch.nn.functional.linear(half, model.softmax.weight, model.softmax.bias).numpy()
                golden = expected[f"{direction}_logits"][row, : len(logits)]
                np.testing.assert_allclose(logits, golden, rtol=1e-5, atol=1e-5)
    assert np.isfinite(ElmoLanguageModel(model, tokenizer).score([["The", "cat"]])[0].forward).all()


@pytest.mark.golden
def test_the_columns_of_the_cnn_softmax_are_token_vectors_with_a_correction(tmp_path):
    fixture = find_data("fixtures", "elmoformanylangs", "both-cnn-elmo-cnnsoftmax")
    model = AutoModelForPreTraining.from_pretrained(convert_elmoformanylangs(fixture, tmp_path / "out"))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    classifier = torch.load(fixture / "classifier.pkl", weights_only=True)
    corrections = classifier["corr.weight"] @ classifier["M"].T
    for word in ("潮水", "The", "<bos>"):
        batch = tokenizer([[word]], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            vector = model.elmo(**batch, output_hidden_states=True).hidden_states[0][0, 1, :16]
        word_id = batch["input_ids"][0, 1]
        torch.testing.assert_close(model.softmax.weight[word_id].detach(), vector + corrections[word_id])
    torch.testing.assert_close(model.softmax.weight[0].detach(), classifier["oov_column"][:, 0] + corrections[0])
    assert not model.softmax.bias.any()


@pytest.mark.golden
def test_legacy_containers_give_the_same_model(folder, tmp_path):
    convert_elmoformanylangs(folder, tmp_path / "new")
    for name in ("encoder.pkl", "token_embedder.pkl"):
        shutil.copy(folder / "legacy" / name, folder / name)
    convert_elmoformanylangs(folder, tmp_path / "legacy")
    states = [AutoModel.from_pretrained(tmp_path / name).state_dict() for name in ("new", "legacy")]
    assert all(torch.equal(tensor, states[1][name]) for name, tensor in states[0].items())


@pytest.mark.golden
def test_int8_and_the_plain_engine_agree_with_the_packed_one(fixture, tmp_path, monkeypatch):
    model, tokenizer = load(convert_elmoformanylangs(fixture, tmp_path / "out"))
    sentences = sentences_of(fixture)
    exact = [layers_of(model, tokenizer, words)[0] for words in sentences]
    monkeypatch.setenv("ELMO_HF_ENGINE", "plain")
    plain = [layers_of(load(tmp_path / "out")[0], tokenizer, words)[0] for words in sentences]
    monkeypatch.delenv("ELMO_HF_ENGINE")
    for actual, expected in zip(plain, exact, strict=True):
        np.testing.assert_allclose(actual, expected, **EXACT)
    model.quantize()
    for words, expected in zip(sentences, exact, strict=True):
        actual, _ = layers_of(model, tokenizer, words)
        cosine = (actual * expected).sum() / np.linalg.norm(actual) / np.linalg.norm(expected)
        assert cosine > 0.999


# ---- What comes out


@pytest.mark.golden
def test_the_folder_is_complete_and_tells_its_origin(folder, tmp_path):
    out = convert_elmoformanylangs(folder, tmp_path / "out")
    names = {path.name for path in out.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "spelling_elmo.py", "README.md"} <= names
    provenance = read_provenance(out)
    assert provenance["format"] == "elmoformanylangs"
    assert provenance["files"]["architecture"]["name"] == "cnn_tiny_sample.json"
    assert set(provenance["files"]) == {
        *("architecture", "config", "characters", "words", "token_embedder", "encoder", "classifier")
    }


@pytest.mark.golden
def test_without_a_classifier_it_is_an_encoder(folder, tmp_path):
    (folder / "classifier.pkl").unlink()
    config = ElmoConfig.from_pretrained(convert_elmoformanylangs(folder, tmp_path / "out"))
    assert config.architectures == ["ElmoModel"]


@pytest.mark.golden
def test_the_tokenizer_comes_back_from_its_folder_with_all_settings(folder, tmp_path):
    _, tokenizer = load(convert_elmoformanylangs(folder, tmp_path / "out"))
    tokenizer.save_pretrained(tmp_path / "again")
    again = AutoTokenizer.from_pretrained(tmp_path / "again")
    words = ["潮水", "verylongwordindeed", "<bos>", "<pad>", "<oov>", "", "é", "\ud800"]
    for other in (again, tokenizer.with_vocabulary(list(tokenizer.get_vocab())[:0] + vocabulary(tokenizer))):
        expected = tokenizer([words], is_split_into_words=True)
        assert other([words], is_split_into_words=True)["char_ids"] == expected["char_ids"]
        assert other([words], is_split_into_words=True)["input_ids"] == expected["input_ids"]


def vocabulary(tokenizer):
    words = tokenizer.get_vocab()
    return sorted((word for word in words if words[word] < tokenizer.vocab_size), key=words.__getitem__)


@pytest.mark.golden
def test_words_are_read_back_from_their_characters(folder, tmp_path):
    _, tokenizer = load(convert_elmoformanylangs(folder, tmp_path / "out"))
    batch = tokenizer([["潮水", "cat", "verylongwordindeed", "☃"]], is_split_into_words=True)
    assert tokenizer.decode(batch["char_ids"][0]) == "<bos> 潮水 cat verylongwo \ufffd <eos>"
    assert tokenizer.decode(batch["input_ids"][0]) == "<bos> 潮水 cat verylongwo <oov> <eos>"


@pytest.mark.golden
def test_pooling_leaves_the_boundaries_out(folder, tmp_path):
    model, tokenizer = load(convert_elmoformanylangs(folder, tmp_path / "out"))
    batch = tokenizer([["The", "cat"]], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        words = model(**batch).last_hidden_state[:, 1:-1].mean(dim=1)
        torch.testing.assert_close(model.mean_of_words(**batch), words)


# ---- The architecture file


@pytest.mark.golden
@pytest.mark.parametrize(
    "stated",
    [
        "cnn_tiny_sample.json",
        "C:\\work\\cnn_tiny_sample.json",
        "../../cnn_tiny_sample.json",
        "a/b/cnn_tiny_sample.json",
    ],
)
def test_the_architecture_file_is_found_by_its_name(folder, tmp_path, stated):
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"config_path": stated}))
    assert ElmoConfig.from_pretrained(convert_elmoformanylangs(folder, tmp_path / "out")).cell_size == 40


@pytest.mark.golden
def test_without_the_file_the_sizes_of_the_released_models_are_assumed(folder, tmp_path):
    (folder / "cnn_tiny_sample.json").unlink()
    assert_refused(tmp_path, lambda out: convert_elmoformanylangs(folder, out), r"lacks convolutions\.4\.bias")


def change(folder, **parts):
    path = folder / "cnn_tiny_sample.json"
    content = json.loads(path.read_text())
    for name, fields in parts.items():
        if isinstance(fields, dict):
            content[name] |= fields
        else:
            content[name] = fields
    path.write_text(json.dumps(content))


@pytest.mark.golden
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"encoder": {"name": "lstm"}}, "reads both directions|depends on the padding"),
        ({"encoder": {"name": "gru"}}, "must be `elmo`, found 'gru'"),
        ({"encoder": {"name": "ELMo"}}, "must be `elmo`, found 'ELMo'"),
        ({"token_embedder": {"name": "lstm"}}, "never ran"),
        ({"token_embedder": {"name": "mlp"}}, "must be `cnn`"),
        ({"token_embedder": {"word_dim": 0, "char_dim": 0}}, "neither words nor characters"),
        ({"token_embedder": {"word_dim": "many"}}, "`word_dim` must be a number"),
        ({"token_embedder": {"max_characters_per_token": 6}}, "must be 7 or more, found 6"),
        ({"token_embedder": {"max_characters_per_token": None}}, "must be 7 or more, found None"),
        ({"token_embedder": {"filters": []}}, "`char_filters` is empty"),
        ({"token_embedder": {"filters": [[13, 2]]}}, "wider than the 12"),
        ({"token_embedder": {"activation": "gelu"}}, "char_activation"),
        ({"token_embedder": {"n_highway": 1}}, r"holds highways\._layers\.1"),
        ({"token_embedder": {"char_dim": 8}}, r"should have shape \(44, 8\), found \(44, 7\)"),
        ({"encoder": {"n_layers": 3}}, r"encoder\.pkl lacks backward_layer_2"),
        ({"encoder": {"dim": 41}}, r"should have shape \(164, 16\)"),
        ({"encoder": {"n_layers": 0}}, "num_hidden_layers"),
        ({"encoder": {"cell_clip": -1}}, "`cell_clip` must be greater than 0"),
        ({"encoder": None}, "`encoder` is missing"),
        ({"token_embedder": [1]}, "`token_embedder` is missing"),
    ],
)
def test_what_the_original_could_not_run_is_refused(folder, tmp_path, parts, message):
    change(folder, **parts)
    assert_refused(tmp_path, lambda out: convert_elmoformanylangs(folder, out), message)


@pytest.mark.golden
def test_the_encoder_that_peeks_is_refused(tmp_path):
    folder = find_data("fixtures", "elmoformanylangs", "both-cnn-lstm")
    assert_refused(tmp_path, lambda out: convert_elmoformanylangs(folder, out), "has seen the words")


# ---- Dictionaries


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("word.dic", lambda text: text + "new\t28\n", r"word\.dic does not belong .* has 29 entries, .* has 28 rows"),
        ("char.dic", lambda text: text + "q\t44\n", r"char\.dic does not belong .* has 45 entries, .* has 44 rows"),
        ("word.dic", lambda text: text.replace("cat\t15", "sat\t15"), r"should give the ids 0 to 26"),
        ("word.dic", lambda text: text.replace("\t15", "\t99"), r"'cat' has 99 instead of 27|has 16 instead of 15"),
        ("word.dic", lambda text: text.replace("<oov>", "<unk>"), r"word\.dic lacks <oov>"),
        ("char.dic", lambda text: text.replace("<bow>", "<x>"), r"char\.dic lacks <bow>"),
        ("char.dic", lambda text: text.replace("\t7\n", "\tseven\n"), r"char\.dic: line 8 should be a token"),
        ("char.dic", lambda text: text + "\n", r"char\.dic: line 45 should be a token"),
        ("word.dic", lambda text: text.replace("cat\t", "c\tat\t"), r"word\.dic: line 16 should be"),
        ("word.dic", lambda text: "", r"word\.dic lacks"),
    ],
)
def test_a_dictionary_that_does_not_fit_is_named(folder, tmp_path, name, edit, message):
    path = folder / name
    path.write_text(edit(path.read_text("utf-8")), "utf-8")
    assert_refused(tmp_path, lambda out: convert_elmoformanylangs(folder, out), message)


@pytest.mark.golden
@pytest.mark.parametrize("name", ["config.json", "char.dic", "word.dic", "encoder.pkl", "token_embedder.pkl"])
def test_a_missing_or_foreign_file_is_named(folder, tmp_path, name):
    content = (folder / name).read_bytes()
    for foreign in (None, b"\xff\xfe", content[: len(content) // 2] + b"\xff"):
        (folder / name).unlink(missing_ok=True)
        if foreign is not None:
            (folder / name).write_bytes(foreign)
        assert_refused(tmp_path, lambda out: convert_elmoformanylangs(folder, out), name)


def test_the_ideographic_space_is_a_line_without_a_token(tmp_path):
    path = tmp_path / "char.dic"
    path.write_text("a\t0\n\u3000\t1\nb\t2\n", "utf-8")
    assert read_dictionary(path, ()) == ["a", "\u3000", "b"]


@pytest.mark.golden
def test_a_pickle_that_runs_code_is_refused(folder, tmp_path):
    import pickle

    class Runs:
        def __reduce__(self):
            return print, ("run",)

    (folder / "encoder.pkl").write_bytes(pickle.dumps({"a": Runs()}))
    assert_refused(tmp_path, lambda out: convert_elmoformanylangs(folder, out), r"encoder\.pkl is no state dict")


@pytest.mark.golden
def test_a_classifier_of_another_step_is_refused(tmp_path):
    source = find_data("fixtures", "elmoformanylangs", "both-cnn-elmo-cnnsoftmax")
    shutil.copytree(source, tmp_path / "model")
    (tmp_path / "model").chmod(0o755)
    path = tmp_path / "model" / "classifier.pkl"
    path.chmod(0o644)
    classifier = torch.load(path, weights_only=True)
    classifier["token_embedder.projection.bias"] += 1
    torch.save(classifier, path)
    assert_refused(
        tmp_path, lambda out: convert_elmoformanylangs(tmp_path / "model", out), "holds another token embedder"
    )


@pytest.mark.golden
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(damage=damages(), name=st.sampled_from(["config.json", "char.dic", "word.dic", "encoder.pkl", "classifier.pkl"]))
def test_damage_is_refused_or_gives_a_model(folder, tmp_path, damage, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(damage(content))
    try:
        convert_elmoformanylangs(folder, tmp_path / "new" / "out")
    except ConversionError:
        assert not (tmp_path / "new").exists()
    else:
        ElmoModel.from_pretrained(tmp_path / "new" / "out")
        shutil.rmtree(tmp_path / "new")
    finally:
        (folder / name).write_bytes(content)


@pytest.mark.golden
@pytest.mark.medium
def test_model_and_tokenizer_load_as_remote_code_and_give_the_vectors(tmp_path):
    fixture = find_data("fixtures", "elmoformanylangs", "both-cnn-elmo")
    out = convert_elmoformanylangs(fixture, tmp_path / "out")
    code = """
import json
import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

folder, fixture = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
expected = np.load(fixture + "/vectors.npz")
for number, words in enumerate(json.load(open(fixture + "/../sentences.json", encoding="utf-8"))):
    for batch in (tokenizer([words], is_split_into_words=True, return_tensors="pt"),
                  tokenizer([" ".join(words)], return_tensors="pt")):
        with torch.no_grad():
            layers = torch.cat(model(**batch, output_hidden_states=True).hidden_states)[:, 1:-1].numpy()
        np.testing.assert_allclose(layers, expected[f"alone_{number}"], rtol=1e-6, atol=1e-6)
print("equal")
"""
    environment = os.environ | {"HF_MODULES_CACHE": str(tmp_path / "modules")}
    command = [*BARE, PRELUDE + code, str(out), str(fixture)]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert result.stdout == "equal\n", result.stderr
