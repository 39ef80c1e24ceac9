"""A conversion's model folder, and the arrays that fill it."""

import pytest
import torch

from elmo_hf import ElmoTokenizer
from elmo_hf.conversion.arrays import fill_views
from elmo_hf.conversion.folder import ConversionError, load_tokenizer, save_folder
from tests.models import tiny_model

# ---- save_folder, load_tokenizer


def test_a_weight_too_large_for_half_precision_is_refused(tmp_path):
    model = tiny_model()
    model.layers[1].bias.data[0, 3] = 1e5
    with pytest.raises(ConversionError, match=r"layers\.1\.bias holds values too large for float16"):
        save_folder(model, ElmoTokenizer(), tmp_path, "float16")


def test_an_unknown_dtype_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`dtype` must be one of .*, found 'int8'"):
        save_folder(tiny_model(), ElmoTokenizer(), tmp_path, "int8")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (None, "No such file"),
        (b"", "lacks <S>, </S>, <UNK>"),
        (b"the\nof\n", "lacks <S>, </S>, <UNK>"),
        (b"<S>\n</S>\n<UNK>\nthe\nthe\n", "holds 'the' twice"),
        (b"<S>\n</S>\n<UNK>\n\xff\n", "not UTF-8"),
        (b"<S>\n</S>\n<UNK>\nthe\n", "options say 5 words, the vocabulary .* has 4"),
    ],
)
def test_a_bad_vocabulary_is_refused_by_name(tmp_path, content, match):
    vocab = tmp_path / "vocab.txt"
    if content is not None:
        vocab.write_bytes(content)
    with pytest.raises(ConversionError, match=match) as refusal:
        load_tokenizer(vocab, slots=50, words=5)
    assert str(vocab) in str(refusal.value)


# ---- fill_views


def test_an_array_is_laid_out_over_the_views_that_it_holds():
    upper, lower = torch.zeros(2, 3), torch.zeros(3, 1)
    values = torch.arange(9.0, dtype=torch.float64).reshape(3, 3)
    fill_views({"both": [upper, lower.t()]}, {"both": values}, "file")
    assert torch.equal(torch.cat([upper, lower.t()]), values.float())


@pytest.mark.parametrize(
    ("array", "match"),
    [
        (torch.zeros(3, 2), r"file: array should have shape \(2, 2\), found \(3, 2\)"),
        (torch.zeros(2, 2, dtype=torch.int64), "should hold plain floats, found torch.int64"),
        (torch.eye(2).to_sparse(), "torch.sparse_coo"),
        (torch.full((2, 2), torch.nan), "should hold finite numbers"),
        (torch.full((2, 2), 1e300, dtype=torch.float64), "should hold finite numbers"),
    ],
    ids=str,
)
def test_what_is_no_array_of_finite_floats_is_refused(array, match):
    with pytest.raises(ConversionError, match=match):
        fill_views({"array": [torch.zeros(2, 2)]}, {"array": array}, "file")
