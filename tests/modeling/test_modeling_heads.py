"""The heads: losses by the book, frozen biLMs that cost nothing, and the same answers whatever the batch."""

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import safe_open
from torch.nn import functional
from torch.testing import assert_close
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from elmo_hf import (
    ElmoConfig,
    ElmoEmbedder,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)
from tests.models import TINY

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "a", "mat"]
SIZES = TINY | {"vocab_size": len(WORDS), "task_layer_size": 3}
SENTENCES = ["the cat sat on a mat", "a dog", "the mat sat on the cat today"]
LABELS = ["O", "B-x", "I-x"]
TAGGERS = [
    {},
    {"num_task_layers": 0},
    {"num_task_layers": 2, "tag_decoder": "crf"},
    {"elmo_places": "both", "word_vector_size": 5},
    {"elmo_places": "output", "word_vector_size": 5, "tag_decoder": "crf"},
    {"elmo_places": "none", "word_vector_size": 5},
    {"mixer_weights": "top"},
    {"mixer_weights": [0.2, 0.3, 0.5], "mixer_layer_norm": False},
    {"freeze_bilm": False, "dropout": 0.1},
    {"directions": "forward"},
]
CLASSIFIERS = [
    {"pooling": "mean"},
    {"pooling": "max", "num_task_layers": 0},
    {"pooling": "attention", "elmo_places": "both"},
    {"pooling": "biattentive", "word_vector_size": 4},
    {"pooling": "biattentive", "elmo_places": "both", "num_task_layers": 0},
    {"pooling": "biattentive", "classifier_type": "maxout"},
    {"text_pairs": True},
    {"text_pairs": True, "pair_attention": True, "pooling": "mean"},
    {"text_pairs": True, "pair_attention": True, "pooling": "biattentive", "elmo_places": "both"},
    {"text_pairs": True, "pair_attention": "esim", "elmo_places": "both", "word_vector_size": 4},
    {"text_pairs": True, "pair_attention": "esim", "num_task_layers": 0},
]


@pytest.fixture(scope="module")
def tokenizer():
    return ElmoTokenizer(vocab=WORDS)


def head(kind, seed: int = 0, **fields):
    torch.manual_seed(seed)
    labels = {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
    return kind(ElmoConfig(**(SIZES | labels | fields))).eval()


def tagger(**fields) -> ElmoForTokenClassification:
    return head(ElmoForTokenClassification, **fields)


def classifier(**fields) -> ElmoForSequenceClassification:
    return head(ElmoForSequenceClassification, **fields)


def tagged_batch(tokenizer, side: str = "right", sentences=SENTENCES):
    batch = tokenizer(sentences, padding=True, padding_side=side, return_tensors="pt")
    special = tokenizer(sentences, padding=True, padding_side=side, return_special_tokens_mask=True)
    labels = torch.arange(batch["input_ids"].numel()).view_as(batch["input_ids"]) % 3
    batch["labels"] = labels.masked_fill(torch.tensor(special["special_tokens_mask"]).bool(), -100)
    return batch


def pair_or_text(model, tokenizer, rows=slice(None)):
    pairs = ["on the mat", "here now", "a cat"][rows] if model.config.text_pairs else None
    return tokenizer(SENTENCES[rows], pairs, padding=True, return_tensors="pt")


# ---- every head


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("fields", TAGGERS, ids=str)
def test_a_tagger_gives_each_word_the_same_logits_alone_in_a_batch_and_padded_on_either_side(tokenizer, fields):
    model = tagger(**fields)
    with torch.no_grad():
        right, left = (model(**tagged_batch(tokenizer, side)).logits for side in ("right", "left"))
        for row, sentence in enumerate(SENTENCES):
            single = model(**tagged_batch(tokenizer, sentences=[sentence])).logits[0]
            assert_close(right[row, : len(single)], single, atol=1e-5, rtol=0)
            assert_close(left[row, -len(single) :], single, atol=1e-5, rtol=0)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("fields", CLASSIFIERS, ids=str)
def test_a_classifier_gives_each_text_the_same_logits_alone_and_in_a_batch(tokenizer, fields):
    model = classifier(**fields)
    with torch.no_grad():
        batched = model(**pair_or_text(model, tokenizer)).logits
        for row in range(3):
            single = model(**pair_or_text(model, tokenizer, slice(row, row + 1))).logits
            assert_close(batched[row : row + 1], single, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [*((ElmoForTokenClassification, f) for f in TAGGERS), *((ElmoForSequenceClassification, f) for f in CLASSIFIERS)],
    ids=str,
)
def test_every_parameter_that_learns_gets_a_gradient_and_a_saved_head_gives_the_same_logits(
    tokenizer, tmp_path, kind, fields
):
    model = head(kind, **fields)
    if kind is ElmoForTokenClassification:
        batch = tagged_batch(tokenizer)
    else:
        batch = pair_or_text(model, tokenizer)
        batch["labels"] = torch.tensor([0, 2, 1])
    model.train()(**batch).loss.backward()
    learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name for name, parameter in model.named_parameters() if parameter.grad is not None} == learning
    assert any(name.startswith("elmo.") for name in learning) != model.config.freeze_bilm
    model.eval().save_pretrained(tmp_path)
    loaded = kind.from_pretrained(tmp_path).eval()
    assert {name for name, parameter in loaded.named_parameters() if parameter.requires_grad} == learning
    with torch.no_grad():
        assert torch.equal(loaded(**batch).logits, model(**batch).logits)


