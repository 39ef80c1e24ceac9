"""The models on a device that the code does not know: the plain loop, nothing in float64, no list of devices."""

import ast
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.modeling.test_offloading import MODELS

# In a process of its own, since the device is registered for the whole process.
ON_FAKE_DEVICE = """
import copy, os, sys
import torch
from torch.testing import assert_close
from tests.fake_device import FakeDeviceTensor, fake_device, to_device
from elmo_hf.modeling import lstm_elmo
from tests.modeling.test_offloading import MODELS, batch_for, new_model

def refuse(*_):
    raise AssertionError("not an engine for this device")

names, trains = sys.argv[1].split(","), sys.argv[2] == "True"
close = dict(atol=1e-5, rtol=1e-5)
for name in names:
    fields = {"num_task_layers": 0} if trains else {}  # the gradient of `nn.LSTM` is PyTorch's own, by one kernel
    model, batch = new_model(name, freeze_bilm=False, **fields), batch_for(name)
    moved = to_device(copy.deepcopy(model))
    if trains:
        model.train(), moved.train()
        for module in [*model.modules(), *moved.modules()]:
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
    with torch.set_grad_enabled(trains):
        expected = model(**batch)
    lstm_cpu, lstm_elmo.lstm_cpu = lstm_elmo.lstm_cpu, refuse
    with fake_device(), torch.set_grad_enabled(trains):
        output = moved(**{key: to_device(value) for key, value in batch.items()})
        assert all(isinstance(value, FakeDeviceTensor) for value in output.values() if isinstance(value, torch.Tensor))
        found = {key: value.cpu() for key, value in output.items() if isinstance(value, torch.Tensor)}
        if trains:
            output.loss.backward()
            gradients = {key: weight.grad.cpu() for key, weight in moved.named_parameters() if weight.grad is not None}
    lstm_elmo.lstm_cpu = lstm_cpu
    assert_close(found, {key: value.detach() for key, value in expected.items() if key in found}, **close)
    if trains:
        expected.loss.backward()
        wanted = {key: weight.grad for key, weight in model.named_parameters() if weight.grad is not None}
        assert gradients.keys() == wanted.keys() and len(wanted) > 10
        assert_close(gradients, wanted, **close)
    print(name)
sys.stdout.flush()
os._exit(0)  # autograd's thread for the other device is not joined at the end of the interpreter, which can abort
"""


def run(program: str, *arguments: str) -> str:
    environment = os.environ | {"ELMO_HF_ENGINE": "plain"}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.medium
@pytest.mark.parametrize(
    ("names", "trains"),
    [
        (list(MODELS), False),
        (["crf", "roles", "coreference", "pretraining", "adaptive"], True),
    ],
    ids=["inference", "training"],
)
def test_all_models_run_on_another_device_with_the_values_of_the_cpu(names, trains):
    assert run(ON_FAKE_DEVICE, ",".join(names), str(trains)).split() == names


@pytest.mark.medium
def test_the_fake_device_refuses_float64_and_tensors_of_the_cpu():
    program = """
import torch
from tests.fake_device import DEVICE, fake_device
refused = 0
with fake_device():
    tensor = torch.ones(2, device=DEVICE)
    for wrong in (lambda: tensor.double(), lambda: tensor + torch.ones(2), lambda: tensor @ torch.ones(2)):
        try:
            wrong()
        except (TypeError, RuntimeError):
            refused += 1
    assert (tensor + torch.ones(()) + 1).cpu().tolist() == [3.0, 3.0]
print(refused)
"""
    assert run(program) == "3\n"


@pytest.mark.parametrize("path", sorted((ROOT / "elmo_hf" / "modeling").glob("*.py")), ids=lambda path: path.name)
def test_what_travels_names_no_device_but_the_cpu_and_meta(path):
    names = {node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)}
    assert not names & {"cuda", "mps", "xpu", "npu", "hpu", "xla"}
