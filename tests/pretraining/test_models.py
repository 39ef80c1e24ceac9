"""What a run starts with: a fresh model of a known size, or an existing one that keeps what it knows."""

import itertools

import pytest
import torch

from elmo_hf import ElmoConfig, ElmoForPreTraining, ElmoModel, ElmoTokenizer
from elmo_hf.errors import ModelError
from elmo_hf.modeling.tokenizer_files_elmo import write_vocabulary
from elmo_hf.pretraining.models import SIZES, build_config, extended, load_language_model, starting_point
from tests.models import TINY

SPECIALS = ["<S>", "</S>", "<UNK>"]
WORDS = [*SPECIALS, "the", "cat", "sat", "on", "a", "mat"]
NEW = ["dog", "cat", "<S>", "猫", "dog", "<PAD>", "the"]


# ---- configurations


@pytest.mark.parametrize(
    ("size", "parameters", "layers"), [("small", 13.59, 2), ("medium", 28.03, 2), ("original", 93.60, 2)]
)
def test_the_released_sizes_have_their_parameters(size, parameters, layers):
    config = build_config(size, vocab_size=793_471)
    with torch.device("meta"):
        model = ElmoModel(config, add_mixer=False)
    assert sum(weight.numel() for weight in model.parameters()) / 1e6 == pytest.approx(parameters, abs=0.005)
    assert config.num_hidden_layers == layers


def test_every_size_makes_a_model_for_every_recipe():
    for size, recipe, vocab_size in itertools.product(SIZES, ("modern", "original"), (10, 10_001, 20_000, 800_000)):
        config = build_config(size, vocab_size, recipe)
        assert config.vocab_size == vocab_size
        assert config.pad_token_id == vocab_size


@pytest.mark.parametrize(
    ("recipe", "vocab_size", "kind", "cutoffs"),
    [
        ("modern", 100, "full", None),
        ("modern", 10_000, "full", None),
        ("modern", 10_001, "adaptive", [3000]),
        ("modern", 23_999, "adaptive", [3000]),
        ("modern", 24_000, "adaptive", [3000, 12_000]),
        ("modern", 59_999, "adaptive", [3000, 12_000]),
        ("modern", 60_000, "adaptive", [3000, 12_000, 30_000]),
        ("modern", 793_471, "adaptive", [3000, 12_000, 30_000]),
        ("original", 100, "full", None),
        ("original", 16_384, "full", None),
        ("original", 16_385, "sampled", None),
        ("original", 793_471, "sampled", None),
    ],
)
def test_recipe_and_vocabulary_choose_the_softmax(recipe, vocab_size, kind, cutoffs):
    config = build_config("compact", vocab_size, recipe)
    assert config.softmax_type == kind
    assert config.softmax_cutoffs == cutoffs
    if kind == "sampled":
        assert config.softmax_samples == 8192


def test_fields_win_over_size_and_recipe():
    config = build_config("small", 50_000, softmax_type="sampled", softmax_samples=100, cell_size=256, dropout=0.3)
    assert (config.softmax_type, config.softmax_samples) == ("sampled", 100)
    assert (config.cell_size, config.projection_size, config.dropout) == (256, 128, 0.3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": "huge"}, "no size 'huge': choose one of compact, small, medium, original"),
        ({"size": "small", "recipe": "secret"}, "no recipe 'secret': choose one of modern, original"),
        ({"size": "small", "learning_rat": 0.1}, "no setting or field of the config 'learning_rat'"),
    ],
)
def test_what_is_not_there_is_refused_by_its_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        build_config(vocab_size=100, **arguments)


# ---- more words


def language_model(seed: int = 0, **fields) -> tuple[ElmoForPreTraining, ElmoTokenizer]:
    torch.manual_seed(seed)
    sizes = TINY | {"vocab_size": len(WORDS), "max_characters_per_token": 9, "softmax_samples": 3}
    model = ElmoForPreTraining(ElmoConfig(**(sizes | fields))).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    tokenizer = ElmoTokenizer(vocab=WORDS, splitting="whitespace", segmenter="run", max_characters_per_token=9)
    return model, tokenizer


KINDS = ["full", "sampled", "adaptive"]


@pytest.mark.parametrize("softmax_type", KINDS)
def test_known_words_keep_ids_and_weights_and_new_ones_come_behind(softmax_type):
    model, tokenizer = language_model(softmax_type=softmax_type)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    larger, wider = extended(model, tokenizer, NEW)

    assert wider.convert_ids_to_tokens(range(wider.vocab_size)) == [*WORDS, "dog", "猫"]
    assert larger.config.vocab_size == wider.vocab_size == 11
    assert larger.config.pad_token_id == wider.pad_token_id == 11
    assert larger.config.softmax_type == softmax_type
    grown = set()
    for name, weight in larger.state_dict().items():
        old = before[name]
        assert torch.equal(weight[: len(old)], old), name
        if weight.shape != old.shape:
            grown.add(name)
            assert len(weight) == len(old) + 2
    if softmax_type == "adaptive":
        assert grown == {"softmax.tails.1.1.weight", "softmax.tails.1.1.bias"}
    else:
        assert grown == {"softmax.weight", "softmax.bias"}
    for name, weight in model.state_dict().items():  # the given model stays as it was
        assert torch.equal(weight, before[name])
    assert tokenizer.vocab_size == len(WORDS)


