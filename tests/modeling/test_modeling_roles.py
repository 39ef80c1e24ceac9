"""Semantic roles: the predicate is marked, and the decoded labels are valid BIO."""

from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close
from transformers import Trainer, TrainingArguments, set_seed

from elmo_hf import ElmoConfig, ElmoForSemanticRoles, ElmoTokenizer
from elmo_hf.modeling.task_layers_elmo import allowed_transitions, best_valid_labels
from tests.models import TINY

LABELS = ["O", "B-A0", "I-A0", "B-A1", "I-A1"]
FIELDS = {"id2label": dict(enumerate(LABELS)), "task_layer_size": 3, "predicate_size": 2}
TOKENIZER = ElmoTokenizer()
KINDS = [{}, {"tag_decoder": "crf"}, {"task_lstm_type": "alternating", "num_task_layers": 3}, {"num_task_layers": 0}]


def new_model(**fields) -> ElmoForSemanticRoles:
    torch.manual_seed(0)
    model = ElmoForSemanticRoles(ElmoConfig(**(TINY | FIELDS | fields))).eval()
    with torch.no_grad():
        model.classifier.weight.mul_(20)
    return model


def new_batch(sentences, predicates):
    batch = TOKENIZER(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    marked = torch.zeros_like(batch["input_ids"])
    marked[range(len(predicates)), [place + 1 for place in predicates]] = 1
    return batch | {"predicate_mask": marked}


BATCH = new_batch([["a", "bc", "d"], ["the", "cat", "sat", "on", "mat"], ["x"]], [1, 2, 0])


def test_the_emissions_are_those_of_the_words_beside_the_embedding_of_the_mark():
    model = new_model()
    batch = {name: values[:1, :5] for name, values in BATCH.items()}
    elmo = model.input_mixer(model.elmo(batch["input_ids"], batch["char_ids"], output_hidden_states=True).hidden_states)
    marks = model.predicate_embeddings.weight[[0, 1, 0]].unsqueeze(0)
    inputs = torch.cat([elmo[:, 1:4], marks], dim=-1)
    words = model.task_lstm(inputs, torch.ones(1, 3, dtype=torch.bool))
    expected = model.classifier(words)
    decoded = best_valid_labels(expected, torch.ones(1, 3, dtype=torch.bool), LABELS)
    assert torch.equal(model(**batch).logits[:, 1:4].argmax(-1), decoded)
    model.train()
    model.dropout.p = model.input_mixer.dropout.p = 0.0
    assert_close(model(**batch).logits[:, 1:4], expected)


@pytest.mark.parametrize("fields", KINDS, ids=str)
def test_another_predicate_gives_other_scores_and_padding_changes_nothing(fields):
    model = new_model(**fields)
    logits = model(**BATCH).logits
    single = model(**{name: values[:1, :5] for name, values in BATCH.items()}).logits
    assert_close(logits[:1, :5], single, atol=1e-5, rtol=1e-5)
    moved = BATCH | {"predicate_mask": BATCH["predicate_mask"].roll(-1, dims=1)}
    assert not torch.allclose(model(**moved).logits[1], logits[1])


@pytest.mark.parametrize("fields", KINDS, ids=str)
def test_the_labels_are_valid_bio(fields):
    first, transitions, _ = allowed_transitions(LABELS)
    model = new_model(**fields)
    for seed in range(5):
        torch.manual_seed(seed)
        torch.nn.init.normal_(model.classifier.weight, std=10.0)
        for row, length in zip(model(**BATCH).logits.argmax(-1).tolist(), (3, 5, 1), strict=True):
            labels = row[1 : length + 1]
            assert first[labels[0]]
            assert all(transitions[before][after] for before, after in pairwise(labels))


def test_the_best_valid_labels_are_those_of_an_exhaustive_search():
    torch.manual_seed(0)
    first, transitions, _ = allowed_transitions(LABELS)
    emissions = torch.randn(20, 3, 5) * 3
    decoded = best_valid_labels(emissions, torch.ones(20, 3, dtype=torch.bool), LABELS)
    sequences = [
        (one, two, three)
        for one in range(5) if first[one]
        for two in range(5) if transitions[one][two]
        for three in range(5) if transitions[two][three]
    ]  # fmt: skip
    for scores, labels in zip(emissions, decoded.tolist(), strict=True):
        best = max(
            sequences, key=lambda sequence: sum(float(scores[step, label]) for step, label in enumerate(sequence))
        )
        assert tuple(labels) == best


def test_a_missing_or_misplaced_mark_is_refused():
    model = new_model()
    unmarked = {name: values for name, values in BATCH.items() if name != "predicate_mask"}
    with pytest.raises(ValueError, match="mark it in `predicate_mask`"):
        model(**unmarked)
    with pytest.raises(ValueError, match="predicate_mask"):
        model(**unmarked, predicate_mask=torch.ones(3, 2))
    with pytest.raises(ValueError, match="`predicate_mask` marks padding"):
        model(**unmarked, predicate_mask=torch.ones_like(BATCH["predicate_mask"]))


def test_the_layers_of_a_sentence_are_cached_once_for_all_its_predicates():
    model = new_model(freeze_bilm=True)
    batch = new_batch([["the", "cat", "sat", "down"]] * 3, [0, 1, 2])
    expected = model(**batch).logits
    cache = model.cache_layers()
    assert_close(model(**batch).logits, expected)
    assert len(cache) == 1
    assert_close(model(**batch).logits, expected)


@pytest.mark.parametrize("fields", KINDS[:3], ids=str)
def test_a_saved_head_gives_the_same_labels(tmp_path, fields):
    model = new_model(**fields)
    model.save_pretrained(tmp_path)
    assert_close(ElmoForSemanticRoles.from_pretrained(tmp_path)(**BATCH).logits, model(**BATCH).logits)


class Marked(torch.utils.data.Dataset):
    """Words before the predicate are A0, words after it A1: only the mark tells them apart."""

    def __init__(self):
        self.rows = [(["a", "b", "c", "d", "e"], place) for place in range(5)] * 16

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def collate(rows):
    batch = new_batch([words for words, _ in rows], [place for _, place in rows])
    labels = torch.full(batch["input_ids"].shape, -100)
    for row, (words, predicate) in enumerate(rows):
        before, after = ["B-A0", *["I-A0"] * predicate][:predicate], len(words) - predicate - 1
        tags = [*before, "O", *["B-A1", *["I-A1"] * after][:after]]
        labels[row, 1 : len(words) + 1] = torch.tensor([LABELS.index(tag) for tag in tags])
    return batch | {"labels": labels}


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{}, {"task_lstm_type": "alternating", "num_task_layers": 2}], ids=str)
def test_the_trainer_teaches_a_task_that_only_the_mark_decides(tmp_path, fields):
    set_seed(0)
    sizes = FIELDS | {"task_layer_size": 12, "classifier_dropout": 0.0, "elmo_dropout": 0.0}
    model = ElmoForSemanticRoles(ElmoConfig(**(TINY | sizes | fields)))
    arguments = TrainingArguments(
        str(tmp_path), num_train_epochs=12, learning_rate=0.03, per_device_train_batch_size=8, report_to="none",
        disable_tqdm=True, use_cpu=True, save_strategy="no", remove_unused_columns=False,
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=Marked(), data_collator=collate)
    trainer.train()
    batch = collate(Marked().rows[:5])
    labels = batch.pop("labels")
    predicted = model.eval()(**batch).logits.argmax(-1)
    assert bool((predicted == labels)[labels != -100].all())