# ---- taggers


def test_a_taggers_loss_is_the_cross_entropy_per_labelled_word(tokenizer):
    model, batch = tagger(), tagged_batch(tokenizer)
    batch["labels"][0, 2] = -100  # a word that nobody has labelled
    output = model(**batch)
    assert_close(output.loss, functional.cross_entropy(output.logits.flatten(0, 1), batch["labels"].flatten()))
    assert output.emissions is None


def test_logits_are_zero_where_there_is_no_word(tokenizer):
    batch = tagged_batch(tokenizer)
    logits = tagger()(**batch).logits
    assert not logits[batch["labels"] == -100].any()
    assert logits[batch["labels"] != -100].all()


def test_a_crfs_logits_decode_to_its_best_sequence_and_are_log_marginals_elsewhere(tokenizer):
    model, batch = tagger(tag_decoder="crf"), tagged_batch(tokenizer)
    with torch.no_grad():
        for parameter in model.crf.parameters():
            parameter.normal_(std=2.0)
        output = model(**batch)
        for row, sentence in enumerate(SENTENCES):
            places = slice(1, len(sentence.split()) + 1)
            emissions = output.emissions[row : row + 1, places]
            mask = torch.ones(emissions.shape[:2], dtype=torch.bool)
            best, marginals = model.crf.best_labels(emissions, mask)[0], model.crf.log_marginals(emissions, mask)[0]
            logits = output.logits[row, places]
            assert torch.equal(logits.argmax(-1), best)
            assert torch.equal(logits.softmax(-1).argmax(-1), best)
            others = torch.ones_like(logits, dtype=torch.bool).scatter(1, best.unsqueeze(1), False)
            assert_close(logits[others], marginals[others], atol=1e-5, rtol=1e-5)
            expected = -model.crf.log_likelihood(emissions, batch["labels"][row : row + 1, places], mask)
            single = model(**tagged_batch(tokenizer, sentences=[sentence]))
            assert single.loss.isfinite()
            assert expected.isfinite()


def test_a_crfs_loss_is_each_sentences_likelihood_over_all_labelled_words(tokenizer):
    model, batch = tagger(tag_decoder="crf"), tagged_batch(tokenizer)
    output = model(**batch)
    total = 0.0
    for row, sentence in enumerate(SENTENCES):
        places = slice(1, len(sentence.split()) + 1)
        labels = batch["labels"][row : row + 1, places]
        total -= model.crf.log_likelihood(output.emissions[row : row + 1, places], labels, labels >= 0).sum()
    assert_close(output.loss, total / (batch["labels"] >= 0).sum())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (lambda labels: labels.fill_(0), "no word"),
        (lambda labels: labels.masked_fill_(labels == 2, 3), "between 0 and 2"),
    ],
)
def test_labels_that_cannot_be_are_refused(tokenizer, labels, message):
    batch = tagged_batch(tokenizer)
    labels(batch["labels"])
    with pytest.raises(ValueError, match=message):
        tagger()(**batch)


