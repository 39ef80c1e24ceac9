"""bilm-tf's TensorFlow checkpoints: encoder and softmax give the logits of the original graph."""

import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

from elmo_hf import ElmoLanguageModel
from elmo_hf.conversion import ConversionError, convert_bilm_checkpoint, export_bilm_hdf5, read_provenance
from elmo_hf.conversion.tf_checkpoint import TensorFlowCheckpoint
from tests.conftest import find_data
from tests.conversion.refusals import assert_refused
from tests.conversion.tf_checkpoint_writer import write_checkpoint
from tests.reference import ReferenceBiLm

FIXTURES = ["chars", "chars-forward-only", "chars-no-projection", "words"]
WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "mat", "."]
SENTENCES = [["the", "cat", "sat", "."], ["dog"], ["unseen", "mat", "the"]]
TINY = {
    "bidirectional": True,
    "dropout": 0.1,
    "n_negative_samples_batch": 4,
    "n_tokens_vocab": len(WORDS),
    "lstm": {
        "cell_clip": 3,
        "dim": 6,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 4,
        "use_skip_connections": True,
    },
}
CHARACTERS = {
    "activation": "relu",
    "embedding": {"dim": 3},
    "filters": [[1, 3], [2, 2], [3, 3]],
    "max_characters_per_token": 10,
    "n_characters": 261,
    "n_highway": 1,
}


# ---- The original graph's answers


@torch.no_grad()
def logits_of(model, tokenizer, words, state=None):
    """The forward and backward logits of a sentence, `(words + 1, vocabulary)` each, and the states after it."""
    batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
    direction_logits, states = [], {}
    names = ["forward"] if model.config.directions == "forward" else ["forward", "backward"]
    for name in names:
        part = slice(None, -1) if name == "forward" else slice(1, None)  # what that direction reads
        inputs = {key: batch[key][:, part] for key in ("input_ids", "char_ids")}
        before = None if state is None else state[name]
        output = model.elmo(**inputs, directions=name, output_states=True, initial_state=before)
        logits = torch.nn.functional.linear(output.last_hidden_state[0], model.softmax.weight, model.softmax.bias)
        direction_logits.append(logits.numpy() if name == "forward" else logits.numpy()[::-1])
        states[name] = output.states
    return direction_logits, states


@pytest.mark.golden
@pytest.mark.parametrize("name", FIXTURES)
def test_the_logits_and_layers_are_those_of_the_original_graph(name, tmp_path):
    folder = find_data("fixtures", "tf-checkpoints", name)
    out = convert_bilm_checkpoint(
        folder / "model.ckpt-400", tmp_path / "out", folder / "options.json", folder / "vocab.txt"
    )
    model, tokenizer = AutoModelForPreTraining.from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out)
    encoder = AutoModel.from_pretrained(out)
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))
    expected, state = np.load(folder / "expected.npz"), None
    for index, words in enumerate(sentences):
        for kind in ("zero", "carried"):
            direction_logits, states = logits_of(model, tokenizer, words, None if kind == "zero" else state)
            for direction, logits in zip(("forward", "backward"), direction_logits, strict=False):
                golden = expected[f"{kind}_{direction}_logits_{index}"]
                np.testing.assert_allclose(logits, golden, rtol=1e-5, atol=1e-5)
            if kind == "carried":
                state = states
        if f"layers_{index}" in expected:
            batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
            with torch.no_grad():
                layers = torch.cat(encoder(**batch, output_hidden_states=True).hidden_states)[:, 1:-1].numpy()
            golden = expected[f"layers_{index}"]
            np.testing.assert_allclose(layers.reshape(golden.shape), golden, rtol=1e-5, atol=1e-5)


@pytest.mark.golden
@pytest.mark.parametrize("name", FIXTURES)
def test_scores_and_perplexity_are_those_of_the_original_loss(name, tmp_path):
    folder = find_data("fixtures", "tf-checkpoints", name)
    lm = ElmoLanguageModel.from_pretrained(convert_bilm_checkpoint(folder, tmp_path / "out"))
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))
    expected = np.load(folder / "expected.npz")
    for index, score in enumerate(lm.score(sentences)):
        for direction, log_probs in (("forward", score.forward), ("backward", score.backward)):
            if (key := f"zero_{direction}_loss_{index}") in expected:
                golden = expected[key]  # per word, or their mean
                steps = len(sentences[index]) + 1
                total = golden.sum() if golden.size > 1 else golden.item() * steps
                np.testing.assert_allclose(-log_probs.sum(), total, rtol=1e-5)


