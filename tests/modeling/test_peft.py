"""PEFT's adapters on the model and its heads: every task type that applies trains with the Trainer."""

import pytest
import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import Dataset
from transformers import DataCollatorForTokenClassification, DataCollatorWithPadding, Trainer, TrainingArguments

from elmo_hf import ElmoConfig, ElmoForSequenceClassification, ElmoForTokenClassification, ElmoModel, ElmoTokenizer
from tests.models import TINY

pytestmark = pytest.mark.medium

TOKENIZER = ElmoTokenizer()
SENTENCES = ["the cat sat on a mat", "a dog", "the mat sat", "Anna saw the dog today"]
CLASSES = {
    TaskType.TOKEN_CLS: ElmoForTokenClassification,
    TaskType.SEQ_CLS: ElmoForSequenceClassification,
    TaskType.FEATURE_EXTRACTION: ElmoModel,
}
HEADS = [ElmoForTokenClassification, ElmoForSequenceClassification]


class Sentences(Dataset):
    """Sentences with the labels that a task type asks for."""

    def __init__(self, task_type: TaskType):
        self.items = []
        for row, sentence in enumerate(SENTENCES):
            item = dict(TOKENIZER(sentence))
            if task_type == TaskType.TOKEN_CLS:
                item["labels"] = [-100] + [row % 2] * (len(item["input_ids"]) - 2) + [-100]
            else:
                item["label"] = row % 2
            self.items.append(item)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def new_model(kind, **fields):
    torch.manual_seed(0)
    return kind(ElmoConfig(**TINY, num_labels=2, task_layer_size=3, **fields))


def distance_between_classes(outputs, labels, num_items_in_batch=None):
    """A loss on the encoder's vectors: those of the second class should be longer."""
    norms = outputs["last_hidden_state"].norm(dim=-1).mean(dim=-1)
    return ((1 - 2 * labels) * norms).mean()


@pytest.mark.parametrize("freeze_bilm", [True, False])
@pytest.mark.parametrize("task_type", CLASSES, ids=str)
def test_an_adapter_of_every_task_type_trains_with_the_trainer(tmp_path, task_type, freeze_bilm):
    model = new_model(CLASSES[task_type], freeze_bilm=freeze_bilm)
    adapted = get_peft_model(model, LoraConfig(task_type=task_type, r=2, target_modules=["projection"]))
    before = {name: parameter.detach().clone() for name, parameter in adapted.named_parameters()}
    is_tagger = task_type == TaskType.TOKEN_CLS
    Trainer(
        model=adapted,
        args=TrainingArguments(
            output_dir=str(tmp_path), max_steps=2, learning_rate=0.1, report_to="none", disable_tqdm=True, use_cpu=True,
            save_strategy="no", label_names=["labels"],
        ),
        train_dataset=Sentences(task_type),
        data_collator=(DataCollatorForTokenClassification if is_tagger else DataCollatorWithPadding)(TOKENIZER),
        compute_loss_func=distance_between_classes if task_type == TaskType.FEATURE_EXTRACTION else None,
    ).train()  # fmt: skip
    changed = {name for name, parameter in adapted.named_parameters() if not torch.equal(parameter, before[name])}
    assert changed == {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert any("lora_B" in name for name in changed)
    assert any("classifier" in name for name in changed) == (task_type != TaskType.FEATURE_EXTRACTION)


TARGETS = {"highway layers": ["carry", "transform"], "all linear layers": "all-linear"}
HIGHWAY = {f"highways.0.{name}" for name in ("carry", "transform")}


@pytest.mark.parametrize("packs", [True, False], ids=["packed", "plain"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [*HEADS, ElmoModel], ids=lambda kind: kind.__name__)
def test_a_merged_adapter_gives_what_it_gave_before_it_was_merged(kind, target, packs):
    model, batch = new_model(kind).eval(), TOKENIZER(SENTENCES, padding=True, return_tensors="pt")
    model.pack_weights(packs)
    model.cache_words(100)
    with torch.no_grad():
        without = model(**batch)[0]
        config = LoraConfig(r=2, lora_alpha=50, target_modules=TARGETS[target], init_lora_weights=False)
        adapted = get_peft_model(model, config).eval()
        adapters = {name.rpartition(".")[0] for name, _ in adapted.named_modules() if name.endswith(".lora_A")}
        assert all(any(name.endswith(layer) for name in adapters) for layer in HIGHWAY)
        assert any(name.endswith("projection") for name in adapters) == (target == "all linear layers")
        expected = adapted(**batch)[0]
        assert (expected - without).abs().max() > 1e-3
        adapted.merge_adapter()
        torch.testing.assert_close(adapted(**batch)[0], expected)
        adapted.unmerge_adapter()
        torch.testing.assert_close(adapted(**batch)[0], expected)
        torch.testing.assert_close(adapted.merge_and_unload()(**batch)[0], expected)


def test_an_adapter_on_the_highway_layers_gets_the_gradients_of_the_merged_weight():
    """With dW = B A, the gradient of B is that of the weight times A transposed."""
    batch = TOKENIZER(SENTENCES, padding=True, return_tensors="pt")
    model = new_model(ElmoForTokenClassification)
    config = LoraConfig(r=2, lora_alpha=2, target_modules=["carry", "transform"], init_lora_weights=False)
    adapted = get_peft_model(model, config).eval()
    adapted(**batch).logits.square().sum().backward()
    layers = {name: module for name, module in adapted.named_modules() if hasattr(module, "lora_A")}
    assert len(layers) == 2
    actual = {name: layer.lora_B["default"].weight.grad for name, layer in layers.items()}
    inner = {name: layer.lora_A["default"].weight.detach().clone() for name, layer in layers.items()}
    merged = adapted.merge_and_unload()
    merged.requires_grad_(True)
    merged(**batch).logits.square().sum().backward()
    gradients = {f"base_model.model.{name}": module for name, module in merged.named_modules()}
    for name, gradient in actual.items():
        torch.testing.assert_close(gradient, gradients[name].weight.grad @ inner[name].T)


@pytest.mark.parametrize("kind", [*HEADS, ElmoModel], ids=lambda kind: kind.__name__)
def test_arguments_of_stock_models_are_taken_where_they_ask_for_nothing(kind):
    model, batch = new_model(kind).eval(), TOKENIZER(SENTENCES, padding=True, return_tensors="pt")
    expected = model(**batch)[0]
    for value in (None, False):
        output = model(**batch, inputs_embeds=None, output_attentions=value, return_dict=True)
        torch.testing.assert_close(output[0], expected)
    output = model(**batch, return_dict=False)
    assert isinstance(output, tuple)
    torch.testing.assert_close(output[0], expected)


@pytest.mark.parametrize("kind", [*HEADS, ElmoModel], ids=lambda kind: kind.__name__)
def test_attentions_are_refused(kind):
    batch = TOKENIZER(SENTENCES, padding=True, return_tensors="pt")
    with pytest.raises(ValueError, match="no attention"):
        new_model(kind)(**batch, output_attentions=True)


@pytest.mark.parametrize("kind", HEADS, ids=lambda kind: kind.__name__)
def test_a_head_refuses_vectors_instead_of_ids(kind):
    vectors = torch.zeros(1, 3, TINY["projection_size"])
    with pytest.raises(ValueError, match=r"`inputs_embeds`.*`char_ids`"):
        new_model(kind)(inputs_embeds=vectors)