def test_the_sentences_of_a_pair_are_tagged_each_by_itself(tokenizer):
    model = tagger(tag_decoder="crf")
    with torch.no_grad():
        pair = model(**tokenizer("the cat sat", "on a mat", return_tensors="pt")).logits[0]
        one, other = (model(**tokenizer(text, return_tensors="pt")).logits[0] for text in ("the cat sat", "on a mat"))
    assert_close(pair, torch.cat([one, other]), atol=1e-5, rtol=0)


# ---- classifiers


def test_one_label_is_cross_entropy_several_are_binary_and_numbers_squared(tokenizer):
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    one = classifier()
    output = one(**batch, labels=torch.tensor([0, 2, -100]))
    assert_close(output.loss, functional.cross_entropy(output.logits[:2], torch.tensor([0, 2])))
    assert one.config.problem_type == "single_label_classification"

    several, wanted = classifier(), torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1]])
    output = several(**batch, labels=wanted)
    assert_close(output.loss, functional.binary_cross_entropy_with_logits(output.logits, wanted))
    assert several.config.problem_type == "multi_label_classification"

    scorer = head(ElmoForSequenceClassification, id2label={0: "score"}, label2id={"score": 0})
    output = scorer(**batch, labels=torch.tensor([0.5, -1.0, 2.0]))
    assert_close(output.loss, functional.mse_loss(output.logits.squeeze(1), torch.tensor([0.5, -1.0, 2.0])))
    assert scorer.config.problem_type == "regression"


@pytest.mark.parametrize("fields", [{}, {"tag_decoder": "crf"}])
def test_sentences_of_a_row_are_independent_whatever_their_numbers(tokenizer, fields):
    model, sentences = tagger(**fields), ["the cat sat", "on a mat", "a cat"]
    alone = [tokenizer(sentence, return_tensors="pt") for sentence in sentences]
    row = {name: torch.cat([batch[name] for batch in alone], dim=1) for name in alone[0]}
    lengths = [batch["attention_mask"].shape[1] for batch in alone]
    numbers = torch.tensor([0, 1, 0]).repeat_interleave(torch.tensor(lengths))
    row["token_type_ids"] = numbers.unsqueeze(0)
    with torch.no_grad():
        expected = torch.cat([model(**batch).logits for batch in alone], dim=1)
        torch.testing.assert_close(model(**row).logits, expected, atol=1e-5, rtol=0)


def test_the_encoder_of_a_head_has_no_sentence_pooling_and_can_be_loaded(tokenizer, tmp_path):
    torch.manual_seed(0)
    config = ElmoConfig(**SIZES, sentence_layers=[1], sentence_size=3)
    ElmoModel(config).save_pretrained(tmp_path / "bilm")
    model = ElmoForTokenClassification.from_pretrained(tmp_path / "bilm")
    model.save_pretrained(tmp_path / "head")
    tokenizer.save_pretrained(tmp_path / "head")
    embedder = ElmoEmbedder.from_pretrained(tmp_path / "head")
    assert embedder.model.sentence_pooling is None
    assert embedder.embed(["the cat"])[0].shape == (2, config.hidden_size)
    ElmoForTokenClassification(config)
    assert config.sentence_layers == [1]


def test_pairs_and_single_texts_are_not_mistaken_for_each_other(tokenizer):
    pair, single = (tokenizer("a cat", other, return_tensors="pt") for other in ("a mat", None))
    with pytest.raises(ValueError, match="text_pairs=True"):
        classifier()(**pair)
    with pytest.raises(ValueError, match="pairs of texts"):
        classifier(text_pairs=True)(**single)
    one_of_two = tokenizer(["a cat", "a mat"], ["the cat", "the mat"], return_tensors="pt")
    one_of_two["token_type_ids"][1] = 0
    with pytest.raises(ValueError, match="the second text of each row"):
        classifier(text_pairs=True)(**one_of_two)


