"""transformers' Trainer on the heads: it learns, resumes, groups by length, takes stock collators, runs in parallel."""

import json

import pytest
import torch
from torch.utils.data import Dataset
from transformers import (
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

from elmo_hf import (
    ElmoConfig,
    ElmoForPreTraining,
    ElmoForSequenceClassification,
    ElmoForTokenClassification,
    ElmoTokenizer,
    default_model,
)
from tests.launched import launch
from tests.models import TINY

pytestmark = pytest.mark.medium

NOUNS, VERBS, OTHERS = ["cat", "dog", "mat", "tree"], ["sat", "saw", "ran"], ["the", "a", "on", "now"]
TOKENIZER = ElmoTokenizer()
HEADS = {"tagging": ElmoForTokenClassification, "classification": ElmoForSequenceClassification}
SIZES = TINY | {"char_filters": [[1, 8], [2, 16], [3, 16]], "cell_size": 16, "projection_size": 8, "task_layer_size": 8}


class Sentences(Dataset):
    """Random words: the tag of each is its kind, the label of a sentence whether it has a verb."""

    def __init__(self, count: int, task: str, seed: int):
        generator = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(count):
            kinds = torch.randint(0, 3, (int(torch.randint(1, 7, (1,), generator=generator)),), generator=generator)
            words = [
                group[int(torch.randint(0, len(group), (1,), generator=generator))]
                for group in ((OTHERS, NOUNS, VERBS)[kind] for kind in kinds.tolist())
            ]
            item = dict(TOKENIZER(words, is_split_into_words=True))
            if task == "tagging":
                item["labels"] = [-100, *kinds.tolist(), -100]
            else:
                item["label"] = int((kinds == 2).any())
            self.items.append(item)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def new_head(task: str, **fields):
    set_seed(0)
    return HEADS[task](ElmoConfig(**(SIZES | {"num_labels": 3 if task == "tagging" else 2} | fields)))


def accuracy(prediction):
    predicted, wanted = prediction.predictions.argmax(-1), prediction.label_ids
    return {"accuracy": float((predicted == wanted)[wanted != -100].mean())}


def new_trainer(task: str, folder, model=None, **arguments) -> Trainer:
    collator = DataCollatorForTokenClassification if task == "tagging" else DataCollatorWithPadding
    defaults = {"learning_rate": 0.02, "num_train_epochs": 4, "per_device_train_batch_size": 16, "report_to": "none"}
    return Trainer(
        model=new_head(task) if model is None else model,
        args=TrainingArguments(output_dir=str(folder), disable_tqdm=True, use_cpu=True, **(defaults | arguments)),
        train_dataset=Sentences(160, task, seed=0),
        eval_dataset=Sentences(40, task, seed=1),
        data_collator=collator(TOKENIZER),
        compute_metrics=accuracy,
    )


@pytest.mark.parametrize(
    ("task", "fields"),
    [
        pytest.param("tagging", {}, marks=pytest.mark.slow),
        ("tagging", {"tag_decoder": "crf", "elmo_places": "both"}),
        pytest.param("classification", {}, marks=pytest.mark.slow),
        ("classification", {"pooling": "biattentive", "classifier_type": "maxout"}),
    ],
    ids=str,
)
def test_a_head_on_the_shipped_model_learns_a_tiny_task(tmp_path, task, fields):
    set_seed(0)
    labels = 3 if task == "tagging" else 2
    model = HEADS[task].from_pretrained(default_model(), num_labels=labels, task_layer_size=16, **fields)
    trainer = new_trainer(task, tmp_path, model, num_train_epochs=6, learning_rate=5e-3, save_strategy="no")
    trainer.train()
    assert trainer.evaluate()["eval_accuracy"] > 0.95


def test_default_arguments_and_batches_of_similar_length_work(tmp_path):
    for arguments in ({}, {"train_sampling_strategy": "group_by_length"}):
        trainer = new_trainer("tagging", tmp_path / str(len(arguments)), max_steps=3, **arguments)
        assert trainer.train().training_loss > 0


def test_a_resumed_training_has_the_same_losses(tmp_path):
    arguments = {"logging_steps": 1, "save_steps": 5, "max_steps": 10}
    whole = new_trainer("tagging", tmp_path, **arguments)
    whole.train()
    again = new_trainer("tagging", tmp_path, **arguments)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    losses = [
        [record["loss"] for record in trainer.state.log_history if "loss" in record] for trainer in (whole, again)
    ]
    assert losses[0] == losses[1]


def test_accumulated_steps_are_as_large_batches(tmp_path):
    losses = []
    for size, accumulate in ((16, 1), (4, 4)):
        model = new_head("tagging", elmo_dropout=0.0, classifier_dropout=0.0, mixer_l2=1.0)
        trainer = new_trainer(
            "tagging", tmp_path / str(size), model, per_device_train_batch_size=size,
            gradient_accumulation_steps=accumulate, max_steps=4, logging_steps=1,
        )  # fmt: skip
        trainer.train()
        losses.append([record["loss"] for record in trainer.state.log_history if "loss" in record])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_a_language_model_learns_from_what_the_tokenizer_and_a_stock_collator_give(tmp_path):
    set_seed(0)
    tokenizer = ElmoTokenizer(vocab=["<S>", "</S>", "<UNK>", *NOUNS, *VERBS, *OTHERS])
    items = [dict(tokenizer(f"the {noun} {verb} on the mat")) for noun in NOUNS for verb in VERBS]
    for item in items:
        item["labels"], item["backward_labels"] = [*item["input_ids"][1:], -100], [-100, *item["input_ids"][:-1]]
    model = ElmoForPreTraining(ElmoConfig(**(SIZES | {"vocab_size": tokenizer.vocab_size})))
    options = {"num_train_epochs": 20, "per_device_train_batch_size": 3, "gradient_accumulation_steps": 2}
    options |= {"learning_rate": 0.02, "report_to": "none", "disable_tqdm": True, "use_cpu": True}
    trainer = Trainer(
        model=model,
        args=TrainingArguments(output_dir=str(tmp_path), **options),
        train_dataset=items,
        eval_dataset=items,
        data_collator=DataCollatorForTokenClassification(tokenizer),
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before / 2


def test_predictions_are_logits_alone(tmp_path):
    trainer = new_trainer("tagging", tmp_path, new_head("tagging", tag_decoder="crf", output_hidden_states=True))
    prediction = trainer.predict(Sentences(5, "tagging", seed=2))
    assert prediction.predictions.shape[-1] == 3


PARALLEL = """
import json, sys
from elmo_hf.runtime.processes import shut_down, this_process
from tests.modeling.test_trainer import new_head, new_trainer

folder, batch_size = sys.argv[1:]
trainer = new_trainer(
    "tagging", folder, new_head("tagging", elmo_dropout=0.0, classifier_dropout=0.0, mixer_l2=1.0), max_steps=4,
    per_device_train_batch_size=int(batch_size), logging_steps=1, save_strategy="no",
)
trainer.train()
found = {
    "weights": sum(parameter.double().sum().item() for parameter in trainer.model.parameters()),
    "losses": [record["loss"] for record in trainer.state.log_history if "loss" in record],
}
with open(f"{folder}/process-{trainer.args.process_index}.json", "w") as file:
    json.dump(found, file)
shut_down(this_process())
"""


@pytest.mark.slow
def test_two_processes_train_as_one_with_batches_twice_as_large(tmp_path):
    def run(processes: int, batch_size: int) -> list[dict]:
        script, folder = tmp_path / "train.py", tmp_path / str(processes)
        script.write_text(PARALLEL)
        folder.mkdir()
        launch(processes, [script, folder, batch_size])
        return [json.loads((folder / f"process-{process}.json").read_text()) for process in range(processes)]

    one, other = run(2, 8)
    assert one["weights"] == other["weights"]
    (single,) = run(1, 16)
    assert one["losses"] == pytest.approx(single["losses"], rel=1e-3)
