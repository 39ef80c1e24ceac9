"""Weights in int8: products, the model and what is saved of it."""

import copy
import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, Trainer, TrainingArguments

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoInt8Config,
    ElmoModel,
    ElmoTokenizer,
    default_model,
)
from elmo_hf.conversion.allennlp import allennlp_views
from elmo_hf.conversion.bilm_hdf5 import bilm_views
from elmo_hf.finetuning import read_tagged
from elmo_hf.modeling import quantization_elmo
from elmo_hf.modeling.quantization_elmo import ElmoInt8Weight, Int8Matrix, has_int8_products
from tests.bare_python import BARE, PRELUDE
from tests.conftest import find_data
from tests.models import TINY, configurations, edit_config, random_words, tiny_model

needs_integers = pytest.mark.skipif(
    not has_int8_products(torch.device("cpu")), reason="this processor has no products of integers"
)


@pytest.fixture(params=["integers", "fp32"])
def products(request, monkeypatch):
    """Both ways to multiply: with integers, and where there are no such products."""
    if request.param == "fp32":
        monkeypatch.setenv("ELMO_HF_ENGINE", "plain")
    elif not has_int8_products(torch.device("cpu")):
        pytest.skip("this processor has no products of integers")
    return request.param


@pytest.fixture
def words():
    return random_words(np.random.default_rng(0), rows=3, words=6)


@torch.no_grad()
def vectors_of(model: ElmoModel, char_ids: torch.Tensor) -> torch.Tensor:
    return torch.stack(model(char_ids=char_ids, output_hidden_states=True).hidden_states)


def int8_matrix(generator: torch.Generator, outputs: int, inputs: int, fine: bool = False):
    """A random one; in fp32 its weight before the factors of the columns, `(outputs, inputs)`; these, `(inputs,)`."""
    weight = ElmoInt8Weight(torch.randn(1, outputs, inputs, generator=generator), fine)
    columns = None if weight.columns is None else weight.columns[0]
    matrix = Int8Matrix(weight.values[0], weight.scales[0], columns)
    exact = weight.values[0] * weight.scales[0].unsqueeze(-1)
    return matrix, exact, torch.ones(inputs) if columns is None else columns


# ---- products


sizes = st.integers(1, 40)


@needs_integers
@given(sizes, sizes, sizes, st.booleans(), st.integers(0, 1000))
def test_a_rows_result_does_not_depend_on_the_rows_beside_it(rows, inputs, outputs, fine, seed):
    generator = torch.Generator().manual_seed(seed)
    matrix, *_ = int8_matrix(generator, outputs, inputs, fine)
    some = torch.randn(rows, inputs, generator=generator) * torch.logspace(-3, 3, rows).unsqueeze(1)
    products = matrix(some)
    for place in range(rows):
        assert torch.equal(matrix(some[place : place + 1]), products[place : place + 1])


@needs_integers
@given(sizes, sizes, sizes, st.booleans(), st.integers(0, 1000), st.booleans())
def test_a_product_is_as_exact_as_its_integers(rows, inputs, outputs, fine, seed, biased):
    generator = torch.Generator().manual_seed(seed)
    matrix, weight, columns = int8_matrix(generator, outputs, inputs, fine)
    some = torch.randn(rows, inputs, generator=generator)
    bias = torch.randn(outputs, generator=generator) if biased else None
    exact = (some * columns) @ weight.mT + (0 if bias is None else bias)
    levels = quantization_elmo.activation_levels()
    step = (some * columns).abs().amax(dim=-1, keepdim=True) / levels / (2 * levels if fine else 1)
    # Half a step an input, and fp32's own errors.
    bound = step / 2 * weight.abs().sum(dim=-1) + 1e-5 * (1 + exact.abs())
    assert ((matrix(some, bias) - exact).abs() <= bound).all()
    total = torch.randn(rows, outputs, generator=generator)
    assert ((matrix.add(some, total.clone()) - total - matrix(some)).abs() <= 1e-5 * (1 + exact.abs())).all()


def test_a_fine_weight_is_fine_for_inputs_with_small_weights_too():
    """A hundredth as large as the others', and still with as many digits as those."""
    weight = torch.randn(1, 20, 30, generator=torch.Generator().manual_seed(0))
    weight[..., :10] /= 100
    errors = []
    for fine in (False, True):
        dense = ElmoInt8Weight(weight, fine).dequantize()
        errors.append(((dense - weight)[..., :10].norm() / weight[..., :10].norm()).item())
    assert errors[1] < 0.01 < 0.3 < errors[0]


