"""A model of any class is loaded on a device, in a precision."""

import pytest
import torch

from elmo_hf import ElmoForPreTraining, ElmoModel
from elmo_hf.errors import ModelError
from elmo_hf.runtime.model_loading import find_device, load_model
from tests.models import tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "elmo"
    tiny_model().save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("model_class", [ElmoModel, ElmoForPreTraining])
def test_every_class_is_loaded_in_every_precision(folder, model_class):
    for precision, dtype in ((None, torch.float32), ("fp32", torch.float32), ("bf16", torch.bfloat16)):
        model = load_model(model_class, folder, precision=precision)
        assert (model.dtype, model.training) == (dtype, False)
        assert not model.base_model.layers[0].is_quantized
    assert load_model(model_class, folder, precision="int8").base_model.layers[0].is_quantized


def test_what_cannot_be_loaded_is_one_line(tmp_path):
    with pytest.raises(ModelError, match="cannot be loaded") as error:
        load_model(ElmoModel, str(tmp_path / "nothing"))
    assert "\n" not in str(error.value)


def test_the_default_device_is_the_cpu():
    assert find_device(None) == find_device("cpu") == torch.device("cpu")