def test_a_text_without_words_has_logits(tokenizer):
    for pooling in ("mean", "max", "attention", "biattentive"):
        logits = classifier(pooling=pooling)(**tokenizer(["", "a cat"], padding=True, return_tensors="pt")).logits
        assert logits.isfinite().all()


# ---- the mix


def test_the_mixes_l2_counts_in_training_only_and_by_a_parts_share(tokenizer):
    fields = {"mixer_l2": 10.0, "elmo_dropout": 0.0, "classifier_dropout": 0.0, "elmo_places": "both"}
    model, batch = tagger(**fields), tagged_batch(tokenizer)
    with torch.no_grad():
        model.input_mixer.weights.copy_(torch.tensor([1.0, 0.0, 0.0]))
        model.output_mixer.weights.copy_(torch.tensor([0.0, 2.0, 0.0]))
    plain = model(**batch).loss
    assert_close(model.train()(**batch).loss, plain + 10 * (1 + 4))
    items = int((batch["labels"] >= 0).sum())
    parts = [tagged_batch(tokenizer, sentences=[sentence]) for sentence in SENTENCES]
    for part, row in zip(parts, range(3), strict=True):
        width = part["labels"].shape[1]
        part["labels"] = batch["labels"][row : row + 1, :width]
    summed = sum(model(**part, num_items_in_batch=items).loss for part in parts)
    assert_close(summed, model(**batch).loss)


def test_top_and_fixed_mixes_are_what_they_say(tokenizer):
    batch = tagged_batch(tokenizer)
    for weights, expected in (("top", [0, 0, 1.0]), ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5])):
        model = tagger(mixer_weights=weights)
        assert model.input_mixer.layer_weights().tolist() == pytest.approx(expected)
        assert model.train()(**batch).loss.isfinite()


# ---- frozen


def test_a_frozen_bilm_stays_in_evaluation_mode_and_keeps_nothing_for_a_backward_pass(tokenizer):
    model, batch = tagger(dropout=0.5, output_hidden_states=True), tagged_batch(tokenizer)
    model.train()
    assert model.training
    assert not any(module.training for module in model.elmo.layers.modules())
    one, other = model(**batch).hidden_states, model(**batch).hidden_states
    for layer, again in zip(one, other, strict=True):
        assert torch.equal(layer, again)
        assert layer.grad_fn is None


@pytest.mark.parametrize("kind", [ElmoForTokenClassification, ElmoForSequenceClassification])
def test_requires_grad_of_the_whole_head_makes_the_bilm_learn(tokenizer, kind):
    model = head(kind)
    model.requires_grad_(True)
    model(**tokenizer(SENTENCES, padding=True, return_tensors="pt")).logits.square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.elmo.parameters())


def test_one_trainable_weight_in_a_frozen_bilm_gets_its_gradient(tokenizer):
    """As adapters are: the biLM's own weights stay frozen."""
    model = tagger()
    model.elmo.layers[0].bias.requires_grad_(True)
    model(**tagged_batch(tokenizer)).loss.backward()
    learning = {name for name, parameter in model.elmo.named_parameters() if parameter.grad is not None}
    assert learning == {"layers.0.bias"}
    with pytest.raises(ValueError, match="if the biLM is frozen"):
        model.cache_layers()


def test_freezing_and_unfreezing_set_requires_grad_and_decide_about_gradients(tokenizer):
    model, batch = tagger(freeze_bilm=False), tagged_batch(tokenizer)
    for frozen in (True, False, True):
        (model.elmo.freeze_bilm if frozen else model.elmo.unfreeze_bilm)()
        assert {parameter.requires_grad for parameter in model.elmo.parameters()} == {not frozen}
        layers = model(**batch, output_hidden_states=True).hidden_states
        assert {layer.requires_grad for layer in layers} == {not frozen}


def test_a_replica_of_data_parallelism_knows_whether_the_bilm_is_frozen():
    for frozen in (True, False):
        elmo = tagger(freeze_bilm=frozen).elmo
        for module in list(elmo.modules()):  # as torch.nn.parallel.replicate does it
            parameters = dict(module._parameters)
            module._parameters = dict.fromkeys(parameters)
            module._former_parameters = {name: value for name, value in parameters.items() if value is not None}
        assert not list(elmo.parameters())
        assert elmo.bilm_is_frozen == frozen