@pytest.mark.medium
@needs_integers
def test_products_do_not_overflow_where_pairs_are_added_in_16_bits():
    """As on processors without VNNI: oneDNN can be told to be like that."""
    code = """
import torch
from elmo_hf.modeling.quantization_elmo import ElmoInt8Weight, Int8Matrix, activation_levels
assert activation_levels() == 63
weight = ElmoInt8Weight(torch.ones(1, 32, 64))
for rows in (1, 2, 7, 64):
    product = Int8Matrix(weight.values[0], weight.scales[0])(torch.ones(rows, 64))
    assert torch.allclose(product, torch.full((rows, 32), 64.0)), product
"""
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr[-2000:]


@needs_integers
def test_rows_of_zeros_and_weights_of_zeros_give_zeros():
    zeros, ones = (ElmoInt8Weight(weight).matrices()[0] for weight in (torch.zeros(1, 3, 4), torch.ones(1, 3, 4)))
    assert torch.equal(zeros(torch.randn(2, 4)), torch.zeros(2, 3))
    assert torch.equal(ones(torch.zeros(2, 4)), torch.zeros(2, 3))


@needs_integers
def test_what_is_no_number_stays_none():
    rows = torch.ones(2, 4)
    rows[0, 1] = float("nan")
    products = ElmoInt8Weight(torch.ones(1, 3, 4)).matrices()[0](rows)
    assert products[0].isnan().all()
    assert products[1].isfinite().all()


def test_weights_that_are_not_finite_are_refused():
    model = tiny_model()
    model.layers[0].input_weight.data[0, 0, 0] = float("inf")
    with pytest.raises(ValueError, match="not finite"):
        model.quantize()


# ---- the model


@pytest.mark.medium
@given(configurations)
def test_every_kind_of_model_stays_close_to_itself(fields):
    model = tiny_model(**fields)
    slots = model.config.max_characters_per_token
    inputs = {}
    if model.config.uses_characters:
        inputs["char_ids"] = random_words(np.random.default_rng(0), 2, 5, slots)
    if model.config.uses_words:
        inputs["input_ids"] = torch.randint(1, 20, (2, 5), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        exact = model(**inputs, output_hidden_states=True).hidden_states
        layers = model.quantize()(**inputs, output_hidden_states=True).hidden_states
    for layer, quantized in zip(exact, layers, strict=True):
        assert torch.nn.functional.mse_loss(quantized, layer) <= 1e-3 * layer.square().mean() + 1e-6


@pytest.mark.medium
def test_every_layer_of_the_shipped_model_is_the_same_to_three_digits(products):
    tokenizer, model = ElmoTokenizer.from_pretrained(default_model()), ElmoModel.from_pretrained(default_model())
    text = read_tagged(str(find_data("corpora", "ud-english-ewt", "en_ewt-ud-test.conllu")))[:48]
    sentences = [sentence.words for sentence in text]
    batch = tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    mask = batch["attention_mask"].bool()
    with torch.no_grad():
        exact = model(**batch, output_hidden_states=True).hidden_states
        layers = model.quantize()(**batch, output_hidden_states=True).hidden_states
    for layer, quantized in zip(exact, layers, strict=True):
        assert torch.cosine_similarity(layer[mask].float(), quantized[mask].float(), dim=-1).min() > 0.999


def test_quantising_twice_is_quantising_once(words):
    model = tiny_model().quantize()
    once = vectors_of(model, words)
    assert torch.equal(vectors_of(model.quantize(), words), once)


def test_words_cached_before_are_not_taken_for_int8_ones(words):
    model = tiny_model()
    model.cache_words()
    vectors_of(model, words)
    assert torch.equal(vectors_of(model.quantize(), words), vectors_of(tiny_model().quantize(), words))


def test_states_directions_and_resets_go_through_an_int8_model(words):
    model = tiny_model().quantize()
    whole = model(char_ids=words, output_states=True, directions="forward")
    first = model(char_ids=words[:, :3], output_states=True, directions="forward")
    second = model(char_ids=words[:, 3:], initial_state=first.states, output_states=True, directions="forward")
    assert torch.allclose(second.states.hidden, whole.states.hidden, atol=1e-2)
    bilm = ElmoForPreTraining(ElmoConfig(**TINY)).eval().quantize()
    resets = torch.zeros(words.shape[:2], dtype=torch.long)
    resets[:, 3] = 1
    output = bilm(char_ids=words, backward_char_ids=words, state_resets=resets)
    single = bilm(char_ids=words[:, 3:], backward_char_ids=words[:, 3:])
    assert torch.allclose(output.last_hidden_state[:, 3:], single.last_hidden_state, atol=1e-2)


def test_weights_are_held_once_and_a_quarter_as_large():
    model = ElmoModel(ElmoConfig(**(TINY | {"cell_size": 512, "projection_size": 64}))).eval()
    large = model.get_memory_footprint()
    model.quantize()(char_ids=random_words(np.random.default_rng(0), 1, 2))
    weights = [module for module in model.modules() if isinstance(module, ElmoInt8Weight)]
    assert model.get_memory_footprint() < 0.3 * large
    if has_int8_products(torch.device("cpu")):
        assert all(weight.values.is_meta for weight in weights)


def test_eight_threads_get_the_same_vectors(words):
    model = tiny_model().quantize()
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(lambda _: vectors_of(model, words), range(16)))
    assert all(torch.equal(one, vectors[0]) for one in vectors)


