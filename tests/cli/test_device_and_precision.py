"""`--device` and `--precision` of every command that runs a model: what they say is what runs."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from elmo_hf import ElmoForPreTraining, ElmoForTokenClassification, ElmoTokenizer
from elmo_hf.modeling.quantization_elmo import ElmoInt8Weight
from elmo_hf.modeling.token_encoder_elmo import ElmoTokenEncoder
from elmo_hf.space import page
from tests.language_model.models import VOCABULARY, tiny_language_model

TEXT = "the cat sat .\n\na dog on the mat\n"
MARKED = "the **cat** sat"
EVERY = str(len(VOCABULARY))  # so that a rounded score drops no word from the list
COMMANDS = {
    "embed": ["embed", "{model}", "{text}", "--out", "{out}.npy", "--pooling", "mean"],
    "index": ["index", "{text}", "--model", "{model}", "--out", "{out}", "--dtype", "float32", "--exact"],
    "neighbors": ["neighbors", "{index}", MARKED, "--distinct", "-k", EVERY],
    "score": ["score", "{model}", "{text}"],
    "next": ["next", "the cat", "--model", "{model}", "-k", EVERY],
    "previous": ["previous", "the cat", "--model", "{model}", "-k", EVERY],
    "substitutes": ["substitutes", MARKED, "--model", "{model}", "-k", EVERY],
    "similar": ["similar", "cat", "--model", "{model}", "--vectors", "encoder", "-k", EVERY],
    "perplexity": ["perplexity", "{model}", "{text}"],
    "predict": ["predict", "{head}", "{text}"],
    "space": ["space", "{model}", "--port", "0", "--no-browser"],
}
NAMES = [pytest.param(name, marks=pytest.mark.medium) if name == "space" else name for name in COMMANDS]
WITHOUT_NUMBERS = ("predict", "space")  # what they print is no measurement
# What the token encoder's weights are in each precision.
WEIGHTS = {None: torch.float32, "fp32": torch.float32, "bf16": torch.bfloat16, "int8": "int8"}
COSINES = ("neighbors", "similar")  # they print three digits, which may be the same in all precisions
NUMBER = re.compile(r"-?\d+\.\d+")


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> dict[str, Path]:
    """A language model, a tagger on it, and a text."""
    folder = tmp_path_factory.mktemp("models")
    lm = tiny_language_model(cell_size=64, projection_size=32, char_filters=[[1, 16], [2, 16], [3, 32]])
    with torch.no_grad():
        for parameter in lm.model.elmo.layers.parameters():
            parameter.mul_(0.3)  # as in trained models, rounding is not amplified from word to word
    lm.model.float().save_pretrained(folder / "model")
    torch.manual_seed(0)
    head = ElmoForTokenClassification.from_pretrained(folder / "model", num_labels=3, task_layer_size=3)
    head.save_pretrained(folder / "head")
    for name in ("model", "head"):
        lm.tokenizer.save_pretrained(folder / name)
    (folder / "text.txt").write_text(TEXT, "utf-8")
    return {name: folder / name for name in ("model", "head", "index")} | {"text": folder / "text.txt"}


@pytest.fixture(autouse=True)
def no_page(monkeypatch):
    """`elmo-hf space` loads its models, and ends without a page."""

    class Page:
        local_url = "http://127.0.0.1:7860/"

        def launch(self, **_):
            """Opens nothing."""

        def block_thread(self):
            """Ends at once."""

    monkeypatch.setattr(page, "build_page", lambda models: Page())


@pytest.fixture
def ran(monkeypatch) -> Counter:
    """Counts the kinds of weights of the token encoders that ran, and the devices that models were moved to."""
    seen: Counter = Counter()

    def look(module, inputs):
        if isinstance(module, ElmoTokenEncoder):
            weight = module.projection.weight
            seen["int8" if isinstance(weight, ElmoInt8Weight) else weight.dtype] += 1

    def to(self, *arguments, **options):
        seen[str(options.get("device", arguments[0] if arguments else None))] += 1
        return move(self, *arguments, **options)

    move = PreTrainedModel.to
    monkeypatch.setattr(PreTrainedModel, "to", to)
    hook = torch.nn.modules.module.register_module_forward_pre_hook(look)
    yield seen
    hook.remove()


@pytest.fixture
def values(run, places, tmp_path) -> Callable[..., dict[str, np.ndarray]]:
    """Runs a command with options, and gives the numbers of its answer, by word where it lists words."""
    if not places["index"].exists():
        assert run("index", places["text"], "--model", places["model"], "--out", places["index"], "--exact")[0] == 0

    def values(name: str, *options: str) -> dict[str, np.ndarray]:
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        code, output, error = run(*(part.format(**places, out=out) for part in COMMANDS[name]), *options)
        assert code == 0, error
        if name == "embed":
            return {"": np.load(f"{out}.npy")}
        if name == "index":
            return {"": np.load(out / "vectors.npy")}
        if name == "space":
            return {}
        lines = [line for line in output.splitlines() if NUMBER.search(line)]
        if name in ("score", "perplexity"):
            return {str(row): np.array(NUMBER.findall(line), dtype=float) for row, line in enumerate(lines)}
        return {NUMBER.sub("", line).strip(): np.array(NUMBER.findall(line), dtype=float) for line in lines}

    return values


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("name", NAMES)
def test_the_model_runs_in_the_precision_that_is_asked_for(values, ran, name, precision):
    expected = values(name)
    ran.clear()
    actual = values(name, "--precision", precision)
    assert {kind for kind in ran if not isinstance(kind, str) or kind == "int8"} == {WEIGHTS[precision]}
    if name in WITHOUT_NUMBERS:
        return
    assert actual.keys() == expected.keys()
    differences = [np.abs(actual[key] - expected[key]).max(initial=0) for key in expected]
    scale = max(np.abs(value).max(initial=0) for value in expected.values())
    assert max(differences) <= (0 if precision == "fp32" else 0.1 * scale)
    if precision != "fp32" and name not in COSINES:
        assert max(differences) > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_model_runs_on_the_device_that_is_asked_for(values, ran, name):
    expected = values(name)
    assert set(filter(lambda kind: str(kind).startswith("cpu"), ran)) == {"cpu"}
    ran.clear()
    actual = values(name, "--device", "cpu:0")
    assert "cpu:0" in ran
    assert actual.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(actual[key], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_device_or_a_precision_that_there_is_not_is_one_line_before_work_begins(
    refused, values, places, name, tmp_path
):
    command = [part.format(**places, out=tmp_path / "out") for part in COMMANDS[name]]
    for device in ("abacus", "cuda:99"):
        message = refused(*command, "--device", device)
        assert f"The device {device!r} is not available: this machine has cpu" in message
    assert "The device 'cpi' (did you mean 'cpu'?) is not available" in refused(*command, "--device", "cpi")
    assert "'int9' is not one of 'fp32', 'bf16', 'int8' (did you mean 'int8'?)." in refused(
        *command, "--precision", "int9"
    )
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_were_saved_as_int8_have_no_other_precision(refused, run, values, places, name, tmp_path):
    kind, saved = (ElmoForTokenClassification, "head") if name == "predict" else (ElmoForPreTraining, "model")
    kind.from_pretrained(places[saved]).quantize().save_pretrained(tmp_path / "int8")
    ElmoTokenizer.from_pretrained(places[saved]).save_pretrained(tmp_path / "int8")
    changed = places | {saved: tmp_path / "int8"}
    command = [part.format(**changed, out=tmp_path / "out") for part in COMMANDS[name]]
    if name == "neighbors":
        command += ["--model", tmp_path / "int8"]  # else it is that of the index
    message = f"{tmp_path / 'int8'} was saved as int8 and cannot be loaded in bf16: use --precision int8"
    assert message in refused(*command, "--precision", "bf16")
    assert run(*command, "--precision", "int8")[0] == 0