def test_parameter_groups_give_the_bilm_a_lower_rate_mixers_a_higher_one_and_biases_no_decay():
    model = tagger(freeze_bilm=False, tag_decoder="crf")
    groups = model.param_groups(0.01, weight_decay=0.1)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert sum(len(group["params"]) for group in groups) == len(names)
    for group in groups:
        for parameter in group["params"]:
            name = names[id(parameter)]
            rate = 0.001 if name.startswith("elmo.") else 0.5 if "mixer" in name else 0.01
            assert group["lr"] == pytest.approx(rate)
            assert group["weight_decay"] == (0.1 if parameter.ndim > 1 and "bias" not in name else 0.0)
    assert {group["lr"] for group in tagger().param_groups(0.01)} == {0.01, 0.5}
    given = model.param_groups(0.01, bilm_learning_rate=0.2, mixer_learning_rate=0.3)
    assert {group["lr"] for group in given} == {0.01, 0.2, 0.3}


@pytest.mark.medium
def test_a_learned_mix_leaves_layers_without_information_behind(tokenizer):
    torch.manual_seed(0)
    model, batch = tagger(num_task_layers=0, elmo_dropout=0.0, classifier_dropout=0.0), tagged_batch(tokenizer)
    labels = batch["labels"]
    codes = torch.randn(len(model.config.label_names), model.config.hidden_size)[labels.clamp(min=0)]

    def layers(*_):
        """Noise, and in the top layer the labels."""
        return *(torch.randn_like(codes) for _ in range(model.config.num_hidden_layers)), codes

    model._bilm_layers = layers
    optimizer = torch.optim.AdamW(model.param_groups(0.001))
    model.train()
    for _ in range(300):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert model.input_mixer.layer_weights()[-1] > 0.8


# ---- from a language model


@pytest.mark.parametrize("auto", [AutoModelForTokenClassification, AutoModelForSequenceClassification])
def test_a_language_model_becomes_a_head_with_its_own_weights_frozen(tmp_path, auto):
    torch.manual_seed(0)
    bilm = ElmoForPreTraining(ElmoConfig(**SIZES))
    bilm.save_pretrained(tmp_path)
    model, report = auto.from_pretrained(tmp_path, num_labels=3, output_loading_info=True)
    assert not report["unexpected_keys"]
    assert not any(key.startswith("elmo.") for key in report["missing_keys"])
    for name, tensor in bilm.elmo.state_dict().items():
        assert torch.equal(model.elmo.state_dict()[name], tensor), name
    assert not any(parameter.requires_grad for parameter in model.elmo.parameters())
    assert model.input_mixer.layer_weights().tolist() == pytest.approx([1 / 3] * 3)
    assert model.input_mixer.gamma.item() == 1.0


def test_word_vectors_of_another_vocabulary_are_refused(tokenizer):
    model = tagger(word_vector_size=4, num_word_vectors=5)
    with pytest.raises(ValueError, match="table of word vectors has 5 words"):
        model(**tagged_batch(tokenizer))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"elmo_places": "output"}, "without input"),
        ({"elmo_places": "none"}, "without input"),
        ({"pair_attention": True}, "text_pairs"),
        ({"pair_attention": "esim"}, "text_pairs"),
        ({"pair_attention": "esim", "text_pairs": True, "pooling": "attention"}, "pools by mean and maximum"),
        ({"token_inputs": "both", "word_vector_size": 4, "num_word_vectors": 3}, "same words"),
        ({"num_task_layers": -1}, "num_task_layers"),
        ({"mixer_l2": -0.1}, "mixer_l2"),
        ({"elmo_dropout": 1.0}, "elmo_dropout"),
    ],
    ids=str,
)
def test_heads_that_cannot_be_built_are_refused_by_field(fields, message):
    with pytest.raises((StrictDataclassError, ValueError), match=message):
        ElmoConfig(**(SIZES | fields))


