"""Coreference: spans, pruning, antecedents, the loss and the clusters."""

import pytest
import torch
from torch.testing import assert_close
from transformers import Trainer, TrainingArguments, set_seed

from elmo_hf import ElmoConfig, ElmoForCoreference, ElmoTokenizer
from elmo_hf.data.coreference import CoreferenceDocument
from elmo_hf.finetuning.tasks import CoreferenceTask
from elmo_hf.modeling.modeling_coreference_elmo import _all_spans, _prune, _raise_wanted
from tests.models import TINY

FIELDS = {"task_layer_size": 4, "span_size": 5, "max_span_width": 3, "span_ratio": 1.0}
TOKENIZER, TASK = ElmoTokenizer(), CoreferenceTask()
DOCUMENTS = [
    CoreferenceDocument("a", [["the", "cat", "sat"], ["it", "ran"]], [[(0, 1), (3, 3)]]),
    CoreferenceDocument(
        "b", [["a", "dog"], ["x"], ["he", "saw", "a", "dog", "run"]], [[(0, 1), (5, 6)], [(2, 2), (3, 3)]]
    ),
]


def new_model(**fields) -> ElmoForCoreference:
    torch.manual_seed(0)
    return ElmoForCoreference(ElmoConfig(**(TINY | FIELDS | fields))).eval()


def batch_of(*documents):
    return TASK.collate([TASK.features(document, TOKENIZER) for document in documents], TOKENIZER)


def test_candidates_are_the_spans_inside_a_sentence():
    assert _all_spans(torch.tensor([3, 1]), 2).tolist() == [[0, 0], [0, 1], [1, 1], [1, 2], [2, 2], [3, 3]]
    assert _all_spans(torch.tensor([2, 0, 1]), 9).tolist() == [[0, 0], [0, 1], [1, 1], [2, 2]]


def test_the_best_spans_are_kept_and_none_crosses_a_better_one():
    spans = torch.tensor([[0, 1], [1, 2], [1, 1], [2, 4], [3, 3]])
    scores = torch.tensor([3.0, 2.0, 1.0, 4.0, 0.0])
    assert _prune(spans, scores, 3).tolist() == [0, 2, 3]  # 1-2 crosses 0-1 and 2-4; 1-1 is inside 0-1
    assert _prune(spans, scores, 9).tolist() == [0, 2, 3, 4]
    assert _prune(spans, -scores, 2).tolist() == [2, 4]


def test_in_training_the_right_mentions_are_kept_whatever_their_scores():
    spans, scores = torch.tensor([[0, 0], [0, 1], [2, 2], [3, 3]]), torch.tensor([4.0, 3.0, 2.0, 1.0])
    labels = torch.tensor([[2, 2, 0], [3, 3, 0], [0, 1, 1], [-100, -100, -100]])  # 0-1 is the only one of its cluster
    raised = _raise_wanted(spans, scores, labels)
    assert raised.tolist() == [4.0, 3.0, torch.inf, torch.inf]
    model, batch = new_model(span_ratio=0.4), batch_of(DOCUMENTS[0])
    ids, mask = (batch["input_ids"], batch["char_ids"]), batch["attention_mask"] != 0
    for wanted in ([[0, 1, 0], [3, 3, 0]], [[2, 2, 7], [4, 4, 7]]):
        assert model._scored_pairs(*ids, mask, torch.tensor(wanted))[0].tolist() == [span[:2] for span in wanted]


def test_in_training_all_right_mentions_are_kept_even_if_they_are_many_or_cross():
    model, batch = new_model(span_ratio=0.1), batch_of(DOCUMENTS[1])
    ids, mask = (batch["input_ids"], batch["char_ids"]), batch["attention_mask"] != 0
    assert len(model._scored_pairs(*ids, mask)[0]) == 1
    wanted = [[0, 1, 0], [3, 4, 0], [4, 5, 0], [5, 7, 3], [7, 7, 3]]
    assert model._scored_pairs(*ids, mask, torch.tensor(wanted))[0].tolist() == [span[:2] for span in wanted]


