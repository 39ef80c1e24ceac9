"""
Inference does no more work than it must: matrix products, character rows and copies of weights are counted, which is
the same on every machine. Whoever makes the model do more sees it here; what the products take is in `benchmarks/`.
"""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from benchmarks.limit import products_of
from benchmarks.texts import character_ids
from elmo_hf import ElmoModel
from elmo_hf.modeling import lstm_elmo
from tests.models import tiny_model
from tests.work import Product, WorkCounter

TEXT = ["the old mill by the old river", "the mill", "what would you have done ?"]
SENTENCES = [line.split() for line in TEXT]
# A kernel may be given some rows more than there are words, up to a multiple of this.
MOST_FILLED = 32


@pytest.fixture(params=["plain", "small", "packed"])
def make_model(request, monkeypatch) -> Callable[..., ElmoModel]:
    """
    Small models with each kind of product: plain ones in fp64, and in fp32 those of small layers, or all direction by
    direction on packed weights.
    """
    if request.param == "packed":
        monkeypatch.setattr(lstm_elmo, "LARGE_MATRIX", 0)
    dtype = torch.float64 if request.param == "plain" else torch.float32
    return lambda **fields: tiny_model(**fields).to(dtype)


def work(model: ElmoModel, char_ids: torch.Tensor, **inputs) -> WorkCounter:
    """Of a call that is not the first."""
    with torch.inference_mode():
        model(char_ids=char_ids, **inputs)
        with WorkCounter(model) as counter:
            model(char_ids=char_ids, **inputs)
    return counter


def ids_of(sentences: list[list[str]]) -> torch.Tensor:
    return torch.from_numpy(character_ids(sentences, boundaries=True))


def needed(model: ElmoModel, char_ids: torch.Tensor) -> list[Product]:
    """What `benchmarks.limit` says, a product a direction."""
    shapes = [shape for _, shape in products_of(model.config, char_ids.numpy(), packs=model.dtype != torch.float64)]
    return [Product(s.inputs, s.outputs, s.rows) for s in shapes for _ in range(s.directions)]


@pytest.mark.parametrize(
    "fields", [{}, {"projection_size": None}, {"directions": "backward"}, {"num_hidden_layers": 3}]
)
def test_products_are_those_that_the_batch_needs(fields, make_model):
    model, char_ids = make_model(**fields), ids_of(SENTENCES)
    done, expected = sorted(work(model, char_ids).products), sorted(needed(model, char_ids))
    assert len(done) == len(expected)
    for product, least in zip(done, expected, strict=True):
        assert product[:2] == least[:2]
        assert least.rows <= product.rows <= -(-least.rows // MOST_FILLED) * MOST_FILLED


def test_flops_of_a_batch():
    """
    In numbers, so that a change of `products_of` does not go unseen: 9 + 4 + 8 words, 13 distinct ones of at
    most 5 letters, which with two marks and the widest filter, 3, are 10 slots.
    """
    model = tiny_model().double()
    characters = 2 * 13 * (10 * 3 * 4 + 9 * 6 * 3 + 8 * 9 * 5 + 2 * 12 * 12 + 12 * 4)
    layers = 2 * 2 * (4 + 9 + 8) * 2 * (4 * 28 + 4 * 28 + 7 * 4)
    assert work(model, ids_of(SENTENCES)).flops == characters + layers


def test_each_distinct_word_is_encoded_once():
    model = tiny_model().double()
    features = model.config.char_feature_size
    once = work(model, ids_of([["mill", "river"]]))
    often = work(model, ids_of([["mill", "river", "mill"], ["river", "river"]]))
    for counter in (once, often):
        rows = {product.rows for product in counter.products if product.inputs == features}
        assert rows == {4}  # with <S> and </S>


@pytest.mark.parametrize("longest", ["a", "harbour", "a" * 60])
def test_characters_are_cut_behind_the_longest_word_and_the_widest_filter(longest):
    model = tiny_model().double()
    config = model.config
    slots = min(len(longest) + 2, config.max_characters_per_token)  # with the marks of begin and end
    slots = min(slots + 3, config.max_characters_per_token)
    counter = work(model, ids_of([["a", longest]]))
    words = len({"a", longest}) + 2
    for product, (width, count) in zip(counter.products, config.char_filters, strict=False):
        assert product == (width * config.char_embedding_size, count, words * (slots - width + 1))


def test_padding_costs_nothing(make_model):
    model, char_ids = make_model(), ids_of(SENTENCES)
    rows, words, slots = char_ids.shape
    padded = char_ids.new_zeros(rows + 2, words + 30, slots)
    padded[1:-1, 10 : 10 + words] = char_ids
    mask = (padded > 0).any(dim=-1)
    assert work(model, padded).products == work(model, char_ids).products
    assert work(model, padded, attention_mask=mask).products == work(model, char_ids).products


def test_products_in_number_grow_with_the_longest_sentence_alone(make_model):
    model = make_model()
    sentences = [["mill"] * length for length in (1, 5, 9)]
    numbers = [len(work(model, ids_of(sentences[: count + 1])).products) for count in range(3)]
    # A step has a recurrent and a projecting product, in two layers and two directions.
    assert [later - earlier for earlier, later in pairwise(numbers)] == [4 * 8, 4 * 8]
    assert len(work(model, ids_of(sentences * 5)).products) == numbers[-1]


def test_weights_are_not_copied(make_model):
    assert work(make_model(), ids_of(SENTENCES)).copies == []


def test_a_copy_would_be_seen():
    model = tiny_model()
    weight = model.layers[0].input_weight
    with torch.inference_mode(), WorkCounter(model) as counter:
        weight.mT.contiguous()
        weight.double()
        weight[:1].float()  # a view
        weight[:1].mT.contiguous()
    assert len(counter.copies) == 3, counter.copies