@pytest.mark.parametrize(
    ("problem", "labels"),
    [("multi_label_classification", [[1.0, 0.0, -100.0], [0.0, 1.0, 1.0]]), ("regression", [[1.0], [-100.0]])],
)
def test_labels_that_are_not_given_count_for_nothing(tokenizer, problem, labels):
    model = classifier(num_labels=len(labels[0]), problem_type=problem)
    batch = tokenizer(SENTENCES[:2], padding=True, return_tensors="pt")
    wanted = torch.tensor(labels)
    output = model(**batch, labels=wanted)
    is_given = wanted != -100
    measure = functional.mse_loss if problem == "regression" else functional.binary_cross_entropy_with_logits
    assert_close(output.loss, measure(output.logits[is_given], wanted[is_given]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("fields", [{"tag_decoder": "crf", "elmo_places": "both"}, {"num_task_layers": 0}], ids=str)
def test_a_tagger_of_half_precision_is_nearly_that_of_full(tokenizer, fields, dtype):
    """On a CPU its products run in fp32: bf16 ones end the process on some machines."""
    model, batch = tagger(**fields), tagged_batch(tokenizer)
    expected = model(**batch)
    output = model.to(dtype)(**batch)
    assert_close(output.logits.float(), expected.logits, atol=0.05, rtol=0.05)
    model.train()(**batch).loss.backward()
    assert model.classifier.weight.grad.dtype == dtype


def test_a_classifier_of_half_precision_is_nearly_that_of_full(tokenizer):
    model = classifier(pooling="biattentive", text_pairs=True, pair_attention=True)
    batch = pair_or_text(model, tokenizer)
    expected = model(**batch).logits
    assert_close(model.to(torch.bfloat16)(**batch).logits.float(), expected, atol=0.05, rtol=0.05)


def test_a_bilm_that_is_no_longer_frozen_learns(tokenizer):
    model = tagger()
    model.elmo.unfreeze_bilm()
    model(**tagged_batch(tokenizer)).loss.backward()
    assert all(parameter.grad is not None for parameter in model.elmo.layers.parameters())


# ---- a head without ELMo


def without_elmo(kind, **fields):
    return head(kind, elmo_places="none", word_vector_size=5, **fields)


@pytest.mark.parametrize("kind", [ElmoForTokenClassification, ElmoForSequenceClassification])
def test_a_head_without_elmo_has_no_bilm_and_stores_none(tokenizer, tmp_path, kind):
    model = without_elmo(kind)
    model.save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        stored = set(file.keys())
    assert stored
    assert not any(name.startswith("elmo.") for name in stored)
    loaded, info = kind.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        assert torch.equal(loaded.eval()(**batch).logits, model(**batch).logits)


def test_a_head_without_elmo_is_made_from_a_bilm_and_from_a_head_that_has_one_without_a_complaint(tmp_path):
    """As older versions stored it: with a biLM that nothing reads."""
    torch.manual_seed(0)
    ElmoForPreTraining(ElmoConfig(**SIZES)).save_pretrained(tmp_path / "bilm")
    tagger(elmo_places="input", word_vector_size=5).save_pretrained(tmp_path / "head")
    for folder in ("bilm", "head"):
        model, info = ElmoForTokenClassification.from_pretrained(
            tmp_path / folder, elmo_places="none", word_vector_size=5, num_labels=3, output_loading_info=True,
            ignore_mismatched_sizes=True,
        )  # fmt: skip
        assert not any(name.startswith("elmo.") for name in model.state_dict())
        assert not [name for name in info["unexpected_keys"] if "mixer" not in name]


def test_a_head_without_elmo_says_so_where_its_bilm_is_asked_for():
    model = without_elmo(ElmoForTokenClassification)
    for use in (model.cache_layers, model.cache_words):
        with pytest.raises(ValueError, match="without ELMo"):
            use()
    model.quantize()
    model.pack_weights(False)


def test_the_layers_of_a_head_are_normalised_per_word_if_asked_and_by_the_batch_if_the_model_is():
    assert classifier().input_mixer.layer_norm is False
    assert classifier(elmo_layer_norm=True).input_mixer.layer_norm == "word"
    assert classifier(elmo_layer_norm=True, mixer_layer_norm=True).input_mixer.layer_norm is True