def test_the_scores_are_those_of_the_plain_formula():
    model, batch = new_model(max_antecedents=2), batch_of(DOCUMENTS[0])
    mask = batch["attention_mask"] != 0
    spans, scores = model._scored_pairs(batch["input_ids"], batch["char_ids"], mask)
    inputs, words, _ = model._words(batch["input_ids"], batch["char_ids"], mask)
    parts, pairs = model.spans, model.antecedents
    vectors, mentions = [], []
    for first, last in spans.tolist():
        weights = parts.attention(words[first : last + 1]).squeeze(-1).softmax(0)
        head = parts.head(weights @ inputs[first : last + 1])
        vector = parts.first(words[first]) + parts.last(words[last]) + head + parts.widths.weight[last - first]
        vectors.append(vector.relu())
        mentions.append(parts.score(parts.hidden(vectors[-1]).relu()).squeeze())
    for span in range(len(spans)):
        expected = [torch.tensor(0.0)]
        for distance in (1, 2):
            if (other := span - distance) >= 0:
                one, two = vectors[span], vectors[other]
                hidden = pairs.span(one) + pairs.antecedent(two) + pairs.product(one * two)
                hidden = (hidden + pairs.distances.weight[distance - 1]).relu()
                score = pairs.score(pairs.hidden(hidden).relu()).squeeze()
                expected.append(score + mentions[span] + mentions[other])
        assert_close(scores[span, : len(expected)], torch.stack(expected))
        assert bool((scores[span, len(expected) :] < -1e3).all())


def test_the_loss_is_the_likelihood_of_all_right_antecedents():
    model = new_model()
    spans = torch.tensor([[0, 0], [1, 1], [2, 2]])
    scores = torch.tensor([[0.0, -1e4, -1e4], [0.0, 1.0, -1e4], [0.0, 2.0, 3.0]])
    labels = torch.tensor([[0, 0, 5], [1, 1, 5], [2, 2, 5], [9, 9, 5], [-100, -100, -100]])
    second, third = scores[1].softmax(0), scores[2].softmax(0)
    assert_close(model._loss(spans, scores, labels), -second[1].log() - (third[1] + third[2]).log())
    assert_close(model._loss(spans, scores, labels[:0]), -second[0].log() - third[0].log())


def test_spans_are_linked_through_their_antecedents():
    spans = torch.tensor([[0, 0], [1, 1], [2, 2], [4, 5], [7, 7]])
    scores = torch.zeros(5, 5) - 1
    for span, choice in enumerate([0, 1, 2, 0, 1]):  # 1 → 0, 2 → 0, 4 → 3
        scores[span, choice] = 1
    assert ElmoForCoreference._clusters(spans, scores) == [(0, 0, 0), (1, 1, 0), (2, 2, 0), (4, 5, 1), (7, 7, 1)]


def test_documents_of_a_batch_do_not_see_each_other():
    model, batch = new_model(), batch_of(*DOCUMENTS)
    both = model(**batch)
    singles = [model(**batch_of(document)) for document in DOCUMENTS]
    for row, single in enumerate(singles):
        clusters = both.clusters[row]
        assert torch.equal(clusters[clusters[:, 0] != -100], single.clusters[0])
    mentions = [2, 4]
    expected = sum(single.loss * count for single, count in zip(singles, mentions, strict=True)) / 6
    assert_close(both.loss, expected)
    assert_close(model(**batch, num_items_in_batch=36).loss, expected / 2)


def test_malformed_inputs_are_named():
    model, batch = new_model(), batch_of(*DOCUMENTS)
    for ids in ([0, 0, 1, 0, 1], [1, 1, 2, 2, 2]):
        with pytest.raises(ValueError, match="`document_ids` must number the documents from 0"):
            model(**(batch | {"document_ids": torch.tensor(ids)}))
    with pytest.raises(ValueError, match="labels"):
        model(**(batch | {"labels": batch["labels"][:1]}))