@pytest.mark.parametrize("softmax_type", KINDS)
def test_new_words_start_as_rare_ones(softmax_type):
    model, tokenizer = language_model(softmax_type=softmax_type)
    larger, _ = extended(model, tokenizer, [f"new{index}" for index in range(200)])
    layer = larger.softmax.tails[-1][1] if softmax_type == "adaptive" else larger.softmax
    assert (layer.bias[-200:] == layer.bias[:-200].min()).all()
    new = layer.weight[-200:]
    assert new.std().item() == pytest.approx(new.shape[1] ** -0.5, rel=0.2)  # the original's initialisation


@pytest.mark.parametrize("softmax_type", KINDS)
def test_an_extended_model_reads_as_before_and_gives_known_words_their_logits(softmax_type):
    model, tokenizer = language_model(softmax_type=softmax_type)
    larger, wider = extended(model, tokenizer, NEW)
    old, new = (some("the dog sat on 猫", return_tensors="pt") for some in (tokenizer, wider))
    assert torch.equal(old["char_ids"], new["char_ids"])
    assert old["input_ids"].tolist() == [[0, 3, 2, 5, 6, 2, 1]]
    assert new["input_ids"].tolist() == [[0, 3, 9, 5, 6, 10, 1]]
    with torch.no_grad():
        tops = [some(char_ids=old["char_ids"]).last_hidden_state for some in (model, larger)]
        assert torch.equal(*tops)
        top = tops[0][0, :, :4]
        before, after = model.softmax.log_probs(top), larger.softmax.log_probs(top)
    assert after.shape[1] == 11
    torch.testing.assert_close(after.exp().sum(dim=1), torch.ones(7))
    if softmax_type == "adaptive":  # the frequent words' are the very same
        first = model.softmax.bounds[0]
        torch.testing.assert_close(after[:, :first], before[:, :first])
    else:  # logits, but for what makes them probabilities
        shift = before - after[:, :9]
        torch.testing.assert_close(shift, shift[:, :1].expand_as(shift))


def test_an_extended_tokenizer_cuts_text_as_before():
    model, _ = language_model()
    for options in (
        {"splitting": "whitespace", "segmenter": "run"},
        {"splitting": "treebank", "segmenter": lambda run: [run[:1], run[1:]]},
        {"bos_token": "[", "eos_token": "]", "unk_token": "?", "pad_token": "_"},
        {"split_special_tokens": False, "padding_side": "left", "truncation_side": "left", "model_max_length": 6},
    ):
        vocab = [
            options.get(name, mark)
            for name, mark in zip(("bos_token", "eos_token", "unk_token"), SPECIALS, strict=True)
        ]
        tokenizer = ElmoTokenizer(vocab=[*vocab, *WORDS[3:]], max_characters_per_token=9, **options)
        _, wider = extended(model, tokenizer, ["dog"])
        text = "the cat didn't see 猫が好き <S>"
        assert wider.tokenize(text) == tokenizer.tokenize(text)
        padding = {"padding": "max_length", "truncation": True, "max_length": options.get("model_max_length", 40)}
        assert wider(text, **padding)["char_ids"] == tokenizer(text, **padding)["char_ids"]
        assert wider.model_max_length == tokenizer.model_max_length
        assert wider.special_tokens_map == tokenizer.special_tokens_map


@pytest.mark.parametrize("pad_in_vocabulary", [False, True])
def test_a_table_of_words_grows_too_and_padding_stays_padding(pad_in_vocabulary):
    model, tokenizer = language_model(token_inputs="words", **({"pad_token_id": 8} if pad_in_vocabulary else {}))
    if pad_in_vocabulary:
        tokenizer = ElmoTokenizer(vocab=[*WORDS[:-1], "<PAD>"], max_characters_per_token=9)
    larger, wider = extended(model, tokenizer, ["dog", "猫"])
    assert larger.config.pad_token_id == wider.pad_token_id == (8 if pad_in_vocabulary else 11)
    old, new = (some.elmo.token_encoder.word_embeddings for some in (model, larger))
    assert torch.equal(new.weight[: len(WORDS)], old.weight[: len(WORDS)])
    assert new.padding_idx == wider.pad_token_id
    assert not new.weight[wider.pad_token_id].any()
    assert new.weight[9:11].any(dim=1).all()  # new words are no padding


def test_without_new_words_all_stays():
    model, tokenizer = language_model()
    assert extended(model, tokenizer, ["cat", "<S>", "<PAD>"]) == (model, tokenizer)


@pytest.mark.parametrize("training", [True, False])
def test_an_extended_model_stays_in_its_mode_and_learns(training):
    model, tokenizer = language_model()
    larger, _ = extended(model.train(training), tokenizer, NEW)
    assert larger.training == training
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in larger.parameters())