def test_a_packed_model_does_not_wait_for_another_one_to_pack(words):
    model = tiny_model().quantize()
    expected = vectors_of(model, words)
    with quantization_elmo._packing, ThreadPoolExecutor(1) as pool:
        assert torch.equal(pool.submit(vectors_of, model, words).result(timeout=60), expected)


# ---- copied, moved, saved


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), lambda model: model.to("cpu")],
    ids=["deepcopy", "pickle", "to"],
)
def test_a_copy_gives_the_same_vectors(copied, words):
    model = tiny_model().quantize()
    before = vectors_of(model, words)  # it is packed now
    assert torch.equal(vectors_of(copied(model), words), before)
    assert torch.equal(vectors_of(model, words), before)


def test_scales_stay_exact_in_a_model_of_lower_precision(words):
    model = tiny_model().quantize().to(torch.bfloat16)
    assert model.layers[0].input_weight.scales.dtype == torch.float32
    assert vectors_of(model, words).dtype == torch.bfloat16


def test_a_state_dict_goes_into_another_int8_model(words):
    first, second = tiny_model(0).quantize(), tiny_model(1).quantize()
    wanted = vectors_of(first, words)
    vectors_of(second, words)
    second.load_state_dict(first.state_dict())
    assert torch.equal(vectors_of(second, words), wanted)


def test_a_saved_model_comes_back_in_int8_with_the_same_vectors(words, tmp_path):
    model = tiny_model().quantize()
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["quantization_config"] == {"quant_method": "elmo_int8"}
    saved = load_file(tmp_path / "model.safetensors")
    assert saved["layers.0.input_weight.values"].dtype == torch.int8
    assert saved["layers.0.input_weight.scales"].dtype == torch.float32
    for loaded in (ElmoModel.from_pretrained(tmp_path), AutoModel.from_pretrained(tmp_path)):
        assert torch.equal(vectors_of(loaded, words), vectors_of(model, words))
    loaded.save_pretrained(tmp_path / "again")
    assert torch.equal(vectors_of(ElmoModel.from_pretrained(tmp_path / "again"), words), vectors_of(model, words))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_loading_with_a_config_is_loading_and_quantising(dtype, words, tmp_path):
    tiny_model().save_pretrained(tmp_path)
    loaded = ElmoModel.from_pretrained(tmp_path, dtype=dtype, quantization_config=ElmoInt8Config())
    quantized = ElmoModel.from_pretrained(tmp_path, dtype=dtype).quantize()
    assert loaded.is_quantized
    assert torch.equal(vectors_of(loaded, words), vectors_of(quantized, words))


@pytest.mark.parametrize("head", [ElmoForTokenClassification, ElmoForSequenceClassification, ElmoForPreTraining])
def test_a_head_is_quantised_saved_and_loaded(head, words, tmp_path):
    torch.manual_seed(0)
    model = head(ElmoConfig(**(TINY | {"task_layer_size": 4}))).eval().quantize()
    model.save_pretrained(tmp_path)
    loaded = head.from_pretrained(tmp_path)
    assert torch.equal(vectors_of(loaded.elmo, words), vectors_of(model.elmo, words))
    assert isinstance(ElmoModel.from_pretrained(tmp_path).layers[0].input_weight, ElmoInt8Weight)


def test_a_head_is_put_on_an_int8_folder(words, tmp_path):
    model = tiny_model().quantize()
    model.save_pretrained(tmp_path)
    head = ElmoForTokenClassification.from_pretrained(tmp_path, num_labels=3)
    assert torch.equal(vectors_of(head.elmo, words), vectors_of(model, words))
    assert isinstance(head.classifier.weight, nn.Parameter)


