"""The model as something to train, store, move and load, as any other model of transformers."""

import copy
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from accelerate import cpu_offload
from safetensors.torch import load_file, save_file
from torch.testing import assert_close
from transformers import AutoModel
from transformers.utils import logging

from elmo_hf import ElmoConfig, ElmoModel
from tests.models import TINY, random_words, reference_of, tiny_model

CHAR_IDS = random_words(np.random.default_rng(0), 2, 5)


def gradients(model, **inputs):
    model.zero_grad()
    output = model(char_ids=CHAR_IDS, output_hidden_states=True, **inputs)
    (output.last_hidden_state.square().sum() + output.hidden_states[1].sin().sum()).backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def test_every_parameter_learns():
    for name, gradient in gradients(tiny_model().train()).items():
        assert gradient.abs().sum() > 0, name


@pytest.mark.usefixtures("training_engine")
def test_gradients_equal_finite_differences_of_the_reference():
    """One number of each parameter, nudged in the reference's float64 arrays."""
    model = tiny_model()
    model.zero_grad()
    model(char_ids=CHAR_IDS).last_hidden_state.square().sum().backward()

    def loss(reference):
        rows = [[reference.token_vector(word) for word in row.numpy()] for row in CHAR_IDS]
        return sum(np.square(reference.sentence(row)[0].mean(axis=0)).sum() for row in rows)

    moved = copy.deepcopy(model).double()
    for name, parameter in model.named_parameters():
        if name.startswith("mixer"):
            continue
        place = int(parameter.grad.abs().argmax())
        losses = []
        for step in (1e-6, -1e-6):
            moved.load_state_dict(model.state_dict())
            dict(moved.named_parameters())[name].data.view(-1)[place] += step
            losses.append(loss(reference_of(moved)))
        slope = (losses[0] - losses[1]) / 2e-6
        assert parameter.grad.view(-1)[place].item() == pytest.approx(slope, rel=1e-4, abs=1e-5), name


@pytest.mark.usefixtures("training_engine")
@pytest.mark.parametrize("lengths", [[5, 5], [5, 2], [0, 3]])
@pytest.mark.parametrize("add_mixer", [True, False])
def test_hidden_states_retain_their_gradients(lengths, add_mixer):
    model = ElmoModel(tiny_model(token_projection=True).config, add_mixer=add_mixer).double().train()
    mask = torch.arange(5) < torch.tensor(lengths).unsqueeze(1)
    tokens = torch.randn(2, 5, model.config.output_size, dtype=torch.float64, requires_grad=True)

    def loss_of(output):
        return output.last_hidden_state.square().sum()

    parameters = [tokens, *model.layers.parameters()]
    plain = model(inputs_embeds=tokens, attention_mask=mask)
    expected = torch.autograd.grad(loss_of(plain), parameters)

    output = model(inputs_embeds=tokens, attention_mask=mask, output_hidden_states=True)
    assert_close(output.last_hidden_state, plain.last_hidden_state, rtol=0, atol=0)
    for hidden in output.hidden_states:
        hidden.retain_grad()
    loss_of(output).backward()
    assert_close([parameter.grad for parameter in parameters], list(expected))
    for hidden in output.hidden_states:
        assert hidden.grad is not None
        assert (hidden.grad[mask] != 0).all()
    assert_close(output.hidden_states[0].grad.unflatten(-1, (2, -1)).sum(dim=2), expected[0])  # once a direction
    if not add_mixer:
        assert_close(output.hidden_states[-1].grad, 2 * output.last_hidden_state)


@pytest.mark.usefixtures("training_engine")
def test_gradient_checkpointing_gives_the_same_gradients():
    plain = gradients(tiny_model().train())
    model = tiny_model().train()
    model.gradient_checkpointing_enable()
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, plain[name], msg=name)


def test_a_frozen_bilm_leaves_only_the_mixer_to_learn():
    model = tiny_model()
    model.freeze_bilm()
    assert {name for name, p in model.named_parameters() if p.requires_grad} == {"mixer.weights", "mixer.gamma"}
    model(char_ids=CHAR_IDS).last_hidden_state.sum().backward()
    model.unfreeze_bilm()
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_frozen_bilm_has_no_dropout_in_training():
    model = tiny_model(dropout=0.5, mixer_dropout=0.5).train()
    model.freeze_bilm()
    for mode in (True, False, True):
        model.train(mode)
        assert model.mixer.training == mode
        assert not any(module.training for module in [*model.layers.modules(), *model.token_encoder.modules()])
    model.unfreeze_bilm()
    assert model.layers[1].dropout.training


def test_offloaded_weights_give_the_same_vectors():
    model = tiny_model()
    expected = model(char_ids=CHAR_IDS).last_hidden_state
    torch.testing.assert_close(cpu_offload(tiny_model())(char_ids=CHAR_IDS).last_hidden_state, expected)


def test_a_replica_of_data_parallelism_runs():
    """Its parameters are plain attributes, so that `parameters()` is empty."""
    model = tiny_model()
    replica = model._replicate_for_data_parallel()
    for name, module in model.named_children():
        replica._modules[name] = module
    assert next(replica.parameters(recurse=False), None) is None
    torch.testing.assert_close(replica(char_ids=CHAR_IDS).last_hidden_state, model(char_ids=CHAR_IDS).last_hidden_state)


def test_only_a_word_table_can_be_resized():
    words = tiny_model(token_inputs="words")
    words.resize_token_embeddings(30)
    assert words.token_encoder.word_embeddings.num_embeddings == 30
    with pytest.raises(ValueError, match="no table of words"):
        tiny_model().resize_token_embeddings(30)