def test_a_document_without_words_has_no_clusters():
    model = new_model()
    batch = TOKENIZER([[]], is_split_into_words=True, return_tensors="pt")
    assert model(**batch).clusters.shape == (1, 0, 3)


def test_the_layers_of_a_frozen_bilm_are_cached():
    model, batch = new_model(), batch_of(*DOCUMENTS)
    expected = model(**batch)
    cache = model.cache_layers()
    for _ in range(2):
        assert_close(model(**batch).loss, expected.loss)
    assert len(cache) == 5


def test_a_saved_head_gives_the_same_clusters(tmp_path):
    model, batch = new_model(word_vector_size=3, elmo_places="both"), batch_of(DOCUMENTS[0])
    batch["input_ids"] = batch["input_ids"].clamp(max=2)
    model.save_pretrained(tmp_path)
    output, expected = ElmoForCoreference.from_pretrained(tmp_path)(**batch), model(**batch)
    assert_close(output.loss, expected.loss)
    assert torch.equal(output.clusters, expected.clusters)


class Stories(torch.utils.data.Dataset):
    """A name and the pronouns after it are one cluster; other words are none."""

    names = ("Anna", "Bert", "Cora")

    def __len__(self):
        return 24

    def __getitem__(self, index):
        sentences = [[self.names[index % 3], "ran"], ["so", "she", "sat"], ["now", "dog", "she"]][: 2 + index % 2]
        mentions = [(0, 0), (3, 3), (7, 7)][: len(sentences)]
        return TASK.features(CoreferenceDocument(str(index), sentences, [mentions]), TOKENIZER)


@pytest.mark.medium
def test_the_trainer_teaches_a_tiny_task(tmp_path):
    set_seed(0)
    fields = {"elmo_dropout": 0.0, "classifier_dropout": 0.0, "span_size": 16, "task_layer_size": 8}
    model = ElmoForCoreference(ElmoConfig(**(TINY | FIELDS | fields)))
    arguments = TrainingArguments(
        str(tmp_path), num_train_epochs=15, learning_rate=0.02, per_device_train_batch_size=4,
        per_device_eval_batch_size=5, report_to="none", disable_tqdm=True, use_cpu=True, save_strategy="no",
        remove_unused_columns=False,
    )  # fmt: skip
    trainer = Trainer(
        model=model, args=arguments, train_dataset=Stories(), eval_dataset=Stories(), compute_metrics=TASK.metrics,
        data_collator=lambda features: TASK.collate(features, TOKENIZER),
    )  # fmt: skip
    trainer.train()
    assert trainer.evaluate()["eval_f1"] == pytest.approx(1)


@pytest.mark.medium
def test_the_memory_for_a_document_of_2000_words_is_bounded():
    """Elements of the largest tensors, counted rather than measured: none grows with the square of the words."""
    model = new_model(span_ratio=0.4, max_antecedents=50, max_span_width=10)
    largest = 0
    original = torch.nn.Module.__call__

    def call(module, *inputs, **kwargs):
        nonlocal largest
        output = original(module, *inputs, **kwargs)
        if isinstance(output, torch.Tensor):
            largest = max(largest, output.numel())
        return output

    document = CoreferenceDocument("long", [["the", "cat", "saw", "a", "dog"]] * 400, [])
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.Module, "__call__", call)
        clusters = model(**batch_of(document)).clusters
    assert clusters.shape[0] == 1
    assert largest <= 0.4 * 2000 * 50 * FIELDS["span_size"]  # kept spans × antecedents × span_size


def test_a_document_without_mentions_has_a_finite_loss_and_gradient():
    model = new_model().train()
    batch = batch_of(CoreferenceDocument("n", [["the", "cat", "sat"]], []))
    loss = model(**batch, num_items_in_batch=torch.tensor(0)).loss
    loss.backward()
    assert loss.isfinite()
    assert all(part.grad.isfinite().all() for part in model.parameters() if part.grad is not None)
