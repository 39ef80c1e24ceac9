"""ElmoConfig: the original by default, strict about everything, and a reader of the original's options."""

import json

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError

from elmo_hf import ElmoConfig, ElmoModel

NAN = float("nan")
OPTIONS = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "embedding": {"dim": 16},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}


def changed(*path, **fields):
    """The original's options with the part at `path` updated, or, without fields, removed."""
    options = json.loads(json.dumps(OPTIONS))
    *parents, last = path or [None]
    part = options
    for name in parents:
        part = part[name]
    if last is None:
        options.update(fields)
    elif fields:
        part[last].update(fields)
    else:
        del part[last]
    return options


# ---- Sizes.


@pytest.mark.parametrize(
    ("fields", "parameters"),
    [
        ({}, 93_600_864),  # "original" and "original (5.5B)"
        ({"cell_size": 1024, "projection_size": 128, "num_highway_layers": 1}, 13_593_312),  # "small"
        ({"cell_size": 2048, "projection_size": 256, "num_highway_layers": 1}, 28_027_744),  # "medium"
    ],
)
def test_the_released_models_have_their_published_number_of_parameters(fields, parameters):
    with torch.device("meta"):
        model = ElmoModel(ElmoConfig(**fields), add_mixer=False)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize(
    ("fields", "hidden_size", "token_projection"),
    [
        ({}, 1024, True),
        ({"directions": "backward"}, 512, True),
        ({"projection_size": None}, 8192, True),
        ({"projection_size": None, "cell_size": 2048}, 4096, False),  # the filters' 2048 outputs fit as they are
        ({"token_inputs": "words"}, 1024, False),
        ({"token_inputs": "both"}, 1024, True),
    ],
)
def test_sizes_follow_from_the_fields(fields, hidden_size, token_projection):
    config = ElmoConfig(**fields)
    assert (config.hidden_size, config.token_projection) == (hidden_size, token_projection)


def test_padding_is_the_first_id_that_is_no_word():
    assert ElmoConfig(vocab_size=10).pad_token_id == 10
    assert ElmoConfig(vocab_size=10, pad_token_id=3).pad_token_id == 3


def test_trainer_does_not_gather_states_as_predictions():
    assert {"states", "hidden_states"} <= set(ElmoConfig().keys_to_ignore_at_inference)


# ---- Refusals.


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, 0) for name in ("vocab_size", "char_vocab_size", "max_characters_per_token", "char_embedding_size")),
        *((name, 0) for name in ("num_hidden_layers", "cell_size", "projection_size", "word_embedding_size")),
        *((name, -1) for name in ("cell_size", "num_highway_layers", "cell_clip", "projection_clip", "eos_token_id")),
        *((name, NAN) for name in ("cell_clip", "projection_clip", "forget_bias", "dropout", "mixer_dropout")),
        *((name, float("inf")) for name in ("cell_clip", "projection_clip", "forget_bias")),
        *((name, value) for name in ("dropout", "mixer_dropout") for value in (-0.1, 1, 1.5)),
        *((name, value) for name in ("cell_size", "num_hidden_layers") for value in ("4", 4.0, True, None, [4])),
        ("skip_connections", "yes"),
        ("skip_connections", 1),
        ("mixer_layer_norm", None),
        ("char_activation", "gelu"),
        ("token_inputs", "bytes"),
        ("directions", "sideways"),
        ("char_filters", []),
        ("char_filters", [[51, 8]]),  # wider than the slots
        ("char_filters", [[0, 8]]),
        ("char_filters", [[1, 0]]),
        ("char_filters", [[1]]),
        ("char_filters", [[1, 2, 3]]),
        ("char_filters", [[]]),
        ("char_filters", [1, 2]),
        ("char_filters", [["1", 2]]),
        ("char_filters", None),
        ("max_characters_per_token", 2),
        ("char_pad_id", 0),
        ("char_pad_id", 262),
        ("token_projection", False),  # where sizes differ
        ("mixer_weights", "last"),
        ("mixer_weights", [0.5, 0.5]),
        ("mixer_weights", [0.5, 0.5, 0.5]),
        ("mixer_weights", [1.5, -0.5, 0.0]),
        ("mixer_weights", [NAN, 0.5, 0.5]),
        ("mixer_weights", ["1", "0", "0"]),
        ("mixer_weights", None),
        ("bos_token_id", 793_471),
        ("eos_token_id", [1, 793_471]),
        ("pad_token_id", 793_472),
        ("softmax_type", "hierarchical"),
        ("softmax_type", None),
        ("softmax_samples", "many"),
        ("softmax_samples", None),
        ("softmax_cutoffs", 100),
        ("softmax_cutoffs", [100.0]),
        ("softmax_tail_ratio", 0),
        ("softmax_tail_ratio", 0.5),
    ],
)
def test_what_no_model_can_be_built_from_is_refused_with_the_fields_name(field, value):
    with pytest.raises(StrictDataclassError, match=field):
        ElmoConfig(**{field: value})