def test_a_tokenizer_of_another_model_is_refused():
    model, _ = language_model(vocab_size=30)
    with pytest.raises(ModelError, match="The tokenizer has 9 words and the model 30"):
        extended(model, ElmoTokenizer(vocab=WORDS), ["dog"])


def test_an_extended_model_is_stored_and_loaded(tmp_path):
    larger, wider = extended(*language_model(softmax_type="adaptive"), NEW)
    larger.save_pretrained(tmp_path)
    wider.save_pretrained(tmp_path)
    model, tokenizer = load_language_model(str(tmp_path))
    assert tokenizer.get_vocab() == wider.get_vocab()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, larger.state_dict()[name])
    assert extended(model, tokenizer, NEW) == (model, tokenizer)


# ---- where a run starts


@pytest.fixture
def vocabulary(tmp_path):
    write_vocabulary([*WORDS, "dog"], tmp_path / "vocab.txt")
    return tmp_path / "vocab.txt"


@pytest.fixture
def stored(tmp_path):
    folder = tmp_path / "model"
    for part in language_model():
        part.save_pretrained(folder)
    return str(folder)


FIELDS = {name: TINY[name] for name in ("cell_size", "projection_size", "char_filters")}


def test_a_fresh_model_fits_its_vocabulary(vocabulary):
    model, tokenizer = starting_point(
        None, vocabulary, size="small", fields=FIELDS, tokenizer_options={"splitting": "whitespace"}
    )
    assert model.config.vocab_size == tokenizer.vocab_size == 10
    assert model.config.pad_token_id == tokenizer.pad_token_id
    assert model.config.cell_size == 7
    assert model.config.num_highway_layers == 1
    assert tokenizer.splitting == "whitespace"


def test_a_model_of_code_points_has_the_characters_of_its_vocabulary(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("<S>\n</S>\n<UNK>\n银行\n行长\n", "utf-8")
    model, tokenizer = starting_point(None, vocabulary, spelling="code-points", fields=FIELDS)
    batch = tokenizer([["银行", "长银", "猫"]], is_split_into_words=True, return_tensors="pt")
    row = batch["char_ids"][0, 2]
    assert tokenizer.spelling.word(row.numpy()) == "长银"  # a new word of known characters
    assert model.config.char_vocab_size == tokenizer.spelling.size == 1 + 6 + 3  # padding, special characters, 银行长
    layers = model.elmo(**batch, output_hidden_states=True).hidden_states
    assert layers[0].shape[1] == 5
    assert (batch["char_ids"][0, 3] == tokenizer.spelling.unknown).sum() == 1  # 猫
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    again, _ = load_language_model(str(tmp_path / "model"))
    assert torch.equal(again.elmo(**batch).last_hidden_state, model.eval().elmo(**batch).last_hidden_state)


def test_an_existing_model_goes_on_with_its_words(stored):
    model, tokenizer = starting_point(stored, None)
    expected, _ = language_model()
    assert tokenizer.vocab_size == model.config.vocab_size == 9
    assert torch.equal(model.softmax.weight, expected.softmax.weight)


def test_an_existing_model_goes_on_with_more_words(stored, vocabulary):
    model, tokenizer = starting_point(stored, vocabulary, extend_vocabulary=True)
    assert tokenizer.convert_ids_to_tokens(range(10)) == [*WORDS, "dog"]
    assert torch.equal(model.softmax.weight[:9], language_model()[0].softmax.weight)


@pytest.mark.parametrize(
    ("from_model", "vocab", "options", "message"),
    [
        (False, False, {}, "A new model needs a vocabulary: give --vocab"),
        (False, True, {"extend_vocabulary": True}, "of an existing model can be extended: give --from"),
        (False, True, {"size": "huge"}, "no size 'huge'"),
        (False, True, {"fields": {"droput": 0.1}}, "droput"),
        (True, True, {}, "give both --vocab and --extend-vocab"),
        (True, False, {"extend_vocabulary": True}, "give both --vocab and --extend-vocab"),
        (
            True,
            False,
            {"fields": {"dropout": 0.2, "cell_size": 3}},
            "dropout, cell_size cannot be set with a model to continue from",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(stored, vocabulary, from_model, vocab, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        starting_point(stored if from_model else None, vocabulary if vocab else None, **options)
    assert "\n" not in str(caught.value)


def test_an_encoder_without_softmax_is_refused(tmp_path):
    model, tokenizer = language_model()
    model.elmo.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    ElmoModel.from_pretrained(tmp_path)
    for load in (load_language_model, lambda name: starting_point(name, None)):
        with pytest.raises(ModelError, match=r"^\S+ has no softmax, so it cannot predict words") as caught:
            load(str(tmp_path))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("softmax_type", KINDS)
def test_a_stored_language_model_is_loaded_whole(tmp_path, softmax_type):
    model, tokenizer = language_model(softmax_type=softmax_type)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded, words = load_language_model(str(tmp_path))
    assert words.get_vocab() == tokenizer.get_vocab()
    assert loaded.state_dict().keys() == model.state_dict().keys()
    for name, weight in loaded.state_dict().items():
        assert torch.equal(weight, model.state_dict()[name])