def test_the_padding_row_of_the_characters_stays_zero_in_training():
    model = tiny_model().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(char_ids=CHAR_IDS).last_hidden_state.sum().backward()
    optimizer.step()
    assert model.token_encoder.characters.char_embeddings.weight[0].abs().sum() == 0


def test_initialisation_is_the_originals():
    model = ElmoModel(ElmoConfig(cell_size=200, projection_size=50, vocab_size=5))
    characters, layer = model.token_encoder.characters, model.layers[0]
    assert characters.char_embeddings.weight[1:].abs().max() <= 1
    assert characters.char_embeddings.weight[1:].std().item() == pytest.approx(1 / 3**0.5, rel=0.1)
    assert characters.char_embeddings.weight[0].abs().sum() == 0
    assert characters.convolutions[6].weight.abs().max() <= 0.05
    assert characters.highways[0].transform.weight.std().item() == pytest.approx(2048**-0.5, rel=0.01)
    assert (characters.highways[1].carry.bias == -2).all()
    assert (characters.highways[1].transform.bias == 0).all()
    assert layer.recurrent_weight.abs().max().item() == pytest.approx((6 / (100 + 800)) ** 0.5, rel=0.01)
    assert (layer.bias == 0).all()


def test_saving_and_loading_keeps_every_bit(tmp_path):
    model = tiny_model()
    model.mixer.weights.data = torch.tensor([0.1, 0.2, 0.3])
    model.save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path)
    assert not loaded.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name
    assert torch.equal(model(char_ids=CHAR_IDS).last_hidden_state, loaded(char_ids=CHAR_IDS).last_hidden_state)


def test_a_checkpoint_without_a_mixer_loads_with_the_uniform_one_and_no_warning(tmp_path, caplog):
    ElmoModel(tiny_model().config, add_mixer=False).save_pretrained(tmp_path)
    logging.enable_propagation()
    with caplog.at_level("WARNING"):
        model, info = ElmoModel.from_pretrained(tmp_path, output_loading_info=True)
    logging.disable_propagation()
    assert not caplog.records
    assert not info["missing_keys"]
    assert model.mixer.layer_weights().tolist() == pytest.approx([1 / 3] * 3)
    assert model.mixer.gamma.item() == 1


def test_a_mixer_that_is_not_wanted_is_left_in_the_file_without_a_warning(tmp_path, caplog):
    tiny_model().save_pretrained(tmp_path)
    logging.enable_propagation()
    with caplog.at_level("WARNING"):
        model = ElmoModel.from_pretrained(tmp_path, add_mixer=False)
    logging.disable_propagation()
    assert not caplog.records
    assert model.mixer is None


def test_missing_and_mismatched_weights_are_reported(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    missing = tensors.pop("layers.1.bias")
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    _, info = ElmoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert info["missing_keys"] == {"layers.1.bias"}
    save_file(tensors | {"layers.1.bias": missing[:, :4].clone()}, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"layers\.1\.bias \(2, 4\), by the config \(2, 28\).*ignore_mismatched_sizes"):
        ElmoModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights_load_and_run_close_to_full_precision(dtype, tmp_path):
    model = tiny_model()
    model.save_pretrained(tmp_path)
    half = AutoModel.from_pretrained(tmp_path, dtype=dtype)
    output = half(char_ids=CHAR_IDS, output_hidden_states=True, output_states=True)
    assert output.last_hidden_state.dtype == output.states.cell.dtype == dtype
    torch.testing.assert_close(
        output.last_hidden_state.float(), model(char_ids=CHAR_IDS).last_hidden_state, rtol=0.1, atol=0.03
    )
    output.last_hidden_state.float().sum().backward()


@pytest.mark.parametrize(
    "device_map",
    [
        "auto",
        {"": "cpu"},
        {"token_encoder": "disk", "layers": "cpu", "mixer": "cpu"},
        {"token_encoder": "cpu", "layers": "disk", "mixer": "cpu"},
    ],
    ids=str,
)
def test_device_maps_give_the_same_vectors(device_map, tmp_path):
    model = tiny_model()
    model.save_pretrained(tmp_path)
    placed = AutoModel.from_pretrained(tmp_path, device_map=device_map, offload_folder=tmp_path / "offload")
    with torch.no_grad():
        torch.testing.assert_close(
            placed(char_ids=CHAR_IDS).last_hidden_state, model(char_ids=CHAR_IDS).last_hidden_state
        )


def test_every_tensor_is_loaded_or_initialised_when_built_on_the_meta_device(tmp_path):
    tiny_model(token_inputs="both").save_pretrained(tmp_path)
    model = AutoModel.from_pretrained(tmp_path)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        assert tensor.device.type == "cpu", name
        assert tensor.isfinite().all(), name


@pytest.mark.medium
def test_products_of_half_precision_on_a_cpu_run_in_full_precision():
    """Where bf16 products are fatal (AMX advertised but unusable), a larger bf16 model still runs."""
    code = """
import torch
from elmo_hf import ElmoConfig, ElmoModel
config = ElmoConfig(cell_size=512, projection_size=128, vocab_size=5)
model = ElmoModel(config).to(torch.bfloat16).eval()
with torch.no_grad():
    print(model(char_ids=torch.randint(1, 262, (8, 20, 50))).last_hidden_state.isfinite().all().item())
"""
    environment = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert run.stdout.strip() == "True", (run.returncode, run.stderr[-500:])


def test_the_saved_config_names_the_classes_for_remote_code(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    auto_map = json.loads((tmp_path / "config.json").read_text())["auto_map"]
    assert auto_map["AutoConfig"] == "configuration_elmo.ElmoConfig"
    assert auto_map["AutoModel"] == "modeling_elmo.ElmoModel"
    assert json.loads((tmp_path / "config.json").read_text())["cell_size"] == TINY["cell_size"]