@pytest.mark.parametrize(
    ("softmax_type", "field", "value"),
    [
        *(("sampled", "softmax_samples", value) for value in (-1, 0, 50, 51)),
        *(("adaptive", "softmax_cutoffs", value) for value in ([], [0], [50], [10, 10], [20, 10], [10, 60])),
    ],
)
def test_a_softmax_is_checked_where_it_is_the_one_in_use(softmax_type, field, value):
    with pytest.raises(StrictDataclassError, match=field):
        ElmoConfig(vocab_size=50, softmax_type=softmax_type, **{field: value})
    assert getattr(ElmoConfig(vocab_size=50, **{field: value}), field) == value


def test_the_most_and_the_fewest_words_of_a_softmax_are_accepted():
    for samples in (1, 49):
        assert ElmoConfig(vocab_size=50, softmax_type="sampled", softmax_samples=samples).softmax_samples == samples
    for cutoffs in ([1], [49], [1, 2, 49]):
        assert ElmoConfig(vocab_size=50, softmax_type="adaptive", softmax_cutoffs=cutoffs).softmax_cutoffs == cutoffs


@pytest.mark.parametrize(
    ("vocab_size", "cutoffs"), [(793_471, [39_673, 198_367]), (100, [5, 25]), (20, [1, 5]), (4, [1]), (2, [1])]
)
def test_an_adaptive_softmax_has_cutoffs_for_any_vocabulary_by_itself(vocab_size, cutoffs):
    assert ElmoConfig(vocab_size=vocab_size, softmax_type="adaptive").softmax_cutoffs == cutoffs
    assert ElmoConfig(vocab_size=vocab_size).softmax_cutoffs is None


@pytest.mark.parametrize("weights", ["learned", "top", [0.2, 0.3, 0.5], [0, 0, 1]])
def test_every_kind_of_mixer_weights_is_accepted(weights):
    assert ElmoConfig(mixer_weights=weights).mixer_weights == weights


def test_a_field_is_checked_when_it_is_set_too():
    with pytest.raises(StrictDataclassError, match="cell_size"):
        ElmoConfig().cell_size = "large"


# ---- JSON.


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"token_inputs": "both", "word_embedding_size": 30, "vocab_size": 50},
        {"projection_size": None, "cell_clip": None, "directions": "forward", "mixer_weights": [0, 0.5, 0.5]},
        {"char_filters": [[1, 4]], "char_activation": "tanh", "token_projection": True, "pad_token_id": 7},
        {"softmax_type": "sampled", "softmax_samples": 100, "vocab_size": 200},
        {"softmax_type": "adaptive", "vocab_size": 200},
        {"softmax_type": "adaptive", "vocab_size": 200, "softmax_cutoffs": [3, 77, 150], "softmax_tail_ratio": 2},
    ],
)
def test_a_config_comes_back_from_json_as_it_was(fields, tmp_path):
    ElmoConfig(**fields).save_pretrained(tmp_path)
    loaded = ElmoConfig.from_pretrained(tmp_path)
    for name, value in ElmoConfig(**fields).to_dict().items():
        if name not in ("_name_or_path", "auto_map", "transformers_version"):
            assert getattr(loaded, name) == value, name
    loaded.save_pretrained(tmp_path)
    assert ElmoConfig.from_pretrained(tmp_path) == loaded


# ---- The original's options.