@pytest.mark.medium
def test_an_int8_folder_works_where_the_package_is_not_installed_and_beside_it(words, tmp_path):
    model = tiny_model().quantize()
    model.save_pretrained(tmp_path / "model")
    np.save(tmp_path / "words.npy", words.numpy())
    load = f"""
import numpy, torch
from transformers import AutoModel
model = AutoModel.from_pretrained({str(tmp_path / "model")!r}, trust_remote_code=True).eval()
assert "transformers_modules" in type(model).__module__ and model.is_quantized
with torch.no_grad():
    output = model(char_ids=torch.from_numpy(numpy.load({str(tmp_path / "words.npy")!r}))).last_hidden_state
numpy.save({str(tmp_path / "vectors.npy")!r}, output.numpy())
"""
    run = subprocess.run([*BARE, PRELUDE + load], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-2000:]
    with torch.no_grad():
        assert np.array_equal(np.load(tmp_path / "vectors.npy"), model(char_ids=words).last_hidden_state.numpy())
    copied = AutoModel.from_pretrained(tmp_path / "model", trust_remote_code=True)  # two copies of the code
    assert torch.equal(vectors_of(copied, words), vectors_of(model, words))


# ---- what is refused


def test_an_int8_bilm_does_not_train_and_says_so(words):
    model = tiny_model().quantize()
    with pytest.raises(ValueError, match="cannot be trained"):
        model.eval()(inputs_embeds=torch.randn(1, 2, 4, requires_grad=True))
    with pytest.raises(ValueError, match="cannot be trained"):
        model.unfreeze_bilm()
    assert model.bilm_is_frozen
    model.train()(char_ids=words).last_hidden_state.sum().backward()
    assert model.mixer.gamma.grad is not None
    language_model = ElmoForPreTraining(ElmoConfig(**TINY)).quantize().train()
    with pytest.raises(ValueError, match="cannot be trained"):
        language_model(char_ids=words)


def test_a_head_on_an_int8_bilm_learns_with_the_trainer(words, tmp_path):
    torch.manual_seed(0)
    head = ElmoForTokenClassification(ElmoConfig(**(TINY | {"task_layer_size": 4}))).quantize()
    before, bilm = head.classifier.weight.clone(), head.elmo.state_dict()
    examples = [{"char_ids": row, "labels": torch.zeros(6, dtype=torch.long)} for row in words]
    arguments = TrainingArguments(str(tmp_path), max_steps=1, report_to=[], save_strategy="no", use_cpu=True)
    Trainer(head, arguments, train_dataset=examples).train()
    assert not torch.equal(head.classifier.weight, before)
    assert all(torch.equal(tensor, bilm[name]) for name, tensor in head.elmo.state_dict().items())


def saved(tmp_path):
    tiny_model().quantize().save_pretrained(tmp_path)
    return load_file(tmp_path / "model.safetensors")


def test_int8_weights_of_other_shapes_than_the_config_says_are_refused(tmp_path):
    saved(tmp_path)
    edit_config(tmp_path, cell_size=8)
    for fine in (False, True):  # transformers would take any shape into a quantised model
        with pytest.raises(ValueError, match="other shapes than the config says"):
            ElmoModel.from_pretrained(tmp_path, ignore_mismatched_sizes=fine)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_weights_that_are_not_int8_are_refused(dtype, tmp_path):
    if dtype == torch.float32 and Version(transformers.__version__) < Version("5.22"):
        pytest.skip("older versions of transformers convert floats to int8 before the check")
    tensors = saved(tmp_path)
    tensors["layers.0.input_weight.values"] = tensors["layers.0.input_weight.values"].to(dtype)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"layers\.0\.input_weight\.values should be"):
        ElmoModel.from_pretrained(tmp_path)


def test_a_file_without_the_int8_weights_of_its_config_is_refused(tmp_path):
    tensors = saved(tmp_path)
    del tensors["layers.1.recurrent_weight.values"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="says that the weights are int8, but the file lacks some"):
        ElmoModel.from_pretrained(tmp_path)
    tiny_model().save_pretrained(tmp_path)  # fp32
    edit_config(tmp_path, quantization_config={"quant_method": "elmo_int8"})
    with pytest.raises(ValueError, match="says that the weights are int8, but the file lacks some"):
        ElmoModel.from_pretrained(tmp_path)


def test_options_that_there_are_not_are_refused():
    with pytest.raises(ValueError, match="no options"):
        ElmoInt8Config(bits=4)


@pytest.mark.parametrize("views", [bilm_views, allennlp_views])
def test_int8_weights_are_not_converted_to_a_format_that_has_none(views):
    with pytest.raises(ValueError, match="int8"):
        views(tiny_model().quantize())
