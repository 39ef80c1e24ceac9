"""The limit of inference: which products a batch needs. `tests/modeling/test_work.py`: the model does just these."""

import torch

from benchmarks.limit import Product, Shape, Weight, products_of
from benchmarks.texts import character_ids
from elmo_hf import ElmoConfig
from tests.models import TINY

SENTENCES = [["the", "old", "mill"], ["the", "mill"], ["a", "very", "long", "sentence", "about", "the", "mill"]]


def test_products_of_a_batch():
    config = ElmoConfig(**(TINY | {"num_hidden_layers": 1, "char_filters": [[1, 2], [2, 3]]}))
    char_ids = character_ids([["a", "bc"], ["a"]], boundaries=True)
    # <S> a bc </S> and <S> a </S>: four distinct words; of "bc" the marks and two letters, then the widest filter.
    distinct, slots = 4, 4 + 2
    filters = [
        Product("filters of 1", Shape(distinct * slots, 1 * 3, 2, 1)),
        Product("filters of 2", Shape(distinct * (slots - 1), 2 * 3, 3, 1)),
    ]
    rest = [
        Product("highway 0, carry", Shape(distinct, 5, 5, 1)),
        Product("highway 0, transform", Shape(distinct, 5, 5, 1)),
        Product("token projection", Shape(distinct, 5, 4, 1)),
        Product("layer 0, inputs", Shape(7, 4, 28, 2)),
        *(
            product
            for rows in (2, 2, 2, 1)
            for product in (
                Product("layer 0, recurrence", Shape(rows, 4, 28, 2)),
                Product("layer 0, projection", Shape(rows, 7, 4, 2)),
            )
        ),
    ]
    assert products_of(config, char_ids) == products_of(config, char_ids, packs=False) == [*filters, *rest]


def test_kernels_compute_the_same():
    weight = Weight(Shape(200, 8, 16, 2))
    inputs = torch.randn(2, 200, 8)
    expected = inputs @ weight.batched
    for name, kernel in weight.kernels.items():
        output = torch.stack(list(kernel(inputs)))
        torch.testing.assert_close(output, expected[:, -output.shape[1] :], msg=name)