@pytest.mark.parametrize("n_characters", [261, 262])
@pytest.mark.parametrize("as_path", [False, True])
def test_options_of_training_and_of_inference_give_the_original_model(tmp_path, n_characters, as_path):
    options = changed("char_cnn", n_characters=n_characters)
    (tmp_path / "options.json").write_text(json.dumps(options))
    config = ElmoConfig.from_bilm_options(tmp_path / "options.json" if as_path else options)
    assert config == ElmoConfig(dropout=0.0)


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        (changed("lstm", projection_dim=4096), {"projection_size": None}),  # as the original's LSTM cell does it
        (changed("lstm", cell_clip=None, proj_clip=None), {"cell_clip": None, "projection_clip": None}),
        (changed("lstm", "use_skip_connections"), {"skip_connections": False}),
        (changed("lstm", "n_layers"), {"num_hidden_layers": 1}),
        (changed("char_cnn", "n_highway"), {"num_highway_layers": 0}),
        (changed("char_cnn", activation="tanh"), {"char_activation": "tanh"}),
        (changed(bidirectional=False), {"directions": "forward"}),
        (changed(bidirectional=True, dropout=0.1), {"directions": "both", "dropout": 0.1}),
        (changed(n_tokens_vocab=500, all_clip_norm_val=10.0), {"vocab_size": 500, "pad_token_id": 500}),
        (changed("char_cnn") | {"n_tokens_vocab": 500}, {"token_inputs": "words", "word_embedding_size": 512}),
    ],
)
def test_options_are_read(options, fields):
    config = ElmoConfig.from_bilm_options(options)
    assert {name: getattr(config, name) for name in fields} == fields


def test_overrides_win_over_options():
    assert ElmoConfig.from_bilm_options(OPTIONS, cell_clip=1.0).cell_clip == 1.0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (changed("lstm"), "'lstm' is missing"),
        (changed("lstm", "dim"), "'dim' is missing"),
        (changed("lstm", "projection_dim"), "'projection_dim' is missing"),
        (changed("char_cnn", "filters"), "'filters' is missing"),
        (changed("char_cnn", "embedding", "dim"), "'dim' is missing"),
        (changed("char_cnn", n_characters=256), "`n_characters` must be 261 or 262, found 256"),
        (changed("lstm", projection_dim=5000), "`projection_size` .*larger than `cell_size`"),
        (changed("lstm", dim="big"), "cell_size"),
        (changed("lstm", projection_dim=None), "`projection_dim` is null"),
        (changed("char_cnn", activation="gelu"), "char_activation"),
        (changed("char_cnn", filters=7), "wrong type"),
        (changed(lstm=3), "wrong type"),
        ([OPTIONS], "should be a JSON object, found list"),
        (0, "should be a JSON object, found int"),  # and no file descriptor
    ],
)
def test_bad_options_are_refused_with_what_is_wrong(options, match):
    with pytest.raises((ValueError, StrictDataclassError), match=match):
        ElmoConfig.from_bilm_options(options)


@pytest.mark.parametrize(
    "fields",
    [
        {"vocab_size": 10**12},
        {"cell_size": 10**9, "projection_size": None},
        {"num_hidden_layers": 10**9},
        {"num_highway_layers": 10**9},
        {"num_task_layers": 10**9},
        {"max_characters_per_token": 10**12},
        {"char_filters": [[1, 10**12]]},
        {"char_filters": [[1, 1]] * 1001},
        {"softmax_type": "adaptive", "softmax_cutoffs": list(range(1, 1003))},
        {"id2label": dict(enumerate("ab" * 3000)), "tag_decoder": "crf"},
        {"cell_clip": 10**400},
    ],
)
def test_absurd_sizes_are_refused(fields):
    with pytest.raises(StrictDataclassError, match=r"or less|finite"):
        ElmoConfig(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_labels": 10**12}, "`num_labels` must be a number up to 100000"),
        ({"num_labels": "3"}, "`num_labels` must be a number"),
        ({"dtype": "load"}, "`dtype` must be the name of a torch type"),
        ({"torch_dtype": 3}, "`dtype` must be the name of a torch type"),
        ({"validate": 1}, "`validate` is not a field that can be set"),
        ({"hidden_size": 8}, "`hidden_size` is not a field that can be set"),
        ({"__class__": "x"}, "`__class__` is not a field that can be set"),
        ({"attn_implementation": "somebody/kernel"}, "names code on the Hub, but ELMo has no attention"),
        ({"_attn_implementation": "somebody/kernel"}, "`_attn_implementation` names code on the Hub"),
        ({"_attn_implementation": {"": "somebody/kernel"}}, "`_attn_implementation` names code on the Hub"),
        ({"quantization_config": 3}, "`quantization_config` must be of type dict"),
        ({"id2label": 3}, "malformed|id2label"),
    ],
)
def test_fields_of_the_base_class_are_not_taken_without_a_look(fields, message):
    with pytest.raises((ValueError, StrictDataclassError), match=message):  # the second from older transformers
        ElmoConfig.from_dict(fields)


@pytest.mark.parametrize("content", ["", "[]", "3", "{", "[" * 100_000])
def test_a_config_file_that_is_no_json_object_is_refused_by_its_name(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(OSError, match=r"config\.json (is not a valid JSON file|should hold a JSON object)"):
        ElmoConfig.from_pretrained(tmp_path)
