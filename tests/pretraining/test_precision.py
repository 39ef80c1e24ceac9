"""bf16 is chosen where it pays, and a machine that cannot do it is not brought down by the question."""

import signal
import subprocess
import sys

import pytest
import torch

from elmo_hf.pretraining import precision
from elmo_hf.pretraining.precision import PROBE, choose_precision


@pytest.fixture
def probe(monkeypatch):
    """Makes the probe end with a code; the commands that were run are returned."""
    commands = []
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)

    def ends_with(code: int) -> list[list[str]]:
        def run(command, **options):
            assert options.get("capture_output")  # what a dying process says is not the user's business
            commands.append(command)
            return subprocess.CompletedProcess(command, code)

        monkeypatch.setattr(subprocess, "run", run)
        return commands

    return ends_with


@pytest.mark.parametrize("wanted", ["no", "bf16"])
@pytest.mark.parametrize("cuda", [True, False])
def test_what_is_asked_for_is_not_questioned(monkeypatch, probe, wanted, cuda):
    commands = probe(1)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: cuda)
    assert choose_precision(wanted) == wanted
    assert not commands


@pytest.mark.parametrize(
    ("code", "chosen"), [(0, "bf16"), (1, "no"), (-signal.SIGILL, "no"), (-signal.SIGKILL, "no"), (2, "no")]
)
def test_on_a_cpu_a_process_of_its_own_tries_bf16(probe, code, chosen):
    commands = probe(code)
    assert choose_precision("auto") == chosen
    assert commands == [[sys.executable, "-c", PROBE]]


@pytest.mark.parametrize(("supported", "chosen"), [(True, "bf16"), (False, "no")])
def test_a_gpu_is_asked_and_not_tried(monkeypatch, probe, supported, chosen):
    commands = probe(0)
    for module in (torch.accelerator, torch.cuda):
        monkeypatch.setattr(module, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: supported)
    assert choose_precision("auto") == chosen
    assert not commands


def test_an_accelerator_other_than_cuda_trains_in_fp32_unless_asked(monkeypatch, probe):
    commands = probe(0)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    assert choose_precision("auto") == "no"
    assert not commands


@pytest.mark.parametrize(("seconds_of_bf16", "code"), [(1.0, 0), (5.0, 0), (7.0, 1), (20.0, 1)])
def test_the_trial_asks_for_products_clearly_faster_than_fp32(monkeypatch, seconds_of_bf16, code):
    """Against 10 seconds of fp32. No product is made, since this process could end with it."""
    clock = iter([0.0, seconds_of_bf16, 0.0, 10.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda left, right: left)
    with pytest.raises(SystemExit) as caught:
        exec(PROBE, {})
    assert caught.value.code == code


@pytest.mark.parametrize("fast", [True, False])
def test_who_asks_for_bf16_is_told_where_it_is_slow(monkeypatch, fast):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(precision, "bf16_is_fast", lambda: fast)
    warnings = []
    monkeypatch.setattr(precision.logger, "warning", warnings.append)
    assert choose_precision("bf16") == "bf16"
    assert choose_precision("no") == "no"
    assert len(warnings) == (0 if fast else 1)
