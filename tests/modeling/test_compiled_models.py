"""
`torch.compile` on models and heads: batches of any shape give what the model gives, with and without gradients. The
backend `aot_eager` traces, functionalises and differentiates as the default backend does, without its C++ compiler.
"""

import pytest
import torch
from torch.testing import assert_close

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoModel,
    ElmoTokenizer,
)
from tests.modeling.test_trainer import new_head, new_trainer
from tests.models import TINY

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

HEAD = {"word_vector_size": 3, "elmo_places": "both", "task_layer_size": 3, "num_labels": 3}
MODELS = {
    "encoder": (ElmoModel, {}),
    "tagger": (ElmoForTokenClassification, HEAD),
    "classifier": (ElmoForSequenceClassification, HEAD | {"pooling": "attention"}),
    "language model": (ElmoForPreTraining, {}),
}
# Ragged: sentences end at different steps, others have more words than those before, one has none.
BATCHES = [["the cat", "it"], ["no", "a dog sat", ""]]


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_model_gives_the_same_for_ragged_batches(name):
    torch.manual_seed(0)
    kind, fields = MODELS[name]
    model = kind(ElmoConfig(**(TINY | fields))).eval()
    compiled = torch.compile(model, backend="aot_eager")
    for sentences in BATCHES:
        batch = ElmoTokenizer()(sentences, padding=True, return_tensors="pt")
        with torch.no_grad():
            expected, output = model(**batch), compiled(**batch)
        assert_close(output[0], expected[0], rtol=1e-5, atol=1e-5)


def test_a_compiled_model_has_the_same_gradients_for_ragged_batches():
    torch.manual_seed(0)
    model = ElmoModel(ElmoConfig(**TINY)).train()
    compiled = torch.compile(model, backend="aot_eager")
    gradients = []
    for run in (model, compiled):
        model.zero_grad()
        for sentences in BATCHES:
            run(
                **ElmoTokenizer()(sentences, padding=True, return_tensors="pt")
            ).last_hidden_state.square().sum().backward()
        gradients.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    assert_close(gradients[1], gradients[0])


def test_the_trainer_trains_a_compiled_head_to_the_same_losses(tmp_path):
    losses = []
    for compiled in (False, True):
        model = new_head("tagging", elmo_dropout=0.0, classifier_dropout=0.0, dropout=0.0, freeze_bilm=False)
        options = {"torch_compile": True, "torch_compile_backend": "aot_eager"} if compiled else {}
        trainer = new_trainer(
            "tagging", tmp_path / str(compiled), model, max_steps=2, logging_steps=1, save_strategy="no", **options
        )
        trainer.train()
        assert isinstance(trainer.model_wrapped, torch._dynamo.OptimizedModule) == compiled
        losses.append([record["loss"] for record in trainer.state.log_history if "loss" in record])
    assert len(losses[0]) == 2
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