@pytest.mark.golden
@pytest.mark.parametrize("name", ["chars", "chars-no-projection", "words"])
def test_the_encoder_goes_back_to_the_weights_that_the_original_dumped(name, tmp_path):
    h5py = pytest.importorskip("h5py")
    folder = find_data("fixtures", "tf-checkpoints", name)
    export_bilm_hdf5(convert_bilm_checkpoint(folder, tmp_path / "out"), tmp_path / "back")
    with h5py.File(tmp_path / "back" / "weights.hdf5") as written, h5py.File(folder / "weights.hdf5") as expected:
        names: list[str] = []
        expected.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        names = [name for name in names if not name.startswith("softmax") and "Adagrad" not in name]
        assert len(names) > 10
        for array in names:
            assert np.array_equal(written[array][...], expected[array][...]), array


# ---- All shapes, against the reference


def random_arrays(options: dict, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """The variables of an original graph, by the name without `lm/`."""
    lstm, characters = options["lstm"], options.get("char_cnn")
    size, cells, words = lstm["projection_dim"], lstm["dim"], options["n_tokens_vocab"]
    shapes: dict[str, tuple[int, ...]] = {"softmax/b": (words,)}
    if not options.get("share_embedding_softmax"):
        shapes["softmax/W"] = (words, size)
    if characters is None:
        shapes["embedding"] = (words, size)
    else:
        dim, filters = characters["embedding"]["dim"], characters["filters"]
        total = sum(count for _, count in filters)
        shapes["char_embed"] = (261, dim)
        for index, (width, count) in enumerate(filters):
            shapes |= {f"CNN/W_cnn_{index}": (1, width, dim, count), f"CNN/b_cnn_{index}": (count,)}
        for index in range(characters.get("n_highway") or 0):
            for kind in ("carry", "transform"):
                shapes |= {f"CNN_high_{index}/W_{kind}": (total, total), f"CNN_high_{index}/b_{kind}": (total,)}
        if total != size:
            shapes |= {"CNN_proj/W_proj": (total, size), "CNN_proj/b_proj": (size,)}
    layers = lstm.get("n_layers", 1)
    for scope in ("RNN_0/rnn", "RNN_1/rnn") if options.get("bidirectional") else ("rnn",):
        for layer in range(layers):
            cell = f"{scope}/multi_rnn_cell/cell_{layer}/lstm_cell" if layers > 1 else f"{scope}/lstm_cell"
            shapes |= {f"{cell}/kernel": (2 * size, 4 * cells), f"{cell}/bias": (4 * cells,)}
            if size < cells:
                shapes[f"{cell}/projection/kernel"] = (cells, size)
    return {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def write_original(folder, options, arrays, words=WORDS, **options_of_table):
    """A folder as training leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    variables = {f"lm/{name}": array for name, array in arrays.items()}
    variables |= {f"{name}/Adagrad": np.ones_like(array) for name, array in variables.items()}
    variables |= {f"{name}/Adam_1": np.ones_like(array) for name, array in arrays.items() if "embed" in name}
    scalars = {
        "lm/beta1_power": np.array(0.9, np.float32),
        "global_step": np.array(3.0, np.float32),
        "train_perplexity": np.array(0, np.float32),
    }
    write_checkpoint(folder / "model.ckpt-3", variables | scalars, **options_of_table)
    (folder / "options.json").write_text(json.dumps(options))
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
    (folder / "checkpoint").write_text('model_checkpoint_path: "/home/somebody/run/model.ckpt-3"\n')
    return folder


def reference(options, arrays) -> ReferenceBiLm:
    """The obvious implementation over the same arrays, under the names of the HDF5 format."""
    lstm, named = options["lstm"], {}
    for name, array in arrays.items():
        parts = name.split("/")
        if "rnn" in parts:
            layer = next((part.removeprefix("cell_") for part in parts if part.startswith("cell_")), "0")
            direction = parts[0].removeprefix("RNN_") if parts[0] != "rnn" else "0"
            kind = {"kernel": "W_0", "bias": "B"}[parts[-1]] if parts[-2] != "projection" else "W_P_0"
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{kind}"
        named[name] = array
    return ReferenceBiLm(
        arrays={name: array for name, array in named.items() if not name.startswith("softmax")},
        num_layers=lstm.get("n_layers", 1),
        cell_clip=lstm.get("cell_clip"),
        projection_clip=lstm.get("proj_clip"),
        skip_connections=bool(lstm.get("use_skip_connections")),
        activation=options["char_cnn"]["activation"] if "char_cnn" in options else "relu",
        directions=(0, 1) if options.get("bidirectional") else (0,),
    )


SHAPES = {
    "characters": TINY | {"char_cnn": CHARACTERS},
    "no projection": TINY | {"char_cnn": CHARACTERS, "lstm": TINY["lstm"] | {"dim": 8, "projection_dim": 8}},
    "one layer": TINY | {"char_cnn": CHARACTERS | {"activation": "tanh"}, "lstm": TINY["lstm"] | {"n_layers": 1}},
    "layers not stated": TINY | {"lstm": {"dim": 6, "projection_dim": 4}},
    "one direction": TINY | {"char_cnn": CHARACTERS, "bidirectional": False},
    "one layer, one direction": TINY | {"lstm": TINY["lstm"] | {"n_layers": 1}, "bidirectional": False},
    "words": TINY,
    "tied": TINY | {"share_embedding_softmax": True},
    "tied, no projection": TINY
    | {"share_embedding_softmax": True, "lstm": TINY["lstm"] | {"dim": 4}, "sample_softmax": False},
    "three layers, no skip": TINY | {"lstm": TINY["lstm"] | {"n_layers": 3, "use_skip_connections": False}},
    "highway layers null": TINY | {"char_cnn": CHARACTERS | {"n_highway": None}},
    "no highway": TINY | {"char_cnn": {name: value for name, value in CHARACTERS.items() if name != "n_highway"}},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_all_shapes_have_the_logits_of_the_reference(shape, tmp_path):
    options = SHAPES[shape]
    arrays = random_arrays(options, np.random.default_rng(0))
    out = convert_bilm_checkpoint(write_original(tmp_path / "run", options, arrays, shards=2), tmp_path / "out")
    model, tokenizer = AutoModelForPreTraining.from_pretrained(out).eval(), AutoTokenizer.from_pretrained(out)
    bilm = reference(options, arrays)
    weight = arrays["embedding" if options.get("share_embedding_softmax") else "softmax/W"].astype(np.float64)
    for words in SENTENCES:
        direction_logits, _ = logits_of(model, tokenizer, words)
        batch = tokenizer([words], is_split_into_words=True, return_tensors="pt")
        pairs = zip(batch["char_ids"][0].numpy(), batch["input_ids"][0].tolist(), strict=True)
        tokens = [bilm.token_vector(chars, word) for chars, word in pairs]
        assert len(direction_logits) == len(bilm.directions)
        for direction, logits in enumerate(direction_logits):
            read = tokens[:-1] if direction == 0 else tokens[1:]
            top = bilm.sentence(read)[0][-1]
            half = np.split(top, len(bilm.directions), axis=-1)[direction]
            expected = half @ weight.T + arrays["softmax/b"]
            expected = expected if direction == 0 else expected[::-1]
            np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_the_options_without_directions_have_those_of_the_variables(tmp_path):
    for bidirectional in (True, False):
        options = TINY | {"bidirectional": bidirectional}
        folder = write_original(
            tmp_path / f"{bidirectional}", options, random_arrays(options, np.random.default_rng(0))
        )
        stated = {name: value for name, value in options.items() if name != "bidirectional"}
        (folder / "options.json").write_text(json.dumps(stated))
        out = convert_bilm_checkpoint(folder, tmp_path / f"out-{bidirectional}")
        config = AutoModel.from_pretrained(out).config
        assert config.directions == ("both" if bidirectional else "forward")


@pytest.fixture
def original(tmp_path):
    """A tiny run: its folder."""
    options = SHAPES["characters"]
    return write_original(tmp_path / "run", options, random_arrays(options, np.random.default_rng(1)))


@pytest.mark.parametrize("name", ["", "model.ckpt-3", "model.ckpt-3.index", "model.ckpt-3.data-00000-of-00001"])
def test_a_checkpoint_may_be_named_by_its_folder_its_prefix_or_a_file(original, tmp_path, name):
    out = convert_bilm_checkpoint(original / name, tmp_path / "out")
    provenance = read_provenance(out)
    assert provenance["format"] == "bilm-checkpoint"
    assert {use: file["name"] for use, file in provenance["files"].items()} == {
        "index": "model.ckpt-3.index",
        "weights": "model.ckpt-3.data-00000-of-00001",
        "options": "options.json",
        "vocab": "vocab.txt",
    }


@pytest.mark.medium
def test_training_goes_on_with_the_settings_of_the_options(original, tmp_path):
    model = AutoModelForPreTraining.from_pretrained(convert_bilm_checkpoint(original, tmp_path / "out"))
    assert (model.config.softmax_type, model.config.softmax_samples, model.config.dropout) == ("sampled", 4, 0.1)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    batch = tokenizer([["the", "cat", "sat"]], is_split_into_words=True, return_tensors="pt")
    labels = torch.tensor([[3, 4, 5, 1, -100]])
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    losses = []
    for _ in range(30):
        model.train()
        loss = model(**batch, labels=labels, backward_labels=torch.tensor([[-100, 0, 3, 4, 5]])).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            losses.append(model.eval()(**batch, labels=labels).loss.item())
    assert losses[-1] < losses[0]


# ---- Refusals


def rewrite(folder, change):
    options = json.loads((folder / "options.json").read_text())
    change(options)
    (folder / "options.json").write_text(json.dumps(options))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda o: o["lstm"].update(n_layers=3), r"index lacks lm/RNN_0/rnn/multi_rnn_cell/cell_2"),
        (lambda o: o["lstm"].update(n_layers=1), r"index (lacks|holds) lm/RNN_0/rnn/"),
        (lambda o: o["lstm"].update(dim=7), r"should have shape \(8, 28\), found \(8, 24\)"),
        (lambda o: o["lstm"].update(projection_dim=12), r"`projection_size` \(12\) must not be larger"),
        (lambda o: o.update(bidirectional=False), r"lacks lm/rnn/"),
        (lambda o: o.update(n_tokens_vocab=10), r"options say 10 words, the vocabulary .* has 9"),
        (lambda o: o.pop("char_cnn"), r"lacks lm/embedding"),
        (lambda o: o.pop("lstm"), r"not the options of a biLM: 'lstm' is missing"),
        (lambda o: o["char_cnn"].update(n_characters=300), r"`n_characters` must be 261 or 262"),
    ],
)
def test_options_of_another_model_are_refused(original, tmp_path, change, message):
    rewrite(original, change)
    assert_refused(tmp_path, lambda out: convert_bilm_checkpoint(original, out), message)


def test_damaged_weights_are_refused_and_nothing_is_left(original, tmp_path):
    path = original / "model.ckpt-3.data-00000-of-00001"
    data = bytearray(path.read_bytes())
    data[TensorFlowCheckpoint(original / "model.ckpt-3").variables["lm/softmax/W"].offset + 5] ^= 1
    path.write_bytes(data)
    assert_refused(tmp_path, lambda out: convert_bilm_checkpoint(original, out), "checksum of lm/softmax/W is wrong")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(tmp_path, value):
    arrays = random_arrays(TINY, np.random.default_rng(0))
    arrays["softmax/b"][3] = value
    folder = write_original(tmp_path / "run", TINY, arrays)
    assert_refused(tmp_path, lambda out: convert_bilm_checkpoint(folder, out), r"lm/softmax/b should hold finite")


def test_an_unknown_variable_is_refused(tmp_path):
    arrays = random_arrays(TINY, np.random.default_rng(0)) | {"attention/W": np.zeros((2, 2), np.float32)}
    folder = write_original(tmp_path / "run", TINY, arrays)
    assert_refused(tmp_path, lambda out: convert_bilm_checkpoint(folder, out), r"holds lm/attention/W")


@pytest.mark.parametrize("missing", ["options.json", "vocab.txt", "model.ckpt-3.index"])
def test_a_missing_file_is_named(original, tmp_path, missing):
    (original / missing).unlink()
    match = missing if missing != "model.ckpt-3.index" else r"no file in it ends in \.index"
    assert_refused(tmp_path, lambda out: convert_bilm_checkpoint(original, out), match)


def test_one_of_several_checkpoints_must_be_chosen(original, tmp_path):
    for path in list(original.glob("model.ckpt-3.*")):
        shutil.copy(path, path.with_name(path.name.replace("-3.", "-9.")))
    assert convert_bilm_checkpoint(original, tmp_path / "last").is_dir()  # the file `checkpoint` names it
    (original / "checkpoint").unlink()
    assert_refused(
        tmp_path, lambda out: convert_bilm_checkpoint(original, out), r"choose one of model\.ckpt-3, model\.ckpt-9"
    )


def test_a_path_in_the_file_checkpoint_leads_nowhere_else(original, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(original, elsewhere)
    (original / "checkpoint").write_text(f'model_checkpoint_path: "{elsewhere}/model.ckpt-3"\n')
    (original / "model.ckpt-3.index").unlink()
    assert_refused(tmp_path, lambda out: convert_bilm_checkpoint(original, out), r"no file in it")


def test_a_checkpoint_of_version_1_is_refused_with_the_remedy(tmp_path):
    (tmp_path / "model.ckpt-3").write_bytes(b"old")
    assert_refused(tmp_path, lambda out: convert_bilm_checkpoint(tmp_path / "model.ckpt-3", out), "version 1")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(vocabulary=st.sampled_from([["the"], [], ["<S>", "</S>", "<UNK>", "a", "a"]]))
def test_a_vocabulary_that_is_none_is_refused(original, tmp_path, vocabulary):
    (original / "vocab.txt").write_text("\n".join(vocabulary))
    with pytest.raises(ConversionError, match="ocabulary"):
        convert_bilm_checkpoint(original, tmp_path / "new" / "out")
